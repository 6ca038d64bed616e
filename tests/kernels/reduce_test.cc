// Reductions: the reference against the definition in wide arithmetic, every version bit for bit against the reference.
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/reduce/reduce.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;
using troupe::bfloat16;
using troupe::float16;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                             ReduceOp::kMax, ReduceOp::kAvg,     ReduceOp::kPreMulSum};
constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kU8,  DType::kI32, DType::kU32, DType::kI64,  DType::kU64};

// Random elements: ordinary ones, and for every 16th element any bits (infinities, subnormals, NaN).
std::vector<std::byte> random_elements(std::mt19937_64& random, DType type, std::size_t count, std::size_t shift) {
  std::vector<std::byte> out(shift + count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = out.data() + shift + i * size_of(type);
    const auto value = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
    const std::uint64_t bits = random();
    if (!is_floating(type) || random() % 16 == 0) {
      std::memcpy(at, &bits, size_of(type));
    } else if (type == DType::kF64) {
      const double wide = value;
      std::memcpy(at, &wide, 8);
    } else if (type == DType::kF32) {
      std::memcpy(at, &value, 4);
    } else {
      const std::uint16_t half = type == DType::kF16 ? float16(value).bits() : bfloat16(value).bits();
      std::memcpy(at, &half, 2);
    }
  }
  return out;
}

template <class T>
bool same_elements(const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    if constexpr (!std::is_integral_v<T>) {
      if (x != x && y != y) continue;
    }
    if (std::memcmp(&x, &y, sizeof(T)) != 0) return false;
  }
  return true;
}

bool same(DType type, const std::byte* a, const std::byte* b, std::size_t count) {
  switch (type) {
    case DType::kF64: return same_elements<double>(a, b, count);
    case DType::kF32: return same_elements<float>(a, b, count);
    case DType::kF16: return same_elements<float16>(a, b, count);
    case DType::kBF16: return same_elements<bfloat16>(a, b, count);
    default: return std::memcmp(a, b, count * size_of(type)) == 0;
  }
}

class ReduceKernel : public testing::TestWithParam<Isa> {};

void compare_with_reference(Isa isa, DType type, const ReduceOptions& options, std::size_t inputs, std::size_t count,
                            std::size_t shift) {
  std::mt19937_64 random(count * 7 + inputs + shift);
  std::vector<std::vector<std::byte>> data;
  std::vector<const void*> pointers;
  for (std::size_t k = 0; k < inputs; ++k)
    data.push_back(random_elements(random, type, count, (shift * (k + 1)) % 64));
  for (std::size_t k = 0; k < inputs; ++k) pointers.push_back(data[k].data() + (shift * (k + 1)) % 64);
  const std::size_t bytes = count * size_of(type);
  std::vector<std::byte> want(bytes);
  std::vector<std::byte> out(shift + bytes + 8, std::byte{0x5a});
  reduce(Isa::kReference, want.data(), pointers, count, type, options);
  reduce(isa, out.data() + shift, pointers, count, type, options);
  EXPECT_TRUE(same(type, out.data() + shift, want.data(), count));
  for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(out[i], std::byte{0x5a}) << "written before the start";
  for (std::size_t i = shift + bytes; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0x5a}) << "written past the end";
  // The result in two places, the second one over the last input (RE-5); then in one, over the last input.
  auto* last = data.back().data() + (shift * inputs) % 64;
  const std::vector<std::byte> kept(last, last + bytes);
  ReduceOptions twice = options;
  twice.also = last;
  std::fill(out.begin(), out.end(), std::byte{0x5a});
  reduce(isa, out.data() + shift, pointers, count, type, twice);
  EXPECT_TRUE(same(type, out.data() + shift, want.data(), count)) << "the first of two places";
  EXPECT_TRUE(same(type, last, want.data(), count)) << "the second of two places";
  std::copy(kept.begin(), kept.end(), last);
  reduce(isa, last, pointers, count, type, options);
  EXPECT_TRUE(same(type, last, want.data(), count)) << "in place";
}

