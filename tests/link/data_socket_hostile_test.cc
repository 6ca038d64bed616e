// NDS-2 to NDS-6 of net/data/data_socket.h against peers that corrupt, hang up, stop in the middle or send nonsense.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "core/net/data/data_socket.h"
#include "core/net/data/codec.h"
#include "core/net/base/proof.h"
#include "core/net/base/socket.h"
#include "tests/link/data_socket_pair.h"

namespace troupe::net {
namespace {

using namespace testing;

/// Stands between client and server, and may change what flows back.
class Proxy {
 public:
  using Change = std::function<bool(std::size_t position, char* bytes, std::size_t size)>;  ///< false: hang up
  explicit Proxy(Change change)
      : change_(std::move(change)), listener_(*listen_tcp("127.0.0.1", 0)), port(*local_port(listener_.get())) {}
  /// The server that is to be reached through it: it knows that this address leads to it (else it refuses, PX-3).
  DataServerOptions server(DataServerOptions options = {.token = token_of('a')}) const {
    options.also_reached_at = address_of(port);
    return options;
  }
  void start(int to) {
    to_ = to;
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    for (auto& one : threads_) one.join();
  }

 private:
  static UniqueFd dial(int port) {
    auto address = *parse_address(address_of(port));
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), address.size) != 0) fd.reset();
    return fd;
  }
  void run() {
    const int flags = ::fcntl(listener_.get(), F_GETFL);
    ::fcntl(listener_.get(), F_SETFL, flags & ~O_NONBLOCK);
    while (!stop_) {
      UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      if (!client) return;
      auto in = std::make_shared<UniqueFd>(std::move(client));
      auto out = std::make_shared<UniqueFd>(dial(to_));
      threads_.emplace_back([in, out] { pump(*in, *out, nullptr); });
      threads_.emplace_back([in, out, this] { pump(*out, *in, &change_); });
    }
  }
  static void pump(UniqueFd& from, UniqueFd& to, Change* change) {
    std::vector<char> buffer(64 * 1024);
    std::size_t position = 0;
    while (true) {
      const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0 || (change && *change && !(*change)(position, buffer.data(), std::size_t(got)))) break;
      position += std::size_t(got);
      if (::send(to.get(), buffer.data(), std::size_t(got), MSG_NOSIGNAL) != got) break;
    }
    ::shutdown(from.get(), SHUT_RDWR);
    ::shutdown(to.get(), SHUT_RDWR);
  }

  int to_ = 0;
  Change change_;
  UniqueFd listener_;
  std::thread thread_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};

 public:
  const int port;
};

TEST(DataSocketHostile, ARelayGetsNoByte) {  // PX-3
  Proxy relay([](std::size_t, char*, std::size_t) { return true; });
  Pair pair;  // which does not know that it is reached that way
  pair.store.put(1, pattern(100));
  relay.start(pair.server->port());
  std::vector<std::byte> into(100);
  EXPECT_EQ(code_of(start(*pair.client, address_of(relay.port), 1, into).get()), ErrorCode::kUnauthenticated);
  EXPECT_EQ(pair.server->stats().requests, 0u);
  pair.client->stop();
}

TEST(DataSocketHostile, AFlippedBitAnywhereInTheBytesIsSeen) {  // NDS-3
  const std::size_t size = 3 * kMiB;
  for (const std::size_t at : {std::size_t(500), size / 2, size}) {
    Proxy proxy([at](std::size_t position, char* bytes, std::size_t count) {
      if (at >= position && at < position + count) bytes[at - position] ^= 1;
      return true;
    });
    Pair pair(proxy.server());
    pair.store.put(1, pattern(size));
    proxy.start(pair.server->port());
    std::vector<std::byte> into(size);
    const Status status = start(*pair.client, address_of(proxy.port), 1, into).get();
    EXPECT_EQ(code_of(status), ErrorCode::kSerialization) << at;
    pair.client->stop();
  }
}

