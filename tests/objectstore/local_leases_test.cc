// Promises of local_leases.h.
#include "objectstore/client/local_leases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace troupe::store {
namespace {

Lease lease(std::uint32_t chunk, std::uint64_t offset, std::uint64_t size, std::uint32_t first_slot,
            std::uint32_t slots) {
  Lease l{chunk, {offset, size}, std::vector<std::uint32_t>(slots)};
  std::iota(l.slots.begin(), l.slots.end(), first_slot);
  return l;
}

TEST(LocalLeases, PutDropPutRunsOnTheSameBytesAndSlot) {
  LocalLeases leases({});
  EXPECT_FALSE(leases.take(64));
  leases.add(lease(1, 0, 1024, 0, 4));
  auto first = leases.take(64);
  auto a = leases.take(128);
  leases.put_back(*a, 128);
  auto b = leases.take(128);
  EXPECT_EQ(a->offset, b->offset) << "LL-3";
  EXPECT_EQ(a->slot, b->slot);
  leases.put_back(*first, 64);
  leases.put_back(*b, 128);
  EXPECT_EQ(leases.take(1024)->offset, 0u) << "LL-2: an empty chunk begins anew";
}

TEST(LocalLeases, AFullChunkIsReturnedWithTheNumberOfItsSharedBuffers) {
  LocalLeases leases({});
  leases.add(lease(7, 0, 256, 0, 10));
  auto a = leases.take(128), b = leases.take(128);
  EXPECT_FALSE(leases.take(64));  // full: retired
  leases.share(a->chunk);
  EXPECT_FALSE(leases.has_give_back()) << "LL-1: one is still local";
  leases.put_back(*b, 128);
  auto out = leases.take_give_back();
  ASSERT_EQ(out.chunks.size(), 1u);
  EXPECT_EQ(out.chunks[0].chunk, 7u);
  EXPECT_EQ(out.chunks[0].shared, 1u);
  EXPECT_EQ(leases.chunks_held(), 0u);
}

TEST(LocalLeases, RequestsGrowAndAskingAheadHappensOnce) {
  LocalLeases leases({.chunk_bytes = 1024, .chunk_bytes_max = 4096, .slots = 8, .slots_max = 16});
  EXPECT_EQ(leases.next_request(64).bytes, 1024u);
  EXPECT_EQ(leases.next_request(64).bytes, 2048u);
  EXPECT_EQ(leases.next_request(64).bytes, 4096u);
  EXPECT_EQ(leases.next_request(64).bytes, 4096u);
  leases.add(lease(1, 0, 1024, 0, 16));
  (void)leases.take(640);
  EXPECT_FALSE(leases.ask_ahead());
  (void)leases.take(192);
  EXPECT_TRUE(leases.ask_ahead());
  EXPECT_FALSE(leases.ask_ahead());
  leases.add(lease(2, 4096, 1024, 16, 0));
  EXPECT_FALSE(leases.ask_ahead()) << "there is an idle chunk now";
}

TEST(LocalLeases, InATightStoreWhatBecomesEmptyGoesBackAtOnce) {
  LocalLeases leases({});
  leases.add(lease(1, 0, 256, 0, 8));
  leases.add(lease(2, 256, 256, 8, 0));
  auto a = leases.take(128), b = leases.take(128);  // chunk 2 is full
  auto c = leases.take(128);
  leases.trim();
  EXPECT_EQ(leases.take_give_back().slots.size(), 5u);
  leases.put_back(*a, 128);
  leases.put_back(*b, 128);
  leases.put_back(*c, 128);
  auto out = leases.take_give_back();
  EXPECT_EQ(out.chunks.size(), 2u) << "the current one, too";
  EXPECT_EQ(out.slots.size(), 3u);
  Lease tight = lease(3, 512, 256, 20, 4);
  tight.tight = true;
  leases.add(tight);
  leases.put_back(*leases.take(64), 64);
  EXPECT_EQ(leases.take_give_back().chunks.size(), 1u);
  leases.add(lease(4, 1024, 256, 30, 4));
  leases.put_back(*leases.take(64), 64);
  EXPECT_FALSE(leases.has_give_back()) << "there is room again";
}

// LL-1 and LL-2 against a model: live buffers never overlap, and a returned chunk has no local buffer.
TEST(LocalLeases, RandomUseNeverOverlapsAndReturnsEveryChunk) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    LocalLeases leases({.chunk_bytes = 4096, .chunk_bytes_max = 8192, .slots = 8, .slots_max = 32});
    struct Live {
      LocalLeases::Allocation place;
      std::uint64_t size;
    };
    std::vector<Live> local;
    std::map<std::uint64_t, std::uint64_t> bytes;  // live, shared ones included
    std::map<std::uint32_t, std::uint32_t> shared_in;
    std::map<std::uint32_t, Range> chunk_range;
    std::uint32_t next_chunk = 1, next_slot = 0;
    auto note_returns = [&] {
      for (const ReturnedChunk& c : leases.take_give_back().chunks) {
        ASSERT_EQ(c.shared, shared_in[c.chunk]) << "LL-1, seed " << seed;
        for (const Live& l : local) {
          Range r = chunk_range[c.chunk];
          ASSERT_FALSE(l.place.offset >= r.offset && l.place.offset < r.end()) << "LL-1, seed " << seed;
        }
        chunk_range.erase(c.chunk);
      }
    };
    for (int step = 0; step < 3000; ++step) {
      if (random() % 2) {
        std::uint64_t size = 64 * (1 + random() % 16);
        auto place = leases.take(size);
        if (!place) {
          LeaseRequest r = leases.next_request(size);
          ASSERT_TRUE(r.bytes > 0 || r.slots > 0) << "a miss asks for something";
          std::uint32_t id = r.bytes ? next_chunk++ : 0;
          leases.add(lease(id, std::uint64_t(id) << 20, r.bytes, next_slot, r.slots));
          next_slot += r.slots;
          if (id) chunk_range[id] = {std::uint64_t(id) << 20, r.bytes};
          continue;
        }
        auto next = bytes.lower_bound(place->offset);
        ASSERT_TRUE(next == bytes.end() || place->offset + size <= next->first) << "overlap, seed " << seed;
        ASSERT_TRUE(next == bytes.begin() || std::prev(next)->second <= place->offset) << "overlap, seed " << seed;
        bytes[place->offset] = place->offset + size;
        local.push_back({*place, size});
      } else if (!local.empty()) {
        std::size_t i = random() % local.size();
        std::swap(local[i], local.back());
        Live l = local.back();
        local.pop_back();
        if (random() % 3) {
          bytes.erase(l.place.offset);
          leases.put_back(l.place, l.size);
        } else {
          ++shared_in[std::uint32_t(l.place.offset >> 20)];
          leases.share(l.place.chunk);
        }
      }
      ASSERT_NO_FATAL_FAILURE(note_returns());
    }
    for (const Live& l : local) leases.put_back(l.place, l.size);
    local.clear();
    leases.trim();
    ASSERT_NO_FATAL_FAILURE(note_returns());
    EXPECT_TRUE(chunk_range.empty()) << "every chunk came back, seed " << seed;
    EXPECT_EQ(leases.chunks_held(), 0u);
    EXPECT_EQ(leases.slots_held(), 0u);
  }
}

}  // namespace
}  // namespace troupe::store
