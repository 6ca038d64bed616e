// Introductions: only the pair that shares the key proves anything, and no bytes make the decoder read beyond them.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/net/data/introduction.h"

namespace troupe::net {
namespace {

PairKey key_of(std::uint8_t seed) {
  PairKey key;
  key.fill(seed);
  return key;
}
const RankPair kPair{.group = 7, .epoch = 3, .from = 2, .to = 1, .channel = 1};

std::vector<std::byte> sent(const RankPair& pair = kPair, std::uint8_t key = 'a') {
  const Introduction made = introduce(pair, key_of(key)).value();
  const ByteView bytes = bytes_of_introduction(made);
  return {bytes.begin(), bytes.end()};
}

TEST(Introduction, NIT1_ComesBackAsItWasSaid) {
  const Introduction got = decode_introduction(sent()).value();
  EXPECT_EQ(got.group, 7u);
  EXPECT_EQ(got.epoch, 3u);
  EXPECT_EQ(got.from, 2);
  EXPECT_EQ(got.to, 1);
  EXPECT_EQ(got.channel, 1);
  EXPECT_TRUE(proves(got, key_of('a')));
}

TEST(Introduction, NIT1_RefusesWhatIsNoIntroduction) {
  const std::vector<std::byte> good = sent();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(decode_introduction(ByteView(good).first(size)).error().code(), ErrorCode::kSerialization) << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_introduction(longer).ok());
  for (std::size_t at : {0u, 3u, 4u}) {  // magic, version
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_introduction(bad).ok()) << at;
  }
  EXPECT_FALSE(decode_introduction(sent({.group = 7, .epoch = 3, .from = 1, .to = 1, .channel = 0})).ok());
  EXPECT_FALSE(decode_introduction(sent({.group = 7, .epoch = 3, .from = -1, .to = 1, .channel = 0})).ok());
}

TEST(Introduction, NIT1_AnyBytesAreAnErrorOrProveNothing) {
  std::mt19937 random(11);
  for (int round = 0; round < 5'000; ++round) {
    const std::vector<std::byte> good = sent();
    std::vector<std::byte> bytes = good;
    if (round % 2 == 0) bytes.resize(random() % 120);
    for (int flips = 1 + int(random() % 4); flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] ^= std::byte(1 + random() % 255);
    const auto got = decode_introduction(bytes);
    EXPECT_FALSE(got.ok() && bytes != good && proves(*got, key_of('a')));
  }
}

TEST(Introduction, NIT2_EveryChangeEndsTheProof) {
  EXPECT_FALSE(proves(decode_introduction(sent()).value(), key_of('b')));
  const std::vector<std::byte> good = sent();
  for (std::size_t at = 6; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{1};
    const auto got = decode_introduction(bad);
    EXPECT_FALSE(got.ok() && proves(*got, key_of('a'))) << "byte " << at;
  }
}

TEST(Introduction, NIT3_TheAnswerIsKnownToWhoHasTheKeyAndIsForOneIntroduction) {
  const Introduction first = introduce(kPair, key_of('a')).value(), second = introduce(kPair, key_of('a')).value();
  const Token::Digest answer = acceptance(first, key_of('a'));
  EXPECT_TRUE(same_proof(answer, acceptance(decode_introduction(bytes_of_introduction(first)).value(), key_of('a'))));
  EXPECT_FALSE(same_proof(answer, acceptance(first, key_of('b'))));
  EXPECT_FALSE(same_proof(answer, acceptance(second, key_of('a')))) << "it cannot be said again";
  EXPECT_FALSE(same_proof(answer, first.proof)) << "nor is the dialler's own proof one, sent back";
}

TEST(Introduction, SaysSomethingElseEachTime) { EXPECT_NE(sent(), sent()); }

}  // namespace
}  // namespace troupe::net