TEST(DataSocketHostile, FlippedHeadersAndHangUpsAnywhereAreTypedErrors) {  // NDS-5
  const std::size_t size = 600'000;
  const auto bytes = pattern(size);
  std::atomic<std::size_t> at{0};
  std::atomic<bool> flip{true};
  Proxy proxy([&](std::size_t position, char* data, std::size_t count) {
    if (at < position || at >= position + count) return true;
    if (flip) data[at - position] = char(data[at - position] ^ 0x55);
    return flip.load();
  });
  Pair pair(proxy.server());
  pair.store.put(1, bytes);
  proxy.start(pair.server->port());
  for (const bool flipping : {true, false}) {
    flip = flipping;
    for (std::size_t place = 0; place < 190; place += 3) {  // welcome, reply, first chunk header
      at = place;
      auto client = *DataClient::open({.token = token_of('a'), .io_threads = 1});
      std::vector<std::byte> into(size);
      const Status status = start(*client, address_of(proxy.port), 1, into, std::chrono::seconds(5)).get();
      // A reserved field may be changed without harm; then the bytes are right.
      if (status.ok()) {
        EXPECT_TRUE(into == bytes) << place;
      } else {
        EXPECT_NE(code_of(status), ErrorCode::kUser) << status.error().what();
      }
    }
  }
}

TEST(DataSocketHostile, GarbageOnThePortHarmsNobody) {  // NDS-5
  Pair pair({.token = token_of('a'), .handshake_timeout = std::chrono::seconds(2)});
  pair.store.put(1, pattern(100));
  std::uint64_t state = 7;
  const auto random = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    auto fd = dial_hand_over(pair.address(), as_bytes("x"), SteadyClock::now() + kPatience);  // not enabled: hung up
    std::string bytes;
    UniqueFd plain(::socket(AF_INET, SOCK_STREAM, 0));
    auto address = *parse_address(pair.address());
    ASSERT_EQ(::connect(plain.get(), reinterpret_cast<sockaddr*>(&address.storage), address.size), 0);
    ProofHello hello;
    hello.purpose = ProofPurpose::kData;
    if (i % 2 == 0) bytes = std::string(as_text(bytes_of(hello)));  // a right beginning
    for (std::uint64_t n = random() % 300; n > 0; --n) bytes += char(random());
    [[maybe_unused]] auto sent = ::send(plain.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (i % 10 == 0) silent.push_back(std::move(plain));
  }
  std::vector<std::byte> into(100);
  EXPECT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok());
  const auto deadline = SteadyClock::now() + kPatience;
  while (pair.server->stats().connections > 2 && SteadyClock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(pair.server->stats().connections, 2u) << "those who say nothing are cut";
  EXPECT_GT(pair.server->stats().handshakes_failed, 100u);
}

TEST(DataSocketHostile, AnAuthenticatedPeerThatSendsNonsenseIsCut) {  // NDS-5
  Pair pair;
  pair.store.put(1, pattern(100));
  for (int kind = 0; kind < 4; ++kind) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    auto address = *parse_address(pair.address());
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), address.size), 0);
    const timeval patience{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    auto proof = *ProofExchange::dial({.token = token_of('a'), .purpose = ProofPurpose::kData, .incarnation = 1}, {},
                                      pair.address());
    const std::string hello = proof.output();
    ASSERT_EQ(::send(fd.get(), hello.data(), hello.size(), 0), ssize_t(hello.size()));
    ProofWelcome welcome;
    ASSERT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_WAITALL), ssize_t(sizeof welcome));
    proof.take(bytes_of(welcome));
    ASSERT_TRUE(proof.proven());
    const std::string answer = proof.output();
    ASSERT_EQ(::send(fd.get(), answer.data(), answer.size(), 0), ssize_t(answer.size()));
    DataRequest request;
    request.slot = 1;
    request.generation = 7;
    request.length = kind == 0 ? ~0ull : 50;
    request.offset = kind == 1 ? ~0ull - 10 : 0;
    request.type = kind == 2 ? DataType(9) : DataType::kGet;
    request.check = header_check(request) + (kind == 3);
    ASSERT_EQ(::send(fd.get(), &request, sizeof request, 0), ssize_t(sizeof request));
    DataReply reply;
    const ssize_t got = ::recv(fd.get(), &reply, sizeof reply, MSG_WAITALL);
    if (kind < 2) {
      ASSERT_EQ(got, ssize_t(sizeof reply));
      EXPECT_EQ(reply.error, std::uint16_t(ErrorCode::kObjectLost));
    } else {
      EXPECT_EQ(got, 0) << "cut";
    }
  }
}

