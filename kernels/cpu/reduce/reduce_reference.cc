// The definition of every reduction: one element after the other. The vector versions use it for their edges.
#include <cstring>
#include <type_traits>

#include "kernels/cpu/reduce/reduce.h"

namespace troupe::kernels::detail {
namespace {

// What an element of type T is calculated in: integers wrap, so they are calculated unsigned; min and max keep the
// sign.
template <class T, ReduceOp op>
struct Arithmetic {
  static constexpr bool kOrder = op == ReduceOp::kMin || op == ReduceOp::kMax;
  static auto type() {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) return float{};
    else if constexpr (std::is_floating_point_v<T> || kOrder) return T{};
    else return std::make_unsigned_t<T>{};
  }
  using Acc = decltype(type());
};

template <class T>
T load(const void* base, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + i * sizeof(T), sizeof(T));
  return value;
}

template <ReduceOp op, class Acc>
Acc combine(Acc a, Acc x) {
  if constexpr (op == ReduceOp::kProduct) return static_cast<Acc>(a * x);
  else if constexpr (op == ReduceOp::kMin) return a < x || a != a ? a : x;
  else if constexpr (op == ReduceOp::kMax) return a > x || a != a ? a : x;
  else return static_cast<Acc>(a + x);
}

template <class T, ReduceOp op>
void reduce_range(const ReduceCall& call, std::size_t begin, std::size_t end) {
  using Acc = typename Arithmetic<T, op>::Acc;
  Acc scale{1};
  if constexpr (op == ReduceOp::kPreMulSum) {
    if constexpr (std::is_floating_point_v<Acc>) scale = static_cast<Acc>(call.scale);
    else scale = static_cast<Acc>(static_cast<std::int64_t>(call.scale));
  }
  const auto input = [&](std::size_t k, std::size_t i) {
    const auto value = static_cast<Acc>(load<T>(call.inputs[k], i));
    if constexpr (op == ReduceOp::kPreMulSum) return static_cast<Acc>(value * scale);
    else return value;
  };
  for (std::size_t i = begin; i < end; ++i) {
    Acc total = input(0, i);
    for (std::size_t k = 1; k < call.input_count; ++k) total = combine<op>(total, input(k, i));
    T result;
    if constexpr (op != ReduceOp::kAvg) result = static_cast<T>(total);
    else if constexpr (std::is_floating_point_v<Acc>) result = static_cast<T>(total / static_cast<Acc>(call.ranks));
    else if constexpr (std::is_signed_v<T>) result = static_cast<T>(static_cast<T>(total) / std::int64_t{call.ranks});
    else result = static_cast<T>(total / static_cast<std::uint64_t>(call.ranks));
    std::memcpy(call.out + i * sizeof(T), &result, sizeof(T));
    if (call.also != nullptr) std::memcpy(call.also + i * sizeof(T), &result, sizeof(T));
  }
}

template <class T>
constexpr void fill(ReduceFunction (&row)[kReduceOpCount]) {
  row[0] = &reduce_range<T, ReduceOp::kSum>;
  row[1] = &reduce_range<T, ReduceOp::kProduct>;
  row[2] = &reduce_range<T, ReduceOp::kMin>;
  row[3] = &reduce_range<T, ReduceOp::kMax>;
  row[4] = &reduce_range<T, ReduceOp::kAvg>;
  row[5] = &reduce_range<T, ReduceOp::kPreMulSum>;
}

constexpr ReduceVersion make() {
  ReduceVersion out{};
  fill<double>(out.functions[0]);
  fill<float>(out.functions[1]);
  fill<float16>(out.functions[2]);
  fill<bfloat16>(out.functions[3]);
  fill<std::int8_t>(out.functions[4]);
  fill<std::uint8_t>(out.functions[5]);
  fill<std::int32_t>(out.functions[6]);
  fill<std::uint32_t>(out.functions[7]);
  fill<std::int64_t>(out.functions[8]);
  fill<std::uint64_t>(out.functions[9]);
  return out;
}

}  // namespace

constinit const ReduceVersion kReduceReference = make();

}  // namespace troupe::kernels::detail
