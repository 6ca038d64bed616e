// SS-3: a client that dies at any instruction leaves nothing behind, and what others pin stays readable.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <random>

#include "support.h"

namespace troupe::store::test {
namespace {

unsigned char pattern(BufferId id) { return static_cast<unsigned char>(id.slot * 13 + id.generation * 5 + 1); }

/// A client that does a bit of everything until it is killed.
[[noreturn]] void live_wildly(StoreHandles handles, int fd, unsigned seed) {
  SocketDaemon daemon(fd);
  auto client = StoreClient::create(std::move(handles), daemon);
  if (!client.ok()) _exit(1);
  std::mt19937 random(seed);
  std::vector<Pin> pins;
  for (;;) {
    switch (random() % 6) {
      case 0:
      case 1:
      case 2: {
        auto buffer = (*client)->allocate(random() % 10 == 0 ? 65536 + random() % 300000 : random() % 4000);
        if (!buffer.ok()) {
          pins.clear();
          (*client)->trim();
          break;
        }
        if (random() % 8 == 0) break;  // abandoned
        std::memset(buffer->data(), pattern(buffer->id()), buffer->size());
        Pin pin = (*client)->seal(std::move(*buffer));
        if (random() % 2) {
          (*client)->mark_shared(pin);
          daemon.announce(pin.id(), pin.size(), pattern(pin.id()));
        }
        pins.push_back(std::move(pin));
        break;
      }
      case 3:
        if (!pins.empty()) {
          std::swap(pins[random() % pins.size()], pins.back());
          pins.pop_back();
        }
        break;
      case 4:
        if (pins.size() > 100) pins.clear();
        break;
      case 5:
        if (random() % 20 == 0) (*client)->trim();
        else (*client)->flush();
        break;
    }
  }
}

TEST(ClientDeath, BetweenDroppingAPinAndTellingTheDaemonItLeavesNothing) {
  Hub hub({.node = 1, .capacity = 24 << 20, .slots = 4096});
  Member maker(hub, 1), reader(hub, 2);
  Pin made = maker.put_shared(300000, 7);
  Pin seen = reader.client->try_pin(made.id());
  ASSERT_TRUE(seen);
  made.reset();
  maker.client->flush();
  EXPECT_EQ(hub.usage().objects, 1u) << "the reader has it";
  seen.reset();  // on the reader's list, which dies with it
  hub.with([&](StoreServer& s) { s.client_died(reader.id); });
  EXPECT_EQ(hub.usage().objects, 0u);
  EXPECT_EQ(hub.audit(), "");
}

struct Kept {
  Pin pin;
  unsigned char fill;
};

TEST(ClientDeath, KilledAtRandomInstantsItLeavesNothingAndBreaksNobody) {
  Hub hub({.node = 1, .capacity = 24 << 20, .slots = 4096});
  Member other(hub, 1);
  std::mt19937 random(11);
  std::vector<Kept> kept;
  for (int round = 0; round < 150; ++round) {
    ProcessId id = process(std::uint32_t(100 + round));
    auto handles = hub.with([&](StoreServer& s) { return s.add_client(id); });
    ASSERT_TRUE(handles.ok());
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    unsigned seed = random();
    pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      live_wildly(std::move(*handles), ends[1], seed);
    }
    close(ends[1]);
    SocketService service(hub, id, ends[0]);
    service.on_shared = [&](BufferId buffer, std::uint64_t size, unsigned char fill) {
      if (random() % 3) return;
      Pin pin = other.client->try_pin(buffer);
      if (!pin) return;  // dropped again before we came
      EXPECT_EQ(pin.size(), size);
      EXPECT_TRUE(all_equal(pin, fill));
      kept.push_back({std::move(pin), fill});
      if (kept.size() > 30) kept.erase(kept.begin() + long(random() % kept.size()));
    };
    int messages = int(random() % 400);
    for (int i = 0; i < messages; ++i) ASSERT_TRUE(service.serve_one());
    for (unsigned spin = random() % 20000; spin > 0; --spin)
      asm volatile("");  // the instant is anywhere between messages, too
    kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    hub.with([&](StoreServer& s) { s.client_closing(id); });
    while (service.serve_one()) {}  // its last messages are drained first
    hub.with([&](StoreServer& s) { s.client_died(id); });
    close(ends[0]);
    ASSERT_EQ(hub.audit(), "") << "round " << round;
    other.client->flush();
    for (const Kept& k : kept) ASSERT_TRUE(all_equal(k.pin, k.fill)) << "round " << round;
    std::uint64_t bytes = 0;
    for (const Kept& k : kept) bytes += k.pin.size();
    ASSERT_EQ(hub.usage().objects, kept.size()) << "round " << round;
    ASSERT_LE(hub.usage().used, bytes + kept.size() * kPageBytes) << "round " << round;
  }
  kept.clear();
  other.client->trim();
  EXPECT_EQ(hub.usage().used, 0u);
  EXPECT_EQ(hub.usage().leased, 0u);
  EXPECT_EQ(hub.audit(), "");
}

}  // namespace
}  // namespace troupe::store::test