/// A peer that says "it is not here" to one request a connection, and after the first of them some bytes too many.
class Talker {
 public:
  Talker() : listener_(*listen_tcp("127.0.0.1", 0)), port(*local_port(listener_.get())) {
    ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) & ~O_NONBLOCK);
    thread_ = std::thread([this] { run(); });
  }
  ~Talker() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void run() {
    for (std::size_t surplus = 2 * sizeof(DataReply);; surplus = 0) {
      const UniqueFd fd(::accept(listener_.get(), nullptr, nullptr));
      if (!fd) return;
      auto proof = *ProofExchange::listen(
          {.token = token_of('a'), .purpose = ProofPurpose::kData, .incarnation = 1}, address_of(port));
      while (!proof.proven()) {
        std::string in(proof.wanted(), 0);
        ASSERT_EQ(::recv(fd.get(), in.data(), in.size(), MSG_WAITALL), ssize_t(in.size()));
        proof.take(as_bytes(in));
        const std::string out = proof.output();
        ASSERT_EQ(::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL), ssize_t(out.size()));
      }
      DataRequest request;
      ASSERT_EQ(::recv(fd.get(), &request, sizeof request, MSG_WAITALL), ssize_t(sizeof request));
      DataReply reply;
      reply.id = request.id;
      reply.error = std::uint16_t(ErrorCode::kNotFound);
      reply.check = header_check(reply);
      const std::string said = std::string(as_text(bytes_of(reply))) + std::string(surplus, 's');
      ASSERT_EQ(::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL), ssize_t(said.size()));
      open_.push_back(UniqueFd(::dup(fd.get())));  // what follows is not the end of the connection
    }
  }

  UniqueFd listener_;
  std::vector<UniqueFd> open_;
  std::thread thread_;

 public:
  const int port;
};

TEST(DataSocketHostile, WhatAPeerSaysTooMuchIsNotTakenForTheNextReply) {  // NDS-5
  const Talker peer;
  const auto client = *DataClient::open({.token = token_of('a'), .io_threads = 1});
  std::vector<std::byte> into(100);
  Fetch fetch{address_of(peer.port), {1, 1, 7}, into, SteadyClock::now() + kPatience, kPatience};
  std::promise<Status> first, second;
  client->fetch(fetch, [&](const Status& status) {
    first.set_value(status);
    // From the client's own thread: it uses the connection again before it has read more from it.
    client->fetch(fetch, [&](const Status& again) { second.set_value(again); });
  });
  EXPECT_EQ(code_of(first.get_future().get()), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(second.get_future().get()), ErrorCode::kNotFound) << "asked once more, over another connection";
  EXPECT_EQ(client->stats().connections_made, 2u);
  client->stop();
}

TEST(DataSocketHostile, APeerThatStopsInTheMiddleMeetsTheDeadline) {  // NDS-2
  std::mutex gate;
  std::unique_lock shut(gate);
  Proxy proxy([&](std::size_t position, char*, std::size_t) {
    if (position > kMiB) std::lock_guard wait(gate);
    return true;
  });
  Pair pair(proxy.server());
  pair.store.put(1, pattern(4 * kMiB));
  proxy.start(pair.server->port());
  std::vector<std::byte> into(4 * kMiB);
  EXPECT_EQ(code_of(start(*pair.client, address_of(proxy.port), 1, into, std::chrono::milliseconds(300)).get()),
            ErrorCode::kDeadlineExceeded);
  std::fill(into.begin(), into.end(), std::byte{0});
  shut.unlock();
  pair.client->stop();
  EXPECT_TRUE(std::all_of(into.begin(), into.end(), [](std::byte b) { return b == std::byte{0}; }))
      << "nobody writes after done";
}

