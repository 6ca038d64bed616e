// First places and memory, then the passes.
#include "apps/train/model/gpt_device.h"

#include <algorithm>
#include <string>

#include "kernels/cpu/rows/rows.h"

namespace troupe::train {

using kernels::cuda::AttentionArguments;
using kernels::cuda::Table;

namespace {

constexpr std::size_t kWidestHead = 128;  // of the float attention
constexpr float kNormEpsilon = 1e-5F;
constexpr std::size_t kTileRows = 128;  // fast products come in tiles

// Positions a slice of the head: whole tiles where there are several.
std::size_t slice_of(std::size_t logits, std::size_t vocab) {
  const std::size_t positions = std::max<std::size_t>(1, logits / vocab);
  return positions < kTileRows ? positions : positions / kTileRows * kTileRows;
}

}  // namespace

Status check_device_heads(const GptOptions& gpt, Precision precision) {
  const std::size_t width = gpt.channels / gpt.heads;
  const std::size_t widest = precision == Precision::kFloat ? kWidestHead : kernels::cuda::kNarrowHead;
  if (width <= widest) return {};
  return InvalidArgumentError("GPT on a GPU: heads of " + std::to_string(width) +
                              " channels; the attention has at most " + std::to_string(widest));
}

GptDevice::GptDevice(const Cuda& cuda, const GptShape& shape, const GptDeviceOptions& options)
    : cuda_(&cuda),
      shape_(shape),
      options_(options),
      linear_(cuda, options.precision),
      head_positions_(slice_of(options.head_logits, shape.options().vocab)),
      streams_(shape.options().layers + 1),
      tapes_(shape.options().layers) {
  check_device_heads(shape.options(), options.precision).value();
}

// Places all ranges; with no memory yet it only counts.
std::size_t GptDevice::carve(std::size_t rows, std::byte* memory) {
  const GptOptions& o = shape_.options();
  const std::size_t n = rows * o.time, c = o.channels, slice = std::min(head_positions_, n);
  DeviceCarver carver(memory);
  for (float*& stream : streams_) carver.take(stream, n * c);
  for (Tape& t : tapes_) {
    carver.take(t.qkv, n * 3 * c);
    for (float** narrow : {&t.heads, &t.middle}) carver.take(*narrow, n * c);
    carver.take(t.fc, n * 4 * c);
    for (float** one : {&t.mean1, &t.rstd1, &t.mean2, &t.rstd2}) carver.take(*one, n);
    carver.take(t.lse, n * o.heads);
  }
  for (float** narrow : {&final_norm_, &norm_, &dstream_, &dnarrow_}) carver.take(*narrow, n * c);
  for (float** wide : {&gelu_, &dwide_}) carver.take(*wide, n * 4 * c);
  for (float** one : {&final_mean_, &final_rstd_, &row_loss_}) carver.take(*one, n);
  carver.take(delta_, n * o.heads);
  carver.take(logits_, slice * o.vocab);
  carver.take(results_, 2 * ((n + slice - 1) / slice));
  linear_.carve(carver, std::max(n * 4 * c, slice * o.vocab), std::max(4 * c, o.vocab) * c);
  if (options_.precision == Precision::kBFloat16) {
    for (std::uint16_t** wide : {&qkv_half_, &dqkv_half_}) carver.take(*wide, n * 3 * c);
    for (std::uint16_t** narrow : {&heads_half_, &dheads_half_}) carver.take(*narrow, n * c);
  }
  return carver.used();
}

void GptDevice::reserve(std::size_t rows) {
  if (rows <= capacity_) return;
  capacity_ = 0;
  memory_ = {};  // before the new one: the peak is one batch, not two
  memory_ = DeviceBuffer<std::byte>(*cuda_, carve(rows, nullptr));
  carve(rows, memory_.data());
  capacity_ = rows;
}

DeviceLinear::Layer GptDevice::layer(std::size_t index, Which which) const {
  const std::size_t c = shape_.options().channels, at = shape_.block_at(index);
  const GptShape::Block& b = shape_.block();
  switch (which) {
    case Which::kQkv: return {c, 3 * c, at + b.qkv_w, at + b.qkv_b};
    case Which::kOut: return {c, c, at + b.out_w, at + b.out_b};
    case Which::kFc: return {c, 4 * c, at + b.fc_w, at + b.fc_b};
    case Which::kProj: break;
  }
  return {4 * c, c, at + b.proj_w, at + b.proj_b};
}

DeviceLinear::Layer GptDevice::head_layer() const {
  return {shape_.options().channels, shape_.options().vocab, 0, DeviceLinear::kNoBias};  // wte once more
}

GptDevice::Norm GptDevice::norm1(std::size_t index) const {
  const std::size_t at = shape_.block_at(index);
  return {at + shape_.block().ln1_w, at + shape_.block().ln1_b, tapes_[index].mean1, tapes_[index].rstd1};
}
GptDevice::Norm GptDevice::norm2(std::size_t index) const {
  const std::size_t at = shape_.block_at(index);
  return {at + shape_.block().ln2_w, at + shape_.block().ln2_b, tapes_[index].mean2, tapes_[index].rstd2};
}
GptDevice::Norm GptDevice::final_norm() const {
  return {shape_.ln_f(), shape_.ln_f() + shape_.options().channels, final_mean_, final_rstd_};
}

void GptDevice::forward_norm(const Norm& norm, const float* x, float* y) const {
  cuda_->run("layernorm_forward", &Table::layernorm_forward, positions(), shape_.options().channels, x,
             p_.values + norm.weight, p_.values + norm.bias, y, norm.mean, norm.rstd, kNormEpsilon);
}

// dx may be dy.
void GptDevice::backward_norm(const Norm& norm, const float* x, const float* dy, float* dx) const {
  cuda_->run("layernorm_backward", &Table::layernorm_backward, positions(), shape_.options().channels, x,
             p_.values + norm.weight, norm.mean, norm.rstd, dy, dx, p_.gradients + norm.weight,
             p_.gradients + norm.bias);
}

void GptDevice::attention_forward(const Tape& t) const {
  const GptOptions& o = shape_.options();
  const std::size_t count = positions() * o.channels;
  AttentionArguments a{.batch = rows_, .time = o.time, .heads = o.heads, .channels = o.channels, .qkv = t.qkv,
                       .out = t.heads, .lse = t.lse, .dout = nullptr, .dqkv = nullptr, .delta = nullptr};
  if (options_.precision == Precision::kFloat) return cuda_->run("attention_forward", &Table::attention_forward, &a);
  device_narrow(*cuda_, qkv_half_, t.qkv, 3 * count);
  a.qkv = qkv_half_, a.out = heads_half_;
  cuda_->run("attention_bf16_forward", &Table::attention_bf16_forward, &a);
  device_widen(*cuda_, t.heads, heads_half_, count);
}

void GptDevice::attention_backward(const Tape& t, const float* dout, float* dqkv) const {
  const GptOptions& o = shape_.options();
  const std::size_t count = positions() * o.channels;
  AttentionArguments a{.batch = rows_, .time = o.time, .heads = o.heads, .channels = o.channels, .qkv = t.qkv,
                       .out = t.heads, .lse = t.lse, .dout = dout, .dqkv = dqkv, .delta = delta_};
  if (options_.precision == Precision::kFloat) return cuda_->run("attention_backward", &Table::attention_backward, &a);
  device_narrow(*cuda_, qkv_half_, t.qkv, 3 * count);
  device_narrow(*cuda_, heads_half_, t.heads, count);  // exactly what it was
  device_narrow(*cuda_, dheads_half_, dout, count);
  a.qkv = qkv_half_, a.out = heads_half_, a.dout = dheads_half_, a.dqkv = dqkv_half_;
  cuda_->run("attention_bf16_backward", &Table::attention_bf16_backward, &a);
  device_widen(*cuda_, dqkv, dqkv_half_, 3 * count);
}

void GptDevice::forward(const std::int32_t* tokens) const {
  const GptOptions& o = shape_.options();
  cuda_->run("embedding_forward", &Table::embedding_forward, rows_, o.time, o.channels, tokens, p_.values,
             p_.values + shape_.wpe(), streams_[0]);
  for (std::size_t index = 0; index < o.layers; ++index) forward_block(index);
  forward_norm(final_norm(), streams_.back(), final_norm_);
}

void GptDevice::forward_block(std::size_t index) const {
  const std::size_t n = positions(), count = n * shape_.options().channels;
  const Tape& t = tapes_[index];
  float *x = streams_[index], *y = streams_[index + 1];
  forward_norm(norm1(index), x, norm_);
  linear_.forward(p_, layer(index, Which::kQkv), n, norm_, t.qkv);
  attention_forward(t);
  linear_.forward(p_, layer(index, Which::kOut), n, t.heads, t.middle);
  device_add(*cuda_, t.middle, x, count);
  forward_norm(norm2(index), t.middle, norm_);
  linear_.forward(p_, layer(index, Which::kFc), n, norm_, t.fc);
  cuda_->run("gelu_forward", &Table::gelu_forward, 4 * count, t.fc, gelu_);
  linear_.forward(p_, layer(index, Which::kProj), n, gelu_, y);
  device_add(*cuda_, y, t.middle, count);
}

// Losses of all positions; with gradients dstream_ is written and the head's share of dwte added.
void GptDevice::head(const std::int32_t* targets, double divisor) const {
  const std::size_t c = shape_.options().channels, vocab = shape_.options().vocab;
  double* result = results_;
  for (std::size_t first = 0; first < positions(); first += head_positions_, result += 2) {
    const std::size_t n = std::min(head_positions_, positions() - first);
    const float* x = final_norm_ + first * c;
    linear_.forward(p_, head_layer(), n, x, logits_);
    const kernels::cuda::CrossEntropyArguments a{.rows = n,
                                                 .columns = vocab,
                                                 .logits = logits_,
                                                 .targets = targets + first,
                                                 .row_loss = row_loss_,
                                                 .dlogits = p_.gradients != nullptr ? logits_ : nullptr,
                                                 .divisor = divisor,
                                                 .result = result};
    cuda_->run("cross_entropy", &Table::cross_entropy, &a);
    if (p_.gradients != nullptr) linear_.backward(p_, head_layer(), n, x, logits_, dstream_ + first * c);
  }
}

// dstream_ comes as the gradient of the block's output and leaves as that of its input.
void GptDevice::backward_block(std::size_t index) const {
  const std::size_t n = positions(), count = n * shape_.options().channels;
  const Tape& t = tapes_[index];
  float *d = dstream_, *x = streams_[index];
  cuda_->run("gelu_forward", &Table::gelu_forward, 4 * count, t.fc, gelu_);
  linear_.backward(p_, layer(index, Which::kProj), n, gelu_, d, dwide_);
  cuda_->run("gelu_backward", &Table::gelu_backward, 4 * count, t.fc, dwide_, dwide_);
  forward_norm(norm2(index), t.middle, norm_);
  linear_.backward(p_, layer(index, Which::kFc), n, norm_, dwide_, dnarrow_);
  backward_norm(norm2(index), t.middle, dnarrow_, dnarrow_);
  device_add(*cuda_, d, dnarrow_, count);

  linear_.backward(p_, layer(index, Which::kOut), n, t.heads, d, dnarrow_);
  attention_backward(t, dnarrow_, dwide_);
  forward_norm(norm1(index), x, norm_);
  linear_.backward(p_, layer(index, Which::kQkv), n, norm_, dwide_, dnarrow_);
  backward_norm(norm1(index), x, dnarrow_, dnarrow_);
  device_add(*cuda_, d, dnarrow_, count);
}

void GptDevice::step(std::size_t rows, const std::int32_t* tokens, const std::int32_t* targets,
                     const DeviceParameters& p, double divisor, const FinalFrom& enqueued) {
  reserve(rows);
  rows_ = rows;
  p_ = p;
  forward(tokens);
  head(targets, divisor);
  if (p.gradients == nullptr) return;
  const auto tell = [&](std::size_t offset) {
    if (enqueued) enqueued(offset);
  };
  backward_norm(final_norm(), streams_.back(), dstream_, dstream_);
  tell(shape_.ln_f());
  for (std::size_t index = shape_.options().layers; index-- > 0;) {
    backward_block(index);
    tell(shape_.block_at(index));
  }
  cuda_->run_version(options_.repeatable ? 1 : 0, "embedding_backward", &Table::embedding_backward, rows,
                     shape_.options().time, shape_.options().channels, tokens, dstream_, p.gradients,
                     p.gradients + shape_.wpe());
  tell(0);
}

Loss GptDevice::loss() const {
  std::vector<double> results(2 * ((positions() + head_positions_ - 1) / head_positions_));
  cuda_->copy(results.data(), results_, results.size() * sizeof(double));
  cuda_->wait();
  Loss loss;
  for (std::size_t i = 0; i < results.size(); i += 2) {
    loss.sum += results[i];
    loss.counted += static_cast<std::size_t>(results[i + 1]);
  }
  return loss;
}

void GptDevice::logits(const DeviceParameters& p, std::span<float> out) const {
  const std::size_t c = shape_.options().channels, vocab = shape_.options().vocab;
  if (out.size() != positions() * vocab) throw InvalidArgumentError("logits wants room for every position");
  for (std::size_t first = 0; first < positions(); first += head_positions_) {
    const std::size_t n = std::min(head_positions_, positions() - first);
    linear_.forward(p, head_layer(), n, final_norm_ + first * c, logits_);
    cuda_->copy(out.data() + first * vocab, logits_, n * vocab * sizeof(float));
  }
  cuda_->wait();
}

}  // namespace troupe::train
