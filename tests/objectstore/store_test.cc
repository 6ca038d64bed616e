// Promises of client.h, with a daemon in the same process.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <random>
#include <thread>

#include "support.h"

namespace troupe::store::test {
namespace {

using namespace std::chrono_literals;

StoreServerOptions small_store() { return {.node = 1, .capacity = 32 << 20, .slots = 1 << 16}; }

TEST(StoreClient, WhatWasPutIsReadByAnotherClientWithoutACopy) {
  Hub hub(small_store());
  Member a(hub, 1), b(hub, 2);
  for (std::size_t size : {0ul, 1ul, 64ul, 1000ul, 65535ul, 65536ul, 8ul << 20}) {
    Pin made = a.put_shared(size, static_cast<unsigned char>(size % 251 + 1));
    EXPECT_EQ(made.size(), size);
    Pin seen = b.client->try_pin(made.id());
    ASSERT_TRUE(seen) << size;
    EXPECT_EQ(seen.size(), size);
    EXPECT_TRUE(all_equal(seen, static_cast<unsigned char>(size % 251 + 1)));
    EXPECT_TRUE(b.client->contains(seen.data()));
    EXPECT_NE(seen.data(), made.data()) << "not the maker's writable address";
    EXPECT_EQ(std::memcmp(b.client->arena() + (seen.data() - b.client->arena()), made.data(), size), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen.data()) % 64, 0u);
  }
  EXPECT_EQ(hub.audit(), "");
}

/// The shared memory of a store, as any of its processes could write it.
class SharedWords {
 public:
  explicit SharedWords(Hub& hub) {
    auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(999)); });
    EXPECT_TRUE(handles.ok());
    map_ = std::move(*Mapping::read_write(handles->index, std::size_t(handles->layout.slots) * sizeof(IndexEntry)));
  }
  std::atomic<std::uint64_t>& word(BufferId id) { return reinterpret_cast<IndexEntry*>(map_.data())[id.slot].word; }

 private:
  Mapping map_;
};

/// What a thread of this process has run for.
std::chrono::nanoseconds cpu_time(std::jthread& thread) {
  clockid_t clock{};
  timespec ran{};
  EXPECT_EQ(pthread_getcpuclockid(thread.native_handle(), &clock), 0);
  EXPECT_EQ(clock_gettime(clock, &ran), 0);
  return std::chrono::seconds(ran.tv_sec) + std::chrono::nanoseconds(ran.tv_nsec);
}

// SL-3: doomed is no answer yet, while the freer is a thread of this process that lost its core in the middle.
TEST(StoreClient, AFreerOfTheSameProcessIsWaitedFor) {
  Hub hub(small_store());
  Member a(hub, 1);
  SharedWords words(hub);
  Pin made = a.put(100, 7);
  const std::uint64_t sealed = words.word(made.id());
  ASSERT_EQ(unpack(sealed).state, SlotState::kSealed);
  words.word(made.id()) = pack({made.id().generation, SlotState::kDoomed});
  std::atomic<bool> started{false}, gave_up{false};
  Pin seen;
  std::jthread reader([&] {
    started = true;
    started.notify_one();
    seen = a.client->try_pin(made.id());
    gave_up = !seen;
  });
  started.wait(false);
  // More than the reader spins for, whatever else runs on this machine.
  while (!gave_up && cpu_time(reader) < 1ms) std::this_thread::yield();
  words.word(made.id()) = sealed;
  reader.join();
  EXPECT_TRUE(seen);
}