// B.9: a process that is stopped keeps its connections and gives nothing. Without the stall the fetch would last as
// long as its deadline, whoever else has the buffer.
TEST(DataSocketHostile, APeerThatStopsIsGivenUpAfterAStallLongBeforeTheDeadline) {  // NDS-2
  std::mutex gate;
  std::unique_lock shut(gate);
  Proxy proxy([&](std::size_t position, char*, std::size_t) {
    if (position > kMiB) std::lock_guard wait(gate);
    return true;
  });
  Pair pair(proxy.server());
  pair.store.put(1, pattern(4 * kMiB));
  proxy.start(pair.server->port());
  for (bool before_welcome : {false, true}) {
    const UniqueFd mute = *listen_tcp("127.0.0.1", 0);  // the kernel accepts; nobody ever says a word
    std::vector<std::byte> into(4 * kMiB);
    std::promise<Status> ended;
    Fetch fetch{address_of(before_welcome ? *local_port(mute.get()) : proxy.port),
                {1, 1, 7},
                into,
                SteadyClock::now() + std::chrono::hours(1)};
    fetch.stall = std::chrono::milliseconds(300);
    pair.client->fetch(fetch, [&](const Status& status) { ended.set_value(status); });
    EXPECT_EQ(code_of(ended.get_future().get()), ErrorCode::kDeadlineExceeded);
  }
  shut.unlock();
  pair.client->stop();
}

TEST(DataSocketHostile, NDS6_AConnectionInUseIsNotClosedHoweverLongNothingCame) {
  std::mutex gate;
  std::unique_lock shut(gate);
  Proxy proxy([&](std::size_t position, char*, std::size_t) {
    if (position > kMiB) std::lock_guard wait(gate);
    return true;
  });
  Pair pair(proxy.server(), {.token = token_of('a'), .io_threads = 1, .idle_max = std::chrono::milliseconds(50)});
  pair.store.put(1, pattern(100));
  pair.store.put(2, pattern(4 * kMiB));
  proxy.start(pair.server->port());
  std::vector<std::byte> first(100), second(4 * kMiB);
  EXPECT_TRUE(start(*pair.client, address_of(proxy.port), 1, first).get().ok());
  auto pending = start(*pair.client, address_of(proxy.port), 2, second);
  EXPECT_EQ(pending.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  shut.unlock();
  EXPECT_TRUE(pending.get().ok());
  EXPECT_TRUE(second == pattern(4 * kMiB));
  pair.client->stop();
}

TEST(DataSocketHostile, AClientThatTakesNothingIsCutAndItsPinReleased) {  // NDS-4
  std::mutex gate;
  std::unique_lock shut(gate);
  {
    Proxy proxy([&](std::size_t position, char*, std::size_t) {
      if (position > kMiB) std::lock_guard wait(gate);
      return true;
    });
    Pair pair(proxy.server({.token = token_of('a'), .stall_timeout = std::chrono::milliseconds(300)}));
    pair.store.put(1, pattern(64 * kMiB));
    proxy.start(pair.server->port());
    std::vector<std::byte> into(64 * kMiB);
    auto pending = start(*pair.client, address_of(proxy.port), 1, into);
    const auto deadline = SteadyClock::now() + kPatience;
    while (pair.server->stats().bytes_sent < kMiB && SteadyClock::now() < deadline) std::this_thread::yield();
    while (pair.store.pins(1) != 0 && SteadyClock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(pair.store.pins(1), 0);
    shut.unlock();
    EXPECT_EQ(code_of(pending.get()), ErrorCode::kNodeDied);
    pair.client->stop();
  }
}

}  // namespace
}  // namespace troupe::net
