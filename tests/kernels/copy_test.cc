// Copies and casts: to the last byte, and every version bit for bit against the reference.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/reduce/reduce.h"
#include "tests/kernels/support.h"

namespace {

using namespace kernels_test;
using namespace troupe::kernels;
using troupe::bfloat16;
using troupe::float16;

class CopyKernel : public testing::TestWithParam<Isa> {};

TEST_P(CopyKernel, CopiesEveryByteAndNoOther) {
  std::mt19937_64 random(1);
  for (std::size_t bytes : {0, 1, 15, 33, 511, 512, 513, 4097, 1'000'003}) {
    for (std::size_t shift : {0, 1, 63}) {
      for (bool stream : {false, true}) {
        std::vector<unsigned char> in(bytes + 7), out(bytes + 64 + 64, 0x5a);
        for (auto& b : in) b = static_cast<unsigned char>(random());
        copy(GetParam(), out.data() + shift, in.data() + 7, bytes, {.stream = stream});
        if (bytes != 0) {
          ASSERT_EQ(std::memcmp(out.data() + shift, in.data() + 7, bytes), 0) << bytes;
        }
        for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(out[i], 0x5a);
        for (std::size_t i = shift + bytes; i < out.size(); ++i) ASSERT_EQ(out[i], 0x5a);
      }
    }
  }
}

TEST_P(CopyKernel, BothCopiesGoToTheLastByteAndNoFurther) {
  std::mt19937_64 random(2);
  for (std::size_t bytes : {0, 1, 255, 4097, 100'003}) {
    for (std::size_t other : {0, 513, 100'003}) {
      for (bool stream : {false, true}) {
        std::vector<unsigned char> in(bytes + 3), other_in(other + 5), out(bytes + 64, 0x5a),
            other_out(other + 64, 0x5a);
        for (auto& b : in) b = static_cast<unsigned char>(random());
        for (auto& b : other_in) b = static_cast<unsigned char>(random());
        copy_both(GetParam(), {out.data() + 1, in.data() + 3, bytes},
                  {other_out.data() + 7, other_in.data() + 5, other}, {.stream = stream});
        ASSERT_TRUE(std::equal(in.begin() + 3, in.end(), out.begin() + 1)) << bytes;
        ASSERT_TRUE(std::equal(other_in.begin() + 5, other_in.end(), other_out.begin() + 7)) << other;
        ASSERT_TRUE(out[0] == 0x5a && std::all_of(out.begin() + 1 + std::ptrdiff_t(bytes), out.end(),
                                                  [](unsigned char b) { return b == 0x5a; }));
        ASSERT_TRUE(other_out[6] == 0x5a && std::all_of(other_out.begin() + 7 + std::ptrdiff_t(other), other_out.end(),
                                                        [](unsigned char b) { return b == 0x5a; }));
      }
    }
  }
}

TEST_P(CopyKernel, CP4_TheSecondCopyMayOverwriteWhatTheFirstHasRead) {
  std::mt19937_64 random(3);
  for (std::size_t bytes : {1, 255, 4097, 100'003}) {
    for (std::size_t other : {std::size_t{1}, bytes / 2, bytes}) {
      for (std::size_t below : {0, 64, 1000}) {
        for (bool stream : {false, true}) {
          std::vector<unsigned char> shared(1000 + bytes), other_in(other), out(bytes + 1, 0x5a);
          for (auto& b : shared) b = static_cast<unsigned char>(random());
          for (auto& b : other_in) b = static_cast<unsigned char>(random());
          const std::vector<unsigned char> before(shared.begin() + 1000, shared.end());
          copy_both(GetParam(), {out.data() + 1, shared.data() + 1000, bytes},
                    {shared.data() + 1000 - below, other_in.data(), other}, {.stream = stream});
          ASSERT_TRUE(std::equal(before.begin(), before.end(), out.begin() + 1))
              << bytes << " and " << other << ", " << below << " below";
          ASSERT_TRUE(std::equal(other_in.begin(), other_in.end(), shared.begin() + 1000 - std::ptrdiff_t(below)))
              << bytes << " and " << other;
        }
      }
    }
  }
}

TEST_P(CopyKernel, CP2_CastsOfSixteenBitFloatsEqualTheReferenceForEveryValue) {
  std::vector<std::uint16_t> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (DType type : {DType::kF16, DType::kBF16}) {
    std::vector<float> want(all.size()), got(all.size());
    cast(Isa::kReference, want.data(), DType::kF32, all.data(), type, all.size());
    cast(GetParam(), got.data(), DType::kF32, all.data(), type, all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_TRUE(std::memcmp(&want[i], &got[i], 4) == 0 || (std::isnan(want[i]) && std::isnan(got[i]))) << i;
  }
}

TEST_P(CopyKernel, CP2_RoundingToSixteenBitsEqualsTheReferenceForAnyBits) {
  std::mt19937_64 random(2);
  for (std::size_t count : kAwkwardSizes) {
    std::vector<float> in(count);
    for (float& v : in) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    for (DType type : {DType::kF16, DType::kBF16}) {
      std::vector<std::uint16_t> want(count), got(count);
      cast(Isa::kReference, want.data(), type, in.data(), DType::kF32, count);
      cast(GetParam(), got.data(), type, in.data(), DType::kF32, count);
      for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(want[i] == got[i] || std::isnan(in[i])) << in[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CopyKernel, testing::ValuesIn(supported()), name_of_isa);

// The AVX-512 version without BF16 instructions is chosen only on processors that lack them: tried here beside the
// other.
TEST(ReduceKernelBfloat, EveryVersionRoundsAlike) {
  std::vector<const detail::ReduceVersion*> versions{&detail::kReduceReference};
  if (isa_supported(Isa::kAvx2)) versions.push_back(detail::reduce_avx2());
  if (isa_supported(Isa::kAvx512)) versions.push_back(detail::reduce_avx512());
  if (has_avx512_bf16()) versions.push_back(detail::reduce_avx512_bf16());
  std::mt19937_64 random(4);
  std::vector<std::uint16_t> a(100'003), b(a.size()), want(a.size()), got(a.size());
  for (auto& v : a) v = static_cast<std::uint16_t>(random());
  for (auto& v : b) v = static_cast<std::uint16_t>(random());
  const void* inputs[] = {a.data(), b.data()};
  for (const detail::ReduceVersion* version : versions) {
    if (version == nullptr) continue;
    auto& out = version == versions.front() ? want : got;
    version->functions[static_cast<std::size_t>(DType::kBF16)][0](
        {.out = reinterpret_cast<std::byte*>(out.data()), .also = nullptr, .inputs = inputs, .input_count = 2,
         .scale = 1, .ranks = 1, .stream = false},
        0, a.size());
    if (version == versions.front()) continue;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float w = bfloat16::from_bits(want[i]), g = bfloat16::from_bits(got[i]);
      ASSERT_TRUE(want[i] == got[i] || (std::isnan(w) && std::isnan(g))) << a[i] << " " << b[i];
    }
  }
}

template <class To, class From>
To cast_one(From value) {
  To out{};
  cast(&out, dtype_of<To>(), &value, dtype_of<From>(), 1);
  return out;
}

TEST(Cast, CP1_ToIntegersTruncatesAndTakesTheNearestEnd) {
  EXPECT_EQ((cast_one<std::int32_t>(-2.9f)), -2);
  EXPECT_EQ((cast_one<std::int32_t>(3e9f)), 2147483647);
  EXPECT_EQ((cast_one<std::int32_t>(-INFINITY)), -2147483647 - 1);
  EXPECT_EQ((cast_one<std::int64_t>(9.3e18)), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((cast_one<std::uint8_t>(-1.0)), 0);
  EXPECT_EQ((cast_one<std::uint8_t>(255.9)), 255);
  EXPECT_EQ((cast_one<std::uint64_t>(float16(7.5f))), 7u);
  EXPECT_EQ((cast_one<std::int8_t>(bfloat16(NAN))), 0);
  EXPECT_EQ((cast_one<std::uint8_t>(std::int64_t{-1})), 255);
}

TEST(Cast, CP1_DoublesRoundOnceToSixteenBits) {
  // Just above the middle between 1 and 1 + 2^-10: by way of float it would be the middle itself, and round down.
  EXPECT_EQ((cast_one<float16>(1.0 + 0x1p-11 + 0x1p-40).bits()), float16(1.0f + 0x1p-10f).bits());
  EXPECT_EQ((cast_one<bfloat16>(-(1.0 + 0x1p-8 + 0x1p-40)).bits()), bfloat16(-(1.0f + 0x1p-7f)).bits());
  EXPECT_EQ((cast_one<float16>(1e300).bits()), 0x7c00);
  EXPECT_EQ((cast_one<float16>(std::int32_t{65519}).bits()), 0x7bff);
  EXPECT_EQ((cast_one<double>(float16(-0.5f))), -0.5);
  EXPECT_EQ((cast_one<bfloat16>(float16(0.5f)).bits()), 0x3f00);
}

}  // namespace