// B.12: a daemon that is stopped between doomed and sealed again. The reader neither waits for it nor takes the buffer
// for lost: its pin is empty, which means "ask the daemon", and its report makes the daemon look again.
TEST(StoreClient, ADaemonThatWasStoppedWhileItFreedIsNotWaitedForAndLosesNothing) {
  Hub hub(small_store());
  Member a(hub, 1), b(hub, 2);
  SharedWords words(hub);
  Pin made = a.put_shared(100, 7);
  const std::uint64_t sealed = words.word(made.id());
  words.word(made.id()) = pack({made.id().generation, SlotState::kDoomed});
  EXPECT_FALSE(b.client->try_pin(made.id()));
  EXPECT_FALSE(a.client->try_pin(made.id())) << "its maker's process neither";
  words.word(made.id()) = sealed;
  EXPECT_TRUE(hub.with([&](StoreServer& s) { return s.contains(made.id()); })) << "what the daemon answers";
  EXPECT_TRUE(all_equal(b.client->try_pin(made.id()), 7));
  made.reset();
  a.client->flush();
  b.client->flush();
  EXPECT_EQ(hub.usage().objects, 0u) << "SL-6";
}

// B.3: the daemon looks at every slot that a dead process may have pinned. One that its maker is about to recycle is
// the maker's: if both freed it, the maker's chunk would never be returned and its range given out twice.
TEST(StoreClient, TheDeathOfAnotherLeavesABufferToTheMakerThatRecyclesIt) {
  Hub hub(small_store());
  Member a(hub, 1);
  auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(2)); });
  ASSERT_TRUE(handles.ok());
  auto second = std::move(*handles);
  DirectDaemon daemon(hub, process(2));
  auto b = StoreClient::create(std::move(second), daemon);
  ASSERT_TRUE(b.ok());
  Pin shared = a.put_shared(100, 1);
  EXPECT_TRUE((*b)->try_pin(shared.id()));  // the block of slots is touched
  // The maker between its last drop and the recycling: sealed, and nobody pins it.
  auto open = a.client->allocate(100);
  ASSERT_TRUE(open.ok());
  const BufferId id = open->id();
  SharedWords words(hub);
  const std::uint64_t leased = words.word(id);
  words.word(id) = pack({id.generation, SlotState::kSealed});
  hub.with([&](StoreServer& s) { s.client_died(process(2)); });
  EXPECT_EQ(words.word(id), pack({id.generation, SlotState::kSealed})) << "SS-1";
  // A reader's stale report of the same slot says no more.
  hub.with([&](StoreServer& s) { s.maybe_free(process(1), std::span(&id, 1)); });
  EXPECT_EQ(words.word(id), pack({id.generation, SlotState::kSealed}));
  words.word(id) = leased;
  { Pin pin = a.client->seal(std::move(*open)); }
  EXPECT_EQ(a.client->stats().recycled, 1u);
  shared.reset();
  a.client->trim();
  EXPECT_EQ(hub.usage().leased, 0u);
  EXPECT_EQ(hub.audit(), "");
}

// A.5: what one client keeps for reuse is what another waits for.
TEST(StoreClient, ATrimmedClientGivesBackWhatBecomesEmptyWhileOthersWait) {
  Hub hub({.node = 1, .capacity = 1 << 20, .slots = 1000});
  Member a(hub, 1), b(hub, 2);
  std::vector<Pin> pins;
  for (int i = 0; i < 8; ++i) pins.push_back(a.put(60000, 1));
  const std::uint64_t room = (1 << 20) - (64 << 10);
  std::thread waiter([&] { EXPECT_TRUE(all_equal(b.put(room, 2), 2)); });
  while (hub.usage().waiting == 0) std::this_thread::yield();
  a.client->trim();  // TrimAsked: all of it is still in use
  pins.clear();      // never shared: without the trim before it would be kept for the next put
  waiter.join();
  EXPECT_EQ(hub.audit(), "");
}

