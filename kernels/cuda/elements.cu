// Copy, cast, reduction and GELU: one element after the other. Compiled without fused multiply-add: reductions give the
// bits of kernels/cpu/reduce/reduce.h (RE-2).
//
// v1  One element a thread and turn.
// v2  16 bytes a thread and turn: a quarter to a sixteenth of the memory instructions for the same bytes. What is
//     left at the end, and arrays that do not start at 16 bytes, go through v1.
#include <bit>
#include <type_traits>

#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// CP-1, as in kernels/cpu/copy/copy.cc: toward zero, with the last bit set when anything was lost.
__device__ inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (fabs(static_cast<double>(nearest)) > fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
struct Limits {
  static constexpr bool kSigned = T(-1) < T(0);
  static constexpr T kMax =
      kSigned ? static_cast<T>((std::uint64_t{1} << (8 * sizeof(T) - 1)) - 1) : static_cast<T>(~T{0});
  static constexpr T kMin = kSigned ? static_cast<T>(-kMax - 1) : T{0};
};

template <class To, class From>
__device__ To convert(From value) {
  if constexpr (kIsHalf<From> && !std::is_same_v<From, To>) {
    return convert<To, float>(value);
  } else if constexpr (kIsHalf<To> && !std::is_same_v<From, To>) {
    if constexpr (std::is_same_v<From, float>) return To(value);
    else return To(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr auto kEnd = static_cast<From>(Limits<To>::kMax / 2 + 1) * From{2};
    if (!(value == value)) return 0;
    if (value >= kEnd) return Limits<To>::kMax;
    if (value < static_cast<From>(Limits<To>::kMin)) return Limits<To>::kMin;
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Calls f with a value of the type: one kernel for each type it makes, the other type is chosen at run time.
template <class F>
int with_type(DType type, F f) {
  switch (type) {
    case DType::kF64: return f(double{});
    case DType::kF32: return f(float{});
    case DType::kF16: return f(float16{});
    case DType::kBF16: return f(bfloat16{});
    case DType::kI8: return f(std::int8_t{});
    case DType::kU8: return f(std::uint8_t{});
    case DType::kI32: return f(std::int32_t{});
    case DType::kU32: return f(std::uint32_t{});
    case DType::kI64: return f(std::int64_t{});
    case DType::kU64: return f(std::uint64_t{});
  }
  return kInvalidValue;
}

template <class From, class To>
__device__ void cast_loop(To* out, const void* in, std::size_t count) {
  const auto* values = static_cast<const From*>(in);
  for (std::size_t i = global_thread(); i < count; i += global_stride()) out[i] = convert<To, From>(values[i]);
}

template <class To>
__global__ void cast_plain(To* out, const void* in, DType from, std::size_t count) {
  switch (from) {
    case DType::kF64: return cast_loop<double>(out, in, count);
    case DType::kF32: return cast_loop<float>(out, in, count);
    case DType::kF16: return cast_loop<float16>(out, in, count);
    case DType::kBF16: return cast_loop<bfloat16>(out, in, count);
    case DType::kI8: return cast_loop<std::int8_t>(out, in, count);
    case DType::kU8: return cast_loop<std::uint8_t>(out, in, count);
    case DType::kI32: return cast_loop<std::int32_t>(out, in, count);
    case DType::kU32: return cast_loop<std::uint32_t>(out, in, count);
    case DType::kI64: return cast_loop<std::int64_t>(out, in, count);
    case DType::kU64: return cast_loop<std::uint64_t>(out, in, count);
  }
}

template <class T, unsigned kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

// Eight elements a turn between float and a 16-bit type: the casts of mixed training.
template <class To, class From>
__global__ void cast_by_eight(Pack<To, 4>* out, const Pack<From, 4>* in, std::size_t packs) {
  for (std::size_t i = global_thread(); i < packs; i += global_stride()) {
    const Pack<From, 4> a = in[2 * i], b = in[2 * i + 1];
    Pack<To, 4> x, y;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      x.values[k] = convert<To, From>(a.values[k]);
      y.values[k] = convert<To, From>(b.values[k]);
    }
    out[2 * i] = x;
    out[2 * i + 1] = y;
  }
}

template <class To, class From>
int cast_fast(Call call, void* out, const void* in, std::size_t packs) {
  return launch(call, cast_by_eight<To, From>, grid_for(packs), kThreads, static_cast<Pack<To, 4>*>(out),
                static_cast<const Pack<From, 4>*>(in), packs);
}

// How many elements went the fast way, or a negative status.
std::ptrdiff_t cast_front(Call call, void* out, DType to, const void* in, DType from, std::size_t count) {
  if (call.version == 1 || !aligned16(out) || !aligned16(in) || count < 8) return 0;
  const std::size_t packs = count / 8;
  int status = 0;
  if (to == DType::kBF16 && from == DType::kF32) status = cast_fast<bfloat16, float>(call, out, in, packs);
  else if (to == DType::kF32 && from == DType::kBF16) status = cast_fast<float, bfloat16>(call, out, in, packs);
  else if (to == DType::kF16 && from == DType::kF32) status = cast_fast<float16, float>(call, out, in, packs);
  else if (to == DType::kF32 && from == DType::kF16) status = cast_fast<float, float16>(call, out, in, packs);
  else return 0;
  return status != 0 ? -status : static_cast<std::ptrdiff_t>(8 * packs);
}

// What an element is calculated in (RE-1, RE-3): integers unsigned, so that they wrap; min and max keep the sign.
template <class T, bool kOrder>
struct Arithmetic {
  static auto type() {
    if constexpr (kIsHalf<T>) return float{};
    else if constexpr (std::is_floating_point_v<T> || kOrder) return T{};
    else return std::make_unsigned_t<T>{};
  }
  using Acc = decltype(type());
};

template <class T, ReduceOp op, class Acc>
__device__ Acc combine(Acc total, Acc value) {
  if constexpr (op == ReduceOp::kProduct) return static_cast<Acc>(total * value);
  else if constexpr (op == ReduceOp::kMin) return total < value || total != total ? total : value;
  else if constexpr (op == ReduceOp::kMax) return total > value || total != total ? total : value;
  else return static_cast<Acc>(total + value);
}

template <class T, ReduceOp op, class Acc>
__device__ T finish(Acc total, int ranks) {
  if constexpr (op != ReduceOp::kAvg) return static_cast<T>(total);
  else if constexpr (std::is_floating_point_v<Acc>) return static_cast<T>(total / static_cast<Acc>(ranks));
  else if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<T>(total) / std::int64_t{ranks});
  else return static_cast<T>(total / static_cast<std::uint64_t>(ranks));
}

template <class T, ReduceOp op, unsigned kCount>
__device__ Pack<T, kCount> reduce_pack(const ReduceArguments& a, std::size_t at) {
  using Acc = typename Arithmetic<T, op == ReduceOp::kMin || op == ReduceOp::kMax>::Acc;
  Acc scale{1}, total[kCount]{};
  if constexpr (op == ReduceOp::kPreMulSum) {
    if constexpr (std::is_floating_point_v<Acc>) scale = static_cast<Acc>(a.scale);
    else scale = static_cast<Acc>(static_cast<std::int64_t>(a.scale));
  }
  for (int k = 0; k < a.input_count; ++k) {
    const Pack<T, kCount> in = static_cast<const Pack<T, kCount>*>(a.inputs[k])[at];
#pragma unroll
    for (unsigned e = 0; e < kCount; ++e) {
      auto value = static_cast<Acc>(in.values[e]);
      if constexpr (op == ReduceOp::kPreMulSum) value = static_cast<Acc>(value * scale);
      total[e] = k == 0 ? value : combine<T, op>(total[e], value);
    }
  }
  Pack<T, kCount> out;
#pragma unroll
  for (unsigned e = 0; e < kCount; ++e) out.values[e] = finish<T, op>(total[e], a.ranks);
  return out;
}

// Elements [begin, count) in packs of kCount; begin and count are counted in packs. All inputs of a pack are read
// before it is written: out may be an input (RE-5).
template <class T, unsigned kCount>
__global__ void reduce_packs(ReduceArguments a, std::size_t begin, std::size_t count) {
  auto* out = static_cast<Pack<T, kCount>*>(a.out);
  for (std::size_t i = begin + global_thread(); i < count; i += global_stride()) {
    switch (a.op) {
      case ReduceOp::kSum: out[i] = reduce_pack<T, ReduceOp::kSum, kCount>(a, i); break;
      case ReduceOp::kProduct: out[i] = reduce_pack<T, ReduceOp::kProduct, kCount>(a, i); break;
      case ReduceOp::kMin: out[i] = reduce_pack<T, ReduceOp::kMin, kCount>(a, i); break;
      case ReduceOp::kMax: out[i] = reduce_pack<T, ReduceOp::kMax, kCount>(a, i); break;
      case ReduceOp::kAvg: out[i] = reduce_pack<T, ReduceOp::kAvg, kCount>(a, i); break;
      case ReduceOp::kPreMulSum: out[i] = reduce_pack<T, ReduceOp::kPreMulSum, kCount>(a, i); break;
    }
  }
}

__device__ inline float gelu_gate(float x) {
  const float u = 0.79788456080286535588f * (x + 0.044715f * x * x * x);
  return 1.0f / (1.0f + expf(-2.0f * u));
}
__device__ inline float gelu(float x) { return x * gelu_gate(x); }
__device__ inline float gelu_slope(float x, float dy) {
  const float gate = gelu_gate(x);
  const float slope = 2.0f * 0.79788456080286535588f * (1.0f + 3.0f * 0.044715f * x * x);
  // Where the gate is exactly 0 or 1, x^2 may be infinite: the product is 0 there, not NaN.
  const float bend = gate * (1.0f - gate);
  return dy * (gate + (bend == 0.0f ? 0.0f : x * bend * slope));
}

// dy null: forward.
template <unsigned kCount>
__global__ void gelu_packs(std::size_t begin, std::size_t count, const float* x, const float* dy, float* out) {
  using Packed = Pack<float, kCount>;
  for (std::size_t i = begin + global_thread(); i < count; i += global_stride()) {
    Packed value = reinterpret_cast<const Packed*>(x)[i], up{};
    if (dy != nullptr) up = reinterpret_cast<const Packed*>(dy)[i];
#pragma unroll
    for (unsigned e = 0; e < kCount; ++e)
      value.values[e] = dy != nullptr ? gelu_slope(value.values[e], up.values[e]) : gelu(value.values[e]);
    reinterpret_cast<Packed*>(out)[i] = value;
  }
}

int gelu_any(Call call, std::size_t count, const float* x, const float* dy, float* out) {
  const bool fast = call.version != 1 && aligned16(x) && aligned16(dy) && aligned16(out);
  const std::size_t packs = fast ? count / 4 : 0;
  return in_order(
      [&] {
        return packs == 0 ? 0
                          : launch(call, gelu_packs<4>, grid_for(packs), kThreads, std::size_t{0}, packs, x, dy, out);
      },
      [&] { return launch(call, gelu_packs<1>, grid_for(count - 4 * packs), kThreads, 4 * packs, count, x, dy, out); });
}

template <Activation activation>
__device__ inline float activated(float x) {
  if constexpr (activation == Activation::kTanh) return tanhf(x);
  else return x > 0.0f || x != x ? x : 0.0f;
}
template <Activation activation>
__device__ inline float activation_slope(float y, float dy) {
  if constexpr (activation == Activation::kTanh) return dy * (1.0f - y * y);
  else return y <= 0.0f ? 0.0f : dy;
}

// dy null: forward, and `in` is x; else `in` is y.
template <Activation activation, unsigned kCount>
__global__ void activation_packs(std::size_t begin, std::size_t count, const float* in, const float* dy, float* out) {
  using Packed = Pack<float, kCount>;
  for (std::size_t i = begin + global_thread(); i < count; i += global_stride()) {
    Packed value = reinterpret_cast<const Packed*>(in)[i], up{};
    if (dy != nullptr) up = reinterpret_cast<const Packed*>(dy)[i];
#pragma unroll
    for (unsigned e = 0; e < kCount; ++e)
      value.values[e] = dy != nullptr ? activation_slope<activation>(value.values[e], up.values[e])
                                      : activated<activation>(value.values[e]);
    reinterpret_cast<Packed*>(out)[i] = value;
  }
}

template <Activation activation>
int activation_of(Call call, std::size_t count, const float* in, const float* dy, float* out) {
  const bool fast = call.version != 1 && aligned16(in) && aligned16(dy) && aligned16(out);
  const std::size_t packs = fast ? count / 4 : 0;
  return in_order(
      [&] {
        return packs == 0 ? 0
                          : launch(call, activation_packs<activation, 4>, grid_for(packs), kThreads, std::size_t{0},
                                   packs, in, dy, out);
      },
      [&] {
        return launch(call, activation_packs<activation, 1>, grid_for(count - 4 * packs), kThreads, 4 * packs, count,
                      in, dy, out);
      });
}

int activation_any(Call call, Activation activation, std::size_t count, const float* in, const float* dy, float* out) {
  switch (activation) {
    case Activation::kTanh: return activation_of<Activation::kTanh>(call, count, in, dy, out);
    case Activation::kRelu: return activation_of<Activation::kRelu>(call, count, in, dy, out);
  }
  return kInvalidValue;
}

template <class T>
__global__ void copy_elements(std::size_t begin, std::size_t count, const T* in, T* out) {
  for (std::size_t i = begin + global_thread(); i < count; i += global_stride()) out[i] = in[i];
}

}  // namespace

int copy_kernel(Call call, void* out, const void* in, std::size_t bytes) {
  const std::size_t packs = call.version != 1 && aligned16(out) && aligned16(in) ? bytes / 16 : 0;
  return in_order(
      [&] {
        return packs == 0 ? 0
                          : launch(call, copy_elements<uint4>, grid_for(packs), kThreads, std::size_t{0}, packs,
                                   static_cast<const uint4*>(in), static_cast<uint4*>(out));
      },
      [&] {
        return launch(call, copy_elements<unsigned char>, grid_for(bytes - 16 * packs), kThreads, 16 * packs, bytes,
                      static_cast<const unsigned char*>(in), static_cast<unsigned char*>(out));
      });
}

int cast(Call call, void* out, DType to, const void* in, DType from, std::size_t count) {
  if (size_of(to) == 0 || size_of(from) == 0) return kInvalidValue;
  const std::ptrdiff_t front = cast_front(call, out, to, in, from, count);
  if (front < 0) return static_cast<int>(-front);
  const auto done = static_cast<std::size_t>(front);
  const void* rest = static_cast<const std::byte*>(in) + done * size_of(from);
  return with_type(to, [&](auto type) {
    using To = decltype(type);
    return launch(call, cast_plain<To>, grid_for(count - done), kThreads, static_cast<To*>(out) + done, rest, from,
                  count - done);
  });
}

int reduce(Call call, const ReduceArguments* a) {
  if (a->input_count < 1 || a->input_count > kReduceInputsMax || static_cast<std::size_t>(a->op) >= kReduceOpCount ||
      size_of(a->type) == 0 || a->ranks < 1)
    return kInvalidValue;
  bool fast = call.version != 1 && aligned16(a->out);
  for (int k = 0; k < a->input_count; ++k) fast = fast && aligned16(a->inputs[k]);
  return with_type(a->type, [&](auto type) {
    using T = decltype(type);
    constexpr unsigned kEach = 16 / sizeof(T);
    const std::size_t packs = fast ? a->count / kEach : 0;
    return in_order(
        [&] {
          return packs == 0
                     ? 0
                     : launch(call, reduce_packs<T, kEach>, grid_for(packs), kThreads, *a, std::size_t{0}, packs);
        },
        [&] {
          return launch(call, reduce_packs<T, 1>, grid_for(a->count - kEach * packs), kThreads, *a, kEach * packs,
                        a->count);
        });
  });
}

int gelu_forward(Call call, std::size_t count, const float* x, float* y) {
  return gelu_any(call, count, x, nullptr, y);
}
int gelu_backward(Call call, std::size_t count, const float* x, const float* dy, float* dx) {
  return gelu_any(call, count, x, dy, dx);
}

int activation_forward(Call call, Activation activation, std::size_t count, const float* x, float* y) {
  return activation_any(call, activation, count, x, nullptr, y);
}
int activation_backward(Call call, Activation activation, std::size_t count, const float* y, const float* dy,
                        float* dx) {
  return dy == nullptr && count != 0 ? kInvalidValue : activation_any(call, activation, count, y, dy, dx);
}

}  // namespace troupe::kernels::cuda
