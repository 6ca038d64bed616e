// The choice of a version.
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::kernels {
namespace {

const detail::ReduceVersion& reduce_version(Isa isa) {
  if (isa == Isa::kAvx512 && isa_supported(isa)) {
    if (has_avx512_bf16() && detail::reduce_avx512_bf16() != nullptr) return *detail::reduce_avx512_bf16();
    if (detail::reduce_avx512() != nullptr) return *detail::reduce_avx512();
  }
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && detail::reduce_avx2() != nullptr)
    return *detail::reduce_avx2();
  return detail::kReduceReference;
}

void run(const detail::ReduceVersion& version, void* out, std::span<const void* const> inputs, std::size_t count,
         DType type, const ReduceOptions& options) {
  const auto row = static_cast<std::size_t>(type);
  const auto column = static_cast<std::size_t>(options.op);
  if (inputs.empty() || count == 0 || row >= kDTypeCount || column >= kReduceOpCount) return;
  version.functions[row][column]({.out = static_cast<std::byte*>(out),
                                  .also = static_cast<std::byte*>(options.also),
                                  .inputs = inputs.data(),
                                  .input_count = inputs.size(),
                                  .scale = options.scale,
                                  .ranks = options.ranks < 1 ? 1 : options.ranks,
                                  .stream = options.stream},
                                 0, count);
}

}  // namespace

void reduce(void* out, std::span<const void* const> inputs, std::size_t count, DType type,
            const ReduceOptions& options) {
  static const detail::ReduceVersion& best = reduce_version(best_isa());  // the smallest reductions count nanoseconds
  run(best, out, inputs, count, type, options);
}

void reduce(Isa isa, void* out, std::span<const void* const> inputs, std::size_t count, DType type,
            const ReduceOptions& options) {
  run(reduce_version(isa), out, inputs, count, type, options);
}

}  // namespace troupe::kernels