// B.7: a child of the user's program that ends by exit() destroys what it inherited.
TEST(StoreClient, AForkedChildReadsAndDestroysPinsAndItsParentKeepsThem) {
  Hub hub(small_store());
  Member a(hub, 1), b(hub, 2);
  Pin made = a.put(100, 5), shared = a.put_shared(200, 6), large = a.put_shared(1 << 20, 7);
  Pin seen = b.client->try_pin(shared.id());
  auto open = a.client->allocate(300);
  ASSERT_TRUE(open.ok());
  std::memset(open->data(), 9, open->size());
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    bool right = all_equal(made, 5) && all_equal(shared, 6) && all_equal(large, 7) && all_equal(seen, 6);
    Pin copy = made, other = shared;
    right = right && all_equal(copy, 5) && !a.client->try_pin(shared.id()) && !a.client->allocate(100).ok();
    if (!kHardenedBuild) std::memset(open->data(), 1, open->size());
    { auto dropped = std::move(*open); }
    copy.reset();
    other.reset();
    made.reset();
    shared.reset();
    large.reset();
    seen.reset();
    a.client->trim();
    b.client.reset();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(hub.with([&](StoreServer& s) { return s.hold(kDaemon, shared.id()); }));
  hub.with([&](StoreServer& s) { s.release(kDaemon, shared.id()); });  // the daemon looks at all pins
  EXPECT_TRUE(hub.with([&](StoreServer& s) { return s.contains(shared.id()); }));
  for (int i = 0; i < 100; ++i) a.put(100, 3);  // would cut the child's bytes anew
  EXPECT_TRUE(all_equal(made, 5) && all_equal(shared, 6) && all_equal(large, 7) && all_equal(seen, 6));
  EXPECT_EQ(open->bytes()[0], std::byte{9}) << "the child wrote into memory of its own";
  made.reset();
  seen.reset();
  shared.reset();
  large.reset();
  { auto dropped = std::move(*open); }
  a.client->flush();
  b.client->flush();
  EXPECT_EQ(hub.usage().objects, 0u);
  EXPECT_EQ(hub.audit(), "");
}

TEST(StoreClient, AnUnknownStaleOrForeignIdIsNotHere) {
  Hub hub(small_store());
  Member a(hub, 1);
  Pin pin = a.put(100, 1);
  BufferId id = pin.id();
  EXPECT_FALSE(a.client->try_pin({}));
  EXPECT_FALSE(a.client->try_pin({2, id.slot, id.generation}));
  EXPECT_FALSE(a.client->try_pin({1, id.slot, id.generation + 1}));
  EXPECT_FALSE(a.client->try_pin({1, ~0u, 1}));
  EXPECT_FALSE(a.client->try_pin({1, 60000, 1}));
  EXPECT_TRUE(a.client->try_pin(id));
  pin.reset();
  EXPECT_FALSE(a.client->try_pin(id)) << "dropped: its generation is over";
  auto open = a.client->allocate(10);
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE(a.client->try_pin(open->id())) << "not sealed";
}

TEST(StoreClient, DroppingUnsharedBuffersTellsNobodyAndReusesThem) {
  Hub hub(small_store());
  Member a(hub, 1);
  for (int i = 0; i < 100000; ++i) {
    Pin pin = a.put(1024, static_cast<unsigned char>(i));
    Pin copy = pin;
    Pin moved = std::move(pin);
    ASSERT_FALSE(pin);
    ASSERT_TRUE(all_equal(copy, static_cast<unsigned char>(i)));
  }
  EXPECT_EQ(a.daemon.freed, 0u);
  EXPECT_EQ(a.daemon.leases, 1u) << "no round trip after the first";
  EXPECT_EQ(hub.usage().used, 0u);
}

