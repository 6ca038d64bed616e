// Two processes: a peer that dies, hangs, or is away for a moment. LK-5. The peer is this very program, with --peer.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "core/base/fd.h"
#include "recorder.h"

extern char** environ;

namespace troupe::net::testing {
namespace {

constexpr KeepAlive kQuick{.time = std::chrono::milliseconds(200), .timeout = std::chrono::milliseconds(800)};

/// The peer: listens, prints its port, sends back what it gets, ends when its standard input does.
int peer_main() {
  struct Echo : LinkEvents {
    Links* links = nullptr;
    void on_open(LinkId, const LinkPeer&) override {}
    void on_batch(LinkId link, ByteView frames) override { links->send_raw(link, frames); }
    void on_closed(LinkId, const Status&) override {}
  } events;
  auto options = options_for("peer " + std::to_string(::getpid()));
  auto links = open_links(events, options);
  if (!links.ok()) return 1;
  events.links = links->get();
  auto port = (*links)->listen({});
  if (!port.ok()) return 1;
  std::printf("%d\n", *port);
  std::fflush(stdout);
  char byte;
  while (::read(0, &byte, 1) > 0) {}
  (*links)->shutdown();
  return 0;
}

class Peer {
 public:
  Peer() {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    char self[] = "/proc/self/exe", flag[] = "--peer";
    char* argv[] = {self, flag, nullptr};
    if (::posix_spawn(&pid_, self, &actions, nullptr, argv, environ) != 0) throw std::runtime_error("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    input_.reset(to[1]);
    UniqueFd output(from[0]);
    char text[16] = {};
    for (std::size_t n = 0; n < sizeof text - 1 && (n == 0 || text[n - 1] != '\n'); ++n) {
      if (::read(output.get(), text + n, 1) != 1) throw std::runtime_error("the peer did not start");
    }
    std::from_chars(text, text + sizeof text, port_);
  }
  ~Peer() { kill(SIGKILL); }
  void signal(int number) { ::kill(pid_, number); }
  void kill(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  int end() {
    input_.reset();
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int port_ = 0;
  UniqueFd input_;
};

struct Client {
  Recorder events;
  std::unique_ptr<Links> links;
  LinkId link = 0;
  explicit Client(const Peer& peer, KeepAlive keep_alive = options_for("").keep_alive) {
    auto options = options_for("client");
    options.keep_alive = keep_alive;
    links = *open_links(events, options);
    link = *links->connect({.address = peer.address(), .timeout = kPatience});
  }
  ErrorCode why() {
    const auto seen = events.seen(link);
    return seen.why ? seen.why->code() : ErrorCode(0);
  }
};

TEST(LinkProcess, FramesGoThereAndBackInOrder) {
  Peer peer;
  Client client(peer);
  EXPECT_EQ(client.events.seen(client.link).hello, "peer " + std::to_string(peer.pid()));
  constexpr std::uint64_t kFrames = 200'000;
  const std::vector<std::byte> payload(32);
  for (std::uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(client.links->send(client.link, numbered(i), payload));
  ASSERT_TRUE(client.events.wait_frames(client.link, kFrames));
  EXPECT_TRUE(client.events.seen(client.link).in_order);
  EXPECT_EQ(peer.end(), 0);
  ASSERT_TRUE(client.events.wait_closed(client.link));
  EXPECT_EQ(client.why(), ErrorCode(0)) << "a peer that shuts down closes in order";
}

TEST(LinkProcess, AKilledPeerIsSeen) {
  Peer peer;
  Client client(peer);
  peer.kill(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.events.wait_closed(client.link));
  RecordProperty("ms", int((std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(1)));
  EXPECT_EQ(client.why(), ErrorCode::kNodeDied);
}

TEST(LinkProcess, AHungPeerIsSeenAlsoWhileWeSendToIt) {
  for (const bool sending : {false, true}) {
    Peer peer;
    Client client(peer, kQuick);
    peer.signal(SIGSTOP);
    const std::vector<std::byte> payload(60'000);
    for (std::uint64_t i = 0; sending && i < 500; ++i) client.links->send(client.link, numbered(i), payload);
    ASSERT_TRUE(client.events.wait_closed(client.link)) << "sending " << sending;
    EXPECT_EQ(client.why(), ErrorCode::kNodeDied);
    peer.signal(SIGCONT);
  }
}

TEST(LinkProcess, AServerSeesAClientThatHangs) {
  struct Dialer : Recorder {};
  Recorder events;
  auto options = options_for("server");
  options.keep_alive = kQuick;
  auto links = *open_links(events, options);
  const int port = *links->listen({});
  // The child connects to us: the peer program in its other role.
  pid_t pid = 0;
  std::string self = "/proc/self/exe", flag = "--dial", where = "127.0.0.1:" + std::to_string(port);
  char* argv[] = {self.data(), flag.data(), where.data(), nullptr};
  ASSERT_EQ(::posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv, environ), 0);
  const LinkId link = events.wait_incoming();
  ASSERT_NE(link, 0u);
  ::kill(pid, SIGSTOP);
  EXPECT_TRUE(events.wait_closed(link));
  ASSERT_TRUE(events.seen(link).why);
  EXPECT_EQ(events.seen(link).why->code(), ErrorCode::kNodeDied);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(LinkProcess, APauseShorterThanTheTimeoutBreaksNothing) {
  Peer peer;
  constexpr std::chrono::seconds kPause(3);
  EXPECT_GT(KeepAlive{}.timeout, kPause) << "a user's link bears it too";
  Client client(peer);  // which bears ten times as long, for who is here without a core
  peer.signal(SIGSTOP);
  for (std::uint64_t i = 0; i < 1000; ++i) client.links->send(client.link, numbered(i));
  const auto end = std::chrono::steady_clock::now() + kPause;
  while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_until(end);
  peer.signal(SIGCONT);
  ASSERT_TRUE(client.events.wait_frames(client.link, 1000));
  EXPECT_FALSE(client.events.seen(client.link).closed);
}

/// The peer in its other role: connects and stays.
int dial_main(const char* address) {
  Recorder events;
  auto links = open_links(events, options_for("dialer"));
  if (!links.ok()) return 1;
  if (auto link = (*links)->connect({.address = address, .timeout = kPatience}); !link.ok()) {
    std::fprintf(stderr, "dialer: %s\n", link.error().what());
    return 1;
  }
  while (true) ::pause();
}

}  // namespace
}  // namespace troupe::net::testing

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--peer") return troupe::net::testing::peer_main();
  if (argc == 3 && std::string_view(argv[1]) == "--dial") return troupe::net::testing::dial_main(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
