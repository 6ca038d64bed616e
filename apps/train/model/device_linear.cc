#include "apps/train/model/device_linear.h"

namespace troupe::train {

using kernels::DType;
using kernels::cuda::MatmulArguments;
using kernels::cuda::Table;

void device_add(const Cuda& cuda, float* out, const float* in, std::size_t count) {
  kernels::cuda::ReduceArguments a{};
  a.out = out;
  a.inputs[0] = out;
  a.inputs[1] = in;
  a.input_count = 2;
  a.count = count;
  a.type = DType::kF32;
  a.op = kernels::ReduceOp::kSum;
  a.ranks = 1;
  cuda.run("reduce", &Table::reduce, &a);
}

void DeviceLinear::carve(DeviceCarver& carver, std::size_t wide, std::size_t weights) {
  if (precision_ == Precision::kFloat) return;
  carver.take(x_, wide);
  carver.take(y_, wide);
  carver.take(weights_, weights);
  carver.take(wide_weights_, weights);
}

void device_narrow(const Cuda& cuda, std::uint16_t* to, const float* from, std::size_t count) {
  cuda.run("cast", &Table::cast, to, DType::kBF16, from, DType::kF32, count);
}

void device_widen(const Cuda& cuda, float* to, const std::uint16_t* from, std::size_t count) {
  cuda.run("cast", &Table::cast, to, DType::kF32, from, DType::kBF16, count);
}

void DeviceLinear::forward(const DeviceParameters& p, const Layer& l, std::size_t rows, const float* x,
                           float* y) const {
  const bool half = precision_ == Precision::kBFloat16, biased = l.bias != kNoBias;
  MatmulArguments a{.m = rows,
                    .n = l.out,
                    .k = l.in,
                    .a = x,
                    .b = p.values + l.weight,
                    .a_stride = l.in,
                    .b_stride = l.in,
                    .a_transposed = false,
                    .b_transposed = true,
                    .c = y,
                    .c_stride = l.out,
                    .accumulate = false,
                    .bias = biased ? p.values + l.bias : nullptr,
                    .type = DType::kF32};
  if (half) {
    device_narrow(*cuda_, x_, x, rows * l.in);
    a.a = x_, a.b = p.working + l.weight, a.c = y_, a.type = DType::kBF16;
    if (biased) a.bias = p.working + l.bias;
  }
  cuda_->run("matmul", &Table::matmul, &a);
  if (half) device_widen(*cuda_, y, y_, rows * l.out);
}

void DeviceLinear::backward(const DeviceParameters& p, const Layer& l, std::size_t rows, const float* x,
                            const float* dy, float* dx) const {
  const bool half = precision_ == Precision::kBFloat16;
  if (l.bias != kNoBias) cuda_->run("bias_backward", &Table::bias_backward, rows, l.out, dy, p.gradients + l.bias);
  MatmulArguments weight{.m = l.out, .n = l.in, .k = rows, .a = dy, .b = x, .a_stride = l.out, .b_stride = l.in,
                         .a_transposed = true, .b_transposed = false, .c = p.gradients + l.weight, .c_stride = l.in,
                         .accumulate = true, .bias = nullptr, .type = DType::kF32};
  MatmulArguments input{.m = rows, .n = l.in, .k = l.out, .a = dy, .b = p.values + l.weight, .a_stride = l.out,
                        .b_stride = l.in, .a_transposed = false, .b_transposed = false, .c = dx, .c_stride = l.in,
                        .accumulate = false, .bias = nullptr, .type = DType::kF32};
  if (!half) {
    cuda_->run("matmul", &Table::matmul, &weight);
    cuda_->run("matmul", &Table::matmul, &input);
    return;
  }
  device_narrow(*cuda_, y_, dy, rows * l.out);
  device_narrow(*cuda_, x_, x, rows * l.in);
  weight.a = y_, weight.b = x_, weight.c = weights_, weight.accumulate = false, weight.type = DType::kBF16;
  cuda_->run("matmul", &Table::matmul, &weight);
  device_widen(*cuda_, wide_weights_, weights_, l.out * l.in);
  device_add(*cuda_, p.gradients + l.weight, wide_weights_, l.out * l.in);
  input.a = y_, input.b = p.working + l.weight, input.c = x_, input.type = DType::kBF16;
  cuda_->run("matmul", &Table::matmul, &input);
  device_widen(*cuda_, dx, x_, rows * l.in);
}

}  // namespace troupe::train