TEST(StoreClient, SharedBuffersComeBackWhenTheLastClientDropsThem) {
  Hub hub(small_store());
  Member a(hub, 1), b(hub, 2);
  for (int round = 0; round < 50; ++round) {
    std::vector<Pin> made, seen;
    for (int i = 0; i < 200; ++i) made.push_back(a.put_shared(1 + i * 37 % 9000, 7));
    for (const Pin& pin : made) seen.push_back(b.client->try_pin(pin.id()));
    made.clear();
    a.client->flush();
    for (const Pin& pin : seen) ASSERT_TRUE(pin && all_equal(pin, 7));
    EXPECT_EQ(hub.usage().objects, 200u);
    seen.clear();
    b.client->flush();
    EXPECT_EQ(hub.usage().objects, 0u);
    EXPECT_EQ(hub.usage().used, 0u);
    ASSERT_EQ(hub.audit(), "");
  }
  a.client->trim();
  EXPECT_EQ(hub.usage().leased, 0u) << "all chunks came back";
  EXPECT_LE(hub.usage().reserved, 16u << 20) << "memory was reused, not taken anew";
}

TEST(StoreClient, UsageReturnsToItsEarlierValueAfterALargeDrop) {
  Hub hub(small_store());
  Member a(hub, 1);
  Pin kept = a.put(500, 1);
  std::uint64_t before = hub.usage().used;
  for (int i = 0; i < 10; ++i) {
    Pin large = a.put(8 << 20, 2);
    EXPECT_EQ(hub.usage().used, before + (8 << 20));
    large.reset();
    EXPECT_EQ(hub.usage().used, before) << "a large drop is told at once";
  }
  EXPECT_LE(hub.usage().reserved, 12u << 20) << "the same range was used again";
}

TEST(StoreClient, AnAbandonedBufferIsGivenBack) {
  Hub hub(small_store());
  Member a(hub, 1);
  {
    auto small = a.client->allocate(100);
    auto large = a.client->allocate(1 << 20);
    ASSERT_TRUE(small.ok() && large.ok());
  }
  a.client->flush();
  EXPECT_EQ(hub.usage().used, 0u);
  EXPECT_EQ(a.client->stats().users, 0u);
  EXPECT_EQ(hub.audit(), "");
}

TEST(StoreClient, ASlotGivenBackUnusedIsNotMistakenForOnesOwn) {
  Hub hub({.node = 1, .capacity = 32 << 20, .slots = 300});
  Member a(hub, 1);
  std::vector<BufferId> abandoned;
  for (int i = 0; i < 200; ++i) abandoned.push_back(a.client->allocate(64)->id());
  {
    std::vector<WritableBuffer> open;
    for (int i = 0; i < 200; ++i) open.push_back(std::move(*a.client->allocate(64)));
  }
  a.client->trim();
  Member b(hub, 2);
  std::vector<Pin> theirs;
  for (int i = 0; i < 250; ++i) theirs.push_back(b.put_shared(64, 9));
  for (const Pin& pin : theirs) {
    Pin seen = a.client->try_pin(pin.id());
    ASSERT_TRUE(seen && all_equal(seen, 9));
    seen.reset();
    ASSERT_TRUE(b.client->try_pin(pin.id())) << "a dropped it: it is b's all the same";
  }
  theirs.clear();
  a.client->flush();
  b.client->flush();
  EXPECT_EQ(hub.usage().objects, 0u);
}

TEST(StoreClient, PinsOutliveTheirClient) {
  Hub hub(small_store());
  auto a = std::make_unique<Member>(hub, 1);
  Pin small = a->put_shared(100, 3), large = a->put(1 << 20, 4);
  auto b = std::make_unique<Member>(hub, 2);
  Pin seen = b->client->try_pin(small.id());
  b.reset();
  a.reset();
  Pin copy = large;
  EXPECT_TRUE(all_equal(small, 3) && all_equal(large, 4) && all_equal(seen, 3) && all_equal(copy, 4));
}

