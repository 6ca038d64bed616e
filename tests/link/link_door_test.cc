// Who gets in, and who does not: LK-3, NLS-1 to NLS-3, LH-1.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "core/net/base/socket.h"
#include "core/net/base/source.h"
#include "recorder.h"
#include "tests/base/reserved_port.h"

namespace troupe::net::testing {
namespace {

template <class T>
ErrorCode code_of(const Result<T>& result) {
  return result.ok() ? ErrorCode(0) : result.error().code();
}

struct Server {
  Recorder events;
  std::unique_ptr<Links> links;
  int port = 0;
  explicit Server(LinksOptions options = options_for("server"), ListenOptions listen = {}) {
    links = *open_links(events, options);
    port = *links->listen(listen);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
};

Result<LinkId> try_connect(const std::string& address, const LinksOptions& options, Recorder& events) {
  auto links = *open_links(events, options);
  return links->connect({.address = address, .timeout = kPatience});
}

UniqueFd plain_connection(int port) {
  auto address = *parse_address("127.0.0.1:" + std::to_string(port));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) fd.reset();
  const timeval patience{30, 0};
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}
/// Reads to the end. False when the peer keeps it open for 30 s.
bool is_hung_up(int fd) {
  char bytes[512];
  while (true) {
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
}

TEST(LinkDoor, AnotherTokenClusterOrBuildIsRefusedWithTheReason) {  // LK-3
  Server server;
  struct Case { const char* reason; std::function<void(LinkIdentity&)> spoil; };
  const std::vector<Case> cases = {
      {"token", [](LinkIdentity& id) { id.token = token_of('b'); }},
      {"cluster", [](LinkIdentity& id) { id.cluster_id = "cluster-2"; }},
      {"build", [](LinkIdentity& id) { id.build = "build-2"; }},
  };
  for (const auto& one : cases) {
    auto options = options_for("intruder");
    one.spoil(options.identity);
    Recorder events;
    auto link = try_connect(server.address(), options, events);
    ASSERT_EQ(code_of(link), ErrorCode::kUnauthenticated) << one.reason;
    EXPECT_NE(std::string(link.error().what()).find(one.reason), std::string::npos) << link.error().what();
    EXPECT_EQ(std::string(link.error().what()).find(std::string(16, 'a')), std::string::npos)
        << "no token in a message";
    EXPECT_EQ(events.count(), 0u) << "a link that connect() could not open has no events";
  }
  EXPECT_EQ(server.events.count(), 0u);
  EXPECT_GE(server.links->stats().handshakes_failed, 3u);
  Recorder events;
  auto friendly = options_for("friend");
  friendly.identity.cluster_id.clear();  // not known yet
  friendly.identity.build.clear();
  EXPECT_TRUE(try_connect(server.address(), friendly, events).ok());
}

TEST(LinkDoor, WithoutATokenNothingIsDialed) {
  Server server;
  LinksOptions options = options_for("x");
  options.identity.token = {};
  Recorder events;
  EXPECT_EQ(code_of(try_connect(server.address(), options, events)), ErrorCode::kUnauthenticated);
}

TEST(LinkDoor, APortInUseIsAClearError) {  // NLS-1
  Server server;
  Recorder events;
  auto links = *open_links(events, options_for("second"));
  auto port = links->listen({.port = server.port});
  ASSERT_EQ(code_of(port), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(port.error().what()).find("in use"), std::string::npos);
  EXPECT_NE(std::string(port.error().what()).find(std::to_string(server.port)), std::string::npos);
  EXPECT_TRUE(links->listen({}).ok()) << "and another port works afterwards";
  EXPECT_EQ(code_of(links->listen({})), ErrorCode::kInvalidArgument) << "once only";
}

TEST(LinkDoor, NobodyThereIsNotFoundAndRetryWaitsForTheListener) {
  const UniqueFd reserved = reserve_port();
  const int port = *local_port(reserved.get());
  const std::string address = "127.0.0.1:" + std::to_string(port);
  Recorder events;
  auto links = *open_links(events, options_for("early"));
  EXPECT_EQ(code_of(links->connect({.address = address, .timeout = kPatience})), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(links->connect({.address = "no port", .timeout = kPatience})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(links->connect({.address = "127.0.0.1:99999", .timeout = kPatience})), ErrorCode::kInvalidArgument);
  auto later = std::async(std::launch::async,
                          [&] { return links->connect({.address = address, .timeout = kPatience, .retry = true}); });
  Server server(options_for("late"), {.port = port});
  auto link = later.get();
  EXPECT_TRUE(link.ok()) << link.error().what();
}

TEST(LinkDoor, ASilentPeerMeetsTheDeadline) {
  UniqueFd silent = *listen_tcp("127.0.0.1", 0);
  Recorder events;
  auto links = *open_links(events, options_for("client"));
  auto link = links->connect(
      {.address = "127.0.0.1:" + std::to_string(*local_port(silent.get())), .timeout = std::chrono::milliseconds(200)});
  EXPECT_EQ(code_of(link), ErrorCode::kDeadlineExceeded);
}

TEST(LinkDoor, GarbageAndSilenceAreCutAndHarmNobody) {  // LH-1
  auto options = options_for("server");
  options.handshake_timeout = std::chrono::seconds(2);
  Server server(options);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(plain_connection(server.port));
  std::uint64_t state = 42;
  for (int i = 0; i < 50; ++i) {
    auto fd = plain_connection(server.port);
    std::string bytes = i % 3 == 0   ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                        : i % 3 == 1 ? "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
                                     : "";
    for (int j = 0; j < 300; ++j) bytes += char((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
    [[maybe_unused]] auto sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  for (auto& fd : silent) EXPECT_TRUE(is_hung_up(fd.get()));
  Recorder events;
  EXPECT_TRUE(try_connect(server.address(), options_for("friend"), events).ok());
}

TEST(LinkDoor, StrangersTakeNoPlaceOfMembers) {  // HK-1
  auto options = options_for("server");
  options.handshake_timeout = std::chrono::hours(1);  // nobody is cut by time alone
  Server server(options, {.connections_max = 4, .unproven_max = 8});
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(plain_connection(server.port));
  for (int i = 0; i < 42; ++i)
    EXPECT_TRUE(is_hung_up(strangers[std::size_t(i)].get())) << "displaced by a later one: " << i;
  Recorder events;
  auto links = *open_links(events, options_for("member"));
  for (int i = 0; i < 4; ++i) {
    auto link = links->connect({.address = server.address(), .timeout = kPatience});
    EXPECT_TRUE(link.ok()) << link.error().what();
  }
}

/// From another address of this machine.
UniqueFd connection_from(const char* source, int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  ::inet_pton(AF_INET, source, &own.sin_addr);
  auto to = *parse_address("127.0.0.1:" + std::to_string(port));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) != 0)
    fd.reset();
  return fd;
}

TEST(Source, SRC1_TheOldestOfWhomMostWaitMakesWay) {
  constexpr Source a{1}, b{2}, c{3};
  EXPECT_EQ(who_makes_way(std::vector{a}), 0u);
  EXPECT_EQ(who_makes_way(std::vector{a, b, b}), 1u);
  EXPECT_EQ(who_makes_way(std::vector{a, b, b, a}), 0u) << "of as many the oldest of all";
  EXPECT_EQ(who_makes_way(std::vector{c, a, b, a, b, b}), 2u);
}

// At f0736ec whoever connected often enough displaced everybody who was not through yet.
TEST(LinkDoor, HK1_AFloodFromOneAddressDisplacesNobodyFromAnother) {
  auto options = options_for("server");
  options.handshake_timeout = std::chrono::hours(1);
  Server server(options, {.connections_max = 4, .unproven_max = 8});
  UniqueFd slow = connection_from("127.0.0.2", server.port);
  ASSERT_TRUE(slow) << std::strerror(errno);
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(plain_connection(server.port));
  for (int i = 0; i < 43; ++i) ASSERT_TRUE(is_hung_up(flood[std::size_t(i)].get())) << i;
  char byte;
  EXPECT_EQ(::recv(slow.get(), &byte, 1, MSG_DONTWAIT), -1) << "it was hung up on";
  EXPECT_EQ(errno, EAGAIN);
}

/// Takes the first connection that comes to `listener` and reads all that is said to it for as long as it says nothing.
std::string overhear(int listener, const std::function<void(int)>& answer = {}) {
  ::fcntl(listener, F_SETFL, 0);
  UniqueFd fd(::accept(listener, nullptr, nullptr));
  const timeval patience{30, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string heard;
  char bytes[4096];
  for (bool answered = false;;) {
    const ssize_t got = ::recv(fd.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return heard;
    heard.append(bytes, std::size_t(got));
    if (!answered && heard.size() >= sizeof(ProofHello) && answer) answered = true, answer(fd.get());
  }
}

TEST(LinkDoor, WhoTookOverAPortGetsNothingUsable) {  // LK-3, PX-2; at f0736ec it was sent the token
  UniqueFd taken = *listen_tcp("127.0.0.1", 0);
  const std::string address = "127.0.0.1:" + std::to_string(*local_port(taken.get()));
  for (const bool answers : {false, true}) {
    auto heard = std::async(std::launch::async, [&] {
      return overhear(taken.get(), [&](int fd) {
        ProofWelcome invented;
        invented.role = ProofRole::kNode;
        if (answers) [[maybe_unused]] auto sent = ::send(fd, &invented, sizeof invented, MSG_NOSIGNAL);
        if (!answers) ::shutdown(fd, SHUT_RDWR);
      });
    });
    Recorder events;
    auto link = try_connect(address, options_for("victim"), events);
    EXPECT_EQ(code_of(link), answers ? ErrorCode::kUnauthenticated : ErrorCode::kNodeDied);
    const std::string said = heard.get();
    EXPECT_EQ(said.size(), sizeof(ProofHello)) << "a hello and nothing after it";
    const Token token = token_of('a');
    EXPECT_EQ(said.find(token.hex()), std::string::npos);
    EXPECT_EQ(said.find(std::string(32, char(0xaa))), std::string::npos) << "nor as bytes";
  }
}

TEST(LinkDoor, ARelayBringsNobodyTogether) {  // PX-3
  Server server;
  UniqueFd relay = *listen_tcp("127.0.0.1", 0);
  const std::string address = "127.0.0.1:" + std::to_string(*local_port(relay.get()));
  auto relayed = std::async(std::launch::async, [&] {
    UniqueFd onward = plain_connection(server.port);
    char welcome[sizeof(ProofWelcome)];
    ssize_t got = 0;
    overhear(relay.get(), [&](int fd) {
      // What it heard goes on to a living node; the node's answer comes back.
      ProofHello hello;
      hello.address = {};
      const std::string honest = "127.0.0.1:" + std::to_string(server.port);
      std::copy(honest.begin(), honest.end(), hello.address.begin());  // put right, so that the node answers at all
      [[maybe_unused]] auto sent = ::send(onward.get(), &hello, sizeof hello, MSG_NOSIGNAL);
      got = ::recv(onward.get(), welcome, sizeof welcome, MSG_WAITALL);
      sent = ::send(fd, welcome, sizeof welcome, MSG_NOSIGNAL);
    });
    return got;
  });
  Recorder events;
  auto link = try_connect(address, options_for("victim"), events);
  EXPECT_EQ(code_of(link), ErrorCode::kUnauthenticated);
  EXPECT_EQ(relayed.get(), ssize_t(sizeof(ProofWelcome)));
  EXPECT_EQ(server.events.count(), 0u);
}

TEST(LinkDoor, OnlyTheOneThatWasMeantIsLinked) {  // PX-3
  Server server;
  Recorder events;
  auto links = *open_links(events, options_for("client"));
  const auto connect = [&](ProofTarget target) {
    return links->connect({.address = server.address(), .timeout = kPatience, .expected = target});
  };
  auto first = connect({.role = ProofRole::kNode});
  ASSERT_TRUE(first.ok()) << first.error().what();
  const std::uint64_t incarnation = events.seen(*first).peer.incarnation;
  EXPECT_NE(incarnation, 0u);
  EXPECT_TRUE(connect({.incarnation = incarnation}).ok());
  EXPECT_EQ(code_of(connect({.incarnation = incarnation + 1})), ErrorCode::kUnauthenticated);
  EXPECT_EQ(code_of(connect({.role = ProofRole::kHead})), ErrorCode::kUnauthenticated);
  const auto seen = server.events.seen(server.events.wait_incoming());
  EXPECT_NE(seen.peer.incarnation, 0u);
  EXPECT_NE(seen.peer.incarnation, incarnation);
}

TEST(LinkDoor, TheCapHoldsAndRoomIsUsedAgain) {  // NLS-3
  Server server(options_for("server"), {.connections_max = 3});
  Recorder events;
  auto links = *open_links(events, options_for("client"));
  std::vector<LinkId> open;
  for (int i = 0; i < 3; ++i) open.push_back(*links->connect({.address = server.address(), .timeout = kPatience}));
  EXPECT_FALSE(links->connect({.address = server.address(), .timeout = kPatience}).ok());
  EXPECT_GE(server.links->stats().connections_refused, 1u);
  links->close(open[0]);
  ASSERT_TRUE(events.wait_closed(open[0]));
  // The server notices the end of a connection a moment after the client does.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto again = links->connect({.address = server.address(), .timeout = kPatience});
  while (!again.ok() && std::chrono::steady_clock::now() < deadline)
    again = links->connect({.address = server.address(), .timeout = kPatience});
  EXPECT_TRUE(again.ok());
}

TEST(LinkDoor, RunningOutOfDescriptorsEndsNothing) {  // NLS-2
  Server server;
  Recorder events;
  auto links = *open_links(events, options_for("client"));
  ASSERT_TRUE(links->connect({.address = server.address(), .timeout = kPatience}).ok());
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<UniqueFd> hoard;
  const rlimit low{256, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  while (true) {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) break;
    hoard.push_back(std::move(fd));
  }
  auto address = *parse_address(server.address());
  const timeval patience{30, 0};
  for (auto& client : clients) {
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size), 0);
    EXPECT_TRUE(is_hung_up(client.get())) << "refused, not left in the queue";
  }
  hoard.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(links->connect({.address = server.address(), .timeout = kPatience}).ok())
      << "accepts again when there is room";
  EXPECT_GE(server.links->stats().connections_refused, 4u);
}

TEST(LinkDoor, AMissingLibraryNamesWhatWasTried) {
  Recorder events;
  auto options = options_for("x");
  options.library = "/nonexistent/libtroupe_rpc.so";
  auto links = open_links(events, options);
  ASSERT_EQ(code_of(links), ErrorCode::kRuntimeEnv);
  EXPECT_NE(std::string(links.error().what()).find("/nonexistent/libtroupe_rpc.so"), std::string::npos);
  options.library = "libc.so.6";  // opens, and is not ours
  EXPECT_EQ(code_of(open_links(events, options)), ErrorCode::kRuntimeEnv);
}

TEST(LinkDoor, NoConnectionOrDescriptorIsLeftBehind) {
  Server server;
  Recorder events;
  const auto count = [] {
    int open = 0;
    for (int fd = 0; fd < 1024; ++fd) open += ::fcntl(fd, F_GETFD) >= 0;
    return open;
  };
  auto links = *open_links(events, options_for("client"));
  const auto once = [&] {
    auto link = links->connect({.address = server.address(), .timeout = kPatience});
    ASSERT_TRUE(link.ok()) << link.error().what();
    links->close(*link);
    ASSERT_TRUE(events.wait_closed(*link));
  };
  once();  // what is opened once and kept
  const auto settled = [&](int wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (count() > wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return count();
  };
  const int before = settled(0 + count());
  for (int i = 0; i < 50; ++i) once();
  EXPECT_LE(settled(before), before);
}

}  // namespace
}  // namespace troupe::net::testing