TEST_P(ReduceKernel, RE2_EveryTypeAndOperationEqualsTheReferenceBitForBit) {
  for (DType type : kTypes) {
    for (ReduceOp op : kOps) {
      for (std::size_t inputs : {1, 2, 3, 7}) {
        for (std::size_t count : {1, 15, 17, 33, 511, 4099}) {
          for (bool stream : {false, true}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << name_of(op) << " inputs " << inputs << " count "
                                            << count << " stream " << stream);
            const ReduceOptions options{.op = op, .scale = 3, .ranks = static_cast<int>(inputs), .stream = stream};
            compare_with_reference(GetParam(), type, options, inputs, count, count % 3 * 4);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(ReduceKernel, UnalignedAndLargeArraysAreReducedToTheirLastElement) {
  for (DType type : kTypes) {
    SCOPED_TRACE(name_of(type));
    for (std::size_t shift : {0, 1, 3, 60}) {
      compare_with_reference(GetParam(), type, {.stream = shift % 2 == 0}, 2, 1'000'003, shift);
      compare_with_reference(GetParam(), type, {.op = ReduceOp::kAvg, .ranks = 3}, 3, 4099, shift);
    }
  }
}

TEST_P(ReduceKernel, RE1_SumsAreThoseOfTheOrderGivenWithOneRounding) {
  std::mt19937_64 random(3);
  for (std::size_t count : kAwkwardSizes) {
    const auto a = random_values<float>(random, count, 100), b = random_values<float>(random, count, 1),
               c = random_values<float>(random, count, 0.01);
    std::vector<float> out(count);
    const void* inputs[] = {a.data(), b.data(), c.data()};
    reduce(GetParam(), out.data(), inputs, count, DType::kF32, {});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], (a[i] + b[i]) + c[i]);
    std::vector<bfloat16> x(a.begin(), a.end()), y(b.begin(), b.end()), z(c.begin(), c.end()), half(count);
    const void* halves[] = {x.data(), y.data(), z.data()};
    reduce(GetParam(), half.data(), halves, count, DType::kBF16, {});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(half[i].bits(), bfloat16((x[i] + y[i]) + z[i]).bits());
  }
}

TEST_P(ReduceKernel, RE3_IntegersWrapAndAveragesTruncate) {
  const std::vector<std::int8_t> a{100, -7, -128, 5}, b{100, 0, -128, 6};
  std::vector<std::int8_t> out(4);
  const void* inputs[] = {a.data(), b.data()};
  reduce(GetParam(), out.data(), inputs, 4, DType::kI8, {});
  EXPECT_EQ(out, (std::vector<std::int8_t>{-56, -7, 0, 11}));
  reduce(GetParam(), out.data(), inputs, 4, DType::kI8, {.op = ReduceOp::kAvg, .ranks = 2});
  EXPECT_EQ(out, (std::vector<std::int8_t>{-28, -3, 0, 5}));
  std::vector<std::int64_t> wide(200, -7), result(200);
  const void* one[] = {wide.data(), wide.data()};
  reduce(GetParam(), result.data(), one, 200, DType::kI64, {.op = ReduceOp::kAvg, .ranks = 4});
  EXPECT_EQ(result, std::vector<std::int64_t>(200, -3));
  reduce(GetParam(), result.data(), one, 200, DType::kI64, {.op = ReduceOp::kPreMulSum, .scale = 5});
  EXPECT_EQ(result, std::vector<std::int64_t>(200, -70));
}

TEST_P(ReduceKernel, RE4_MinAndMaxPassNaNOn) {
  for (std::size_t place : {0u, 1u, 2u}) {
    std::vector<std::vector<float>> data(3, std::vector<float>(300, 1.0f));
    data[place].assign(300, NAN);
    const void* inputs[] = {data[0].data(), data[1].data(), data[2].data()};
    for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<float> out(300);
      reduce(GetParam(), out.data(), inputs, 300, DType::kF32, {.op = op});
      for (float v : out) ASSERT_TRUE(std::isnan(v));
    }
  }
}

TEST_P(ReduceKernel, NoElementsAndNoInputsLeaveTheOutputAlone) {
  std::vector<float> out(8, 3.0f);
  const void* inputs[] = {out.data()};
  reduce(GetParam(), out.data(), {}, 8, DType::kF32, {});
  reduce(GetParam(), out.data(), inputs, 0, DType::kF32, {.op = ReduceOp::kAvg, .ranks = 2});
  EXPECT_EQ(out, std::vector<float>(8, 3.0f));
}

INSTANTIATE_TEST_SUITE_P(Kernels, ReduceKernel, testing::ValuesIn(supported()), name_of_isa);

TEST(DTypes, HaveTheSizesOfTheirElements) {
  EXPECT_EQ(size_of(dtype_of<double>()), 8u);
  EXPECT_EQ(dtype_of<long long>(), DType::kI64);
  EXPECT_EQ(dtype_of<unsigned long>(), DType::kU64);
  EXPECT_EQ(dtype_of<const char>(), std::is_signed_v<char> ? DType::kI8 : DType::kU8);
  EXPECT_EQ(size_of(dtype_of<float16>()), 2u);
  EXPECT_EQ(name_of(dtype_of<bfloat16>()), "bfloat16");
  EXPECT_EQ(size_of(static_cast<DType>(77)), 0u);
}

}  // namespace
