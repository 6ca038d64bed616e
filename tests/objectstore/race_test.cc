// SL-3 of layout.h: memory is never reused under a pin. A daemon frees and reuses as fast as it can while readers pin.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <thread>

#include "support.h"

namespace troupe::store::test {
namespace {

constexpr int kBoard = 64;

/// Ids that readers may try, in memory shared with forked readers. A reader may find any of them already freed.
struct Board {
  struct Cell {
    std::atomic<std::uint64_t> slot_and_generation;
    std::atomic<std::uint32_t> fill;
  };
  Cell cells[kBoard];
  std::atomic<bool> stop;
  std::atomic<std::uint64_t> pinned, missed, wrong;
};

Board* make_board() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Board{};
}

/// Every byte of a buffer is a function of slot and generation: a reader knows what it must see.
unsigned char pattern(BufferId id) { return static_cast<unsigned char>(id.slot * 31 + id.generation * 7 + 1); }

void read_all(StoreClient& client, Board& board, unsigned cells = kBoard) {
  for (unsigned i = 0; !board.stop.load(std::memory_order_relaxed); ++i) {
    std::uint64_t raw = board.cells[i % cells].slot_and_generation.load(std::memory_order_acquire);
    BufferId id{1, std::uint32_t(raw >> 32), std::uint32_t(raw)};
    Pin pin = client.try_pin(id);
    if (!pin) {
      board.missed.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    for (int look = 0; look < 3; ++look) {
      if (!all_equal(pin, pattern(id))) board.wrong.fetch_add(1);
    }
    board.pinned.fetch_add(1, std::memory_order_relaxed);
    pin.reset();
    if (i % 16 == 0) client.flush();
  }
  client.flush();
}

/// Puts, publishes, drops at once: what the readers find is always about to be freed and overwritten.
void churn(Member& maker, Board& board, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    auto buffer = maker.client->allocate(i % 50 == 0 ? 64 << 10 : 192);
    ASSERT_TRUE(buffer.ok());
    BufferId id = buffer->id();
    std::memset(buffer->data(), pattern(id), buffer->size());
    Pin pin = maker.client->seal(std::move(*buffer));
    maker.client->mark_shared(pin);
    board.cells[i % kBoard].slot_and_generation.store(std::uint64_t(id.slot) << 32 | id.generation,
                                                      std::memory_order_release);
    pin.reset();
    if (i % 8 == 0) maker.client->flush();
  }
  maker.client->flush();
}

/// On a busy machine the readers may not have run meanwhile, however long that was: it ends when the race took place.
void churn_until_pinned(Member& maker, Board& board) {
  churn(maker, board, 60000);
  while (board.pinned <= 100 && !::testing::Test::HasFatalFailure()) churn(maker, board, 10000);
}

TEST(PinRace, ThreadsThatPinWhileTheDaemonFreesNeverSeeReusedMemory) {
  Hub hub({.node = 1, .capacity = 8 << 20, .slots = 2048});
  Member maker(hub, 1), one(hub, 2), two(hub, 3);
  Board* board = make_board();
  std::thread first([&] { read_all(*one.client, *board); }), second([&] { read_all(*two.client, *board); });
  churn_until_pinned(maker, *board);
  board->stop = true;
  first.join();
  second.join();
  EXPECT_EQ(board->wrong, 0u);
  EXPECT_GT(board->pinned, 100u) << "the race took place";
  EXPECT_EQ(hub.usage().objects, 0u) << "a pin that was taken back was reported: nothing leaked";
  EXPECT_EQ(hub.audit(), "");
  munmap(board, sizeof(Board));
}

TEST(PinRace, ThreadsOfTheMakerRaceWithItsOwnRecycling) {
  Hub hub({.node = 1, .capacity = 8 << 20, .slots = 2048});
  Member maker(hub, 1);
  Board* board = make_board();
  std::thread reader([&] { read_all(*maker.client, *board, 1); });
  for (int i = 0; i < 300000; ++i) {  // never shared: the last drop recycles in this process
    auto buffer = maker.client->allocate(192);
    ASSERT_TRUE(buffer.ok());
    BufferId id = buffer->id();
    std::memset(buffer->data(), pattern(id), buffer->size());
    Pin pin = maker.client->seal(std::move(*buffer));
    board->cells[0].slot_and_generation.store(std::uint64_t(id.slot) << 32 | id.generation, std::memory_order_release);
  }
  board->stop = true;
  reader.join();
  EXPECT_EQ(board->wrong, 0u);
  EXPECT_EQ(hub.usage().objects, 0u);
  EXPECT_EQ(maker.client->stats().users, 0u);
  munmap(board, sizeof(Board));
}

TEST(PinRace, ProcessesThatPinWhileTheDaemonFreesNeverSeeReusedMemory) {
  Hub hub({.node = 1, .capacity = 8 << 20, .slots = 2048});
  Board* board = make_board();
  struct Child {
    pid_t pid;
    int fd;
    std::thread service;
  };
  std::vector<Child> children;
  for (std::uint32_t serial : {2u, 3u}) {
    auto handles = hub.with([&](StoreServer& s) { return s.add_client(process(serial)); });
    ASSERT_TRUE(handles.ok());
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      SocketDaemon daemon(ends[1]);
      auto client = StoreClient::create(std::move(*handles), daemon);
      if (!client.ok()) _exit(1);
      read_all(**client, *board);
      client->reset();
      _exit(0);
    }
    close(ends[1]);
    children.push_back({pid, ends[0], {}});
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    children[i].service = std::thread([&, i] {
      SocketService service(hub, process(std::uint32_t(2 + i)), children[i].fd);
      while (service.serve_one()) {}
    });
  }
  Member maker(hub, 1);
  churn_until_pinned(maker, *board);
  board->stop = true;
  for (Child& child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child.pid, &status, 0), child.pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child.service.join();
    close(child.fd);
  }
  EXPECT_EQ(board->wrong, 0u);
  EXPECT_GT(board->pinned, 100u) << "the race took place";
  EXPECT_EQ(hub.usage().objects, 0u);
  EXPECT_EQ(hub.audit(), "");
  munmap(board, sizeof(Board));
}

}  // namespace
}  // namespace troupe::store::test
