// Copy, cast and reduction: the same bits as the CPU's reference, for every type and operation.
#include <cstring>

#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/reduce/reduce.h"

#include "tests/gpu/operations.h"

namespace gpu_test {
namespace {

using namespace troupe::kernels;

// Bytes whose elements are small numbers, fractions and now and then extremes.
std::vector<std::uint8_t> elements(DType type, const std::vector<double>& values) {
  std::vector<std::uint8_t> out(values.size() * size_of(type));
  cast(Isa::kReference, out.data(), type, values.data(), DType::kF64, values.size());
  return out;
}
std::vector<double> as_numbers(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::vector<std::size_t> counts(bool small) {
  return {1, 15, 17, 33, small ? std::size_t{515} : std::size_t{1000003}};
}

std::vector<Problem> plain(bool small) {
  std::vector<Problem> out;
  for (const std::size_t n : counts(small))
    for (const double shift : {0.0, 1.0}) {
      Problem p{"n " + std::to_string(n) + (shift != 0 ? " unaligned" : ""),
                {{"n", static_cast<double>(n)}, {"shift", shift}},
                {{"x", random_values(n, 1, 300.0)}}};
      for (std::size_t i = 5; i < n; i += 97) p.arrays["x"][i] *= 1e9;
      out.push_back(p);
    }
  return out;
}

Arrays solve_copy(const Gpu& gpu, int version, const Problem& p) {
  const auto bytes = elements(DType::kF32, p.arrays.at("x"));
  Buffer<std::uint8_t> in(gpu, bytes, p.size("shift")), out(gpu, bytes.size(), p.size("shift"));
  gpu.check(gpu->copy_kernel({.version = version}, out, in, bytes.size()), "copy_kernel");
  return {{"bytes", as_numbers(out.values())}};
}
Arrays right_copy(const Problem& p) { return {{"bytes", as_numbers(elements(DType::kF32, p.arrays.at("x")))}}; }

// All pairs of types, or all types and operations, of one problem: the arrays are the bytes of the results.
template <class Each>
Arrays for_types(const Each& each) {
  Arrays out;
  for (std::size_t a = 0; a < kDTypeCount; ++a)
    for (std::size_t b = 0; b < kDTypeCount; ++b) each(static_cast<DType>(a), static_cast<DType>(b), out);
  return out;
}
std::string pair_name(DType from, DType to) { return std::string(name_of(from)) + " to " + std::string(name_of(to)); }

Arrays solve_cast(const Gpu& gpu, int version, const Problem& p) {
  return for_types([&](DType from, DType to, Arrays& out) {
    const std::size_t n = p.size("n"), shift = p.size("shift");
    Buffer<std::uint8_t> in(gpu, elements(from, p.arrays.at("x")), shift * size_of(from)),
        result(gpu, n * size_of(to), shift * size_of(to));
    gpu.check(gpu->cast({.version = version}, result, to, in, from, n), "cast");
    out[pair_name(from, to)] = as_numbers(result.values());
  });
}
Arrays right_cast(const Problem& p) {
  return for_types([&](DType from, DType to, Arrays& out) {
    const auto in = elements(from, p.arrays.at("x"));
    std::vector<std::uint8_t> result(p.size("n") * size_of(to));
    cast(Isa::kReference, result.data(), to, in.data(), from, p.size("n"));
    out[pair_name(from, to)] = as_numbers(result);
  });
}

constexpr int kInputs = 3;
std::vector<std::uint8_t> input_of(const Problem& p, DType type, int k) {
  return elements(type, random_values(p.size("n"), 10u + static_cast<unsigned>(k), is_floating(type) ? 3.0 : 90.0));
}
template <class Each>
Arrays for_reductions(const Each& each) {
  Arrays out;
  for (std::size_t type = 0; type < kDTypeCount; ++type)
    for (std::size_t op = 0; op < kReduceOpCount; ++op) {
      const auto t = static_cast<DType>(type);
      const auto o = static_cast<ReduceOp>(op);
      out[std::string(name_of(t)) + " " + std::string(name_of(o))] = each(t, o);
    }
  return out;
}
Arrays solve_reduce(const Gpu& gpu, int version, const Problem& p) {
  return for_reductions([&](DType type, ReduceOp op) {
    std::vector<Buffer<std::uint8_t>> inputs;
    for (int k = 0; k < kInputs; ++k) inputs.emplace_back(gpu, input_of(p, type, k), p.size("shift") * size_of(type));
    cuda::ReduceArguments a{};
    a.out = inputs[1];  // in place (RE-5)
    for (int k = 0; k < kInputs; ++k) a.inputs[k] = inputs[static_cast<std::size_t>(k)];
    a.input_count = kInputs;
    a.count = p.size("n");
    a.type = type;
    a.op = op;
    a.scale = 3;
    a.ranks = kInputs;
    gpu.check(gpu->reduce({.version = version}, &a), "reduce");
    return as_numbers(inputs[1].values());
  });
}
Arrays right_reduce(const Problem& p) {
  return for_reductions([&](DType type, ReduceOp op) {
    std::vector<std::vector<std::uint8_t>> inputs;
    for (int k = 0; k < kInputs; ++k) inputs.push_back(input_of(p, type, k));
    const void* pointers[kInputs] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    std::vector<std::uint8_t> out(inputs[0].size());
    reduce(Isa::kReference, out.data(), pointers, p.size("n"), type, {.op = op, .scale = 3, .ranks = kInputs});
    return as_numbers(out);
  });
}

}  // namespace

std::vector<Operation> element_operations() {
  return {
      {"copy", "", {}, {}, {1, 2}, 0, plain, solve_copy, right_copy},
      {"cast", "", {}, {}, {1, 2}, 0, plain, solve_cast, right_cast},
      {"reduce", "", {}, {}, {1, 2}, 0, plain, solve_reduce, right_reduce},
  };
}

}  // namespace gpu_test