TEST(StoreClient, ManyThreadsPutPinAndDropWithoutLosingAnything) {
  Hub hub({.node = 1, .capacity = 64 << 20, .slots = 1 << 16});
  Member a(hub, 1), b(hub, 2);
  std::mutex mutex;
  std::vector<std::pair<BufferId, Pin>> board;  // pinned by a: stands for a message in flight
  auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 4000; ++i) {
      std::size_t size = random() % 20 == 0 ? 64 << 10 : 1 + random() % 3000;
      Pin pin = a.put(size, static_cast<unsigned char>(size));
      if (random() % 2) continue;
      a.client->mark_shared(pin);
      Pin mine, other;
      {
        std::lock_guard lock(mutex);
        board.emplace_back(pin.id(), std::move(pin));
        std::swap(board[random() % board.size()], board.back());
        if (board.size() < 20) continue;
        mine = std::move(board.back().second);
        board.pop_back();
      }
      other = b.client->try_pin(mine.id());
      mine.reset();
      ASSERT_TRUE(other && all_equal(other, static_cast<unsigned char>(other.size())));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  board.clear();
  a.client->flush();
  b.client->flush();
  EXPECT_EQ(hub.usage().used, 0u);
  EXPECT_EQ(a.client->stats().users, 0u);
  EXPECT_EQ(b.client->stats().users, 0u);
  EXPECT_EQ(hub.audit(), "");
}

TEST(StoreClient, AReaderCannotWriteNorMapWritable) {
  Hub hub(small_store());
  Member a(hub, 1), b(hub, 2);
  Pin made = a.put_shared(5000, 1);
  Pin seen = b.client->try_pin(made.id());
  ASSERT_TRUE(seen);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *const_cast<volatile std::byte*>(seen.data()) = std::byte{2};
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#else
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
  EXPECT_EQ(made.data()[0], std::byte{1});
  auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(3)); });
  ASSERT_TRUE(handles.ok());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, handles->arena_read.get(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(handles->arena_write.get(), 4096), 0) << "nobody can shrink the arena under the others";
}

TEST(StoreClient, AHardenedMakerCannotWriteAfterSealing) {
  Hub hub(small_store());
  Member a(hub, 1, {.hardened = true});
  for (std::size_t size : {100ul, 1ul << 20}) {
    for (int again = 0; again < 3; ++again) {
      Pin pin = a.put(size, 5);
      pid_t child = fork();
      if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *const_cast<volatile std::byte*>(pin.data()) = std::byte{2};
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << size;
      EXPECT_TRUE(all_equal(pin, 5));
    }
  }
}

TEST(StoreClient, ALayoutThatDoesNotFitItsDescriptorsIsRefused) {
  Hub hub(small_store());
  auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(1)); });
  ASSERT_TRUE(handles.ok());
  handles->layout.capacity *= 2;
  DirectDaemon daemon(hub, process(1));
  auto client = StoreClient::create(std::move(*handles), daemon);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), ErrorCode::kInvalidArgument);
}

/// A daemon whose chunks cannot be mapped by the client; after some it has had enough.
struct UnmappableDaemon final : DirectDaemon {
  using DirectDaemon::DirectDaemon;
  Result<Lease> lease(const LeaseRequest& request) override {
    if (++asked > 3) return make_error<ObjectStoreFullError>("all is leased");
    Result<Lease> lease = DirectDaemon::lease(request);
    if (lease.ok()) lease->range.offset += std::uint64_t{1} << 40;
    return lease;
  }
  int asked = 0;
};

TEST(StoreClient, CC4_AChunkThatCannotBeMappedGoesBackAndItsUserHearsWhy) {
  Hub hub(small_store());
  auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(1)); });
  ASSERT_TRUE(handles.ok());
  UnmappableDaemon daemon(hub, process(1));
  auto client = StoreClient::create(std::move(*handles), daemon);
  ASSERT_TRUE(client.ok());
  daemon.client = client->get();
  auto buffer = (*client)->allocate(100);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code(), ErrorCode::kInvalidArgument) << buffer.error().message();
  EXPECT_EQ(daemon.asked, 1);
  EXPECT_EQ(hub.usage().leased, 0u);
  EXPECT_EQ(hub.audit(), "");
}

}  // namespace
}  // namespace troupe::store::test
