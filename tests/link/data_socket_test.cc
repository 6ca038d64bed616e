// DS-1 to DS-5 of net/data_socket.h.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "core/net/data_socket.h"
#include "core/net/data_socket_codec.h"
#include "core/net/link_socket.h"

namespace troupe::net {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(30);
constexpr std::size_t kMiB = 1u << 20;

Token token_of(char digit) { return *Token::parse(std::string(64, digit)); }
ErrorCode code_of(const Status& status) { return status.ok() ? ErrorCode(0) : status.error().code(); }

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed;
  for (auto& byte : bytes) byte = std::byte((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
  return bytes;
}

/// Buffers by slot; counts pins.
class Store : public DataSource {
 public:
  void put(std::uint32_t slot, std::vector<std::byte> bytes) { buffers_[slot] = std::make_shared<std::vector<std::byte>>(std::move(bytes)); }
  Result<PinnedBytes> open(const BufferKey& key) override {
    std::lock_guard lock(mutex_);
    auto found = buffers_.find(key.slot);
    if (found == buffers_.end()) return NotFoundError("no buffer in slot " + std::to_string(key.slot));
    if (key.generation != 7) return ObjectLostError("generation " + std::to_string(key.generation) + " is over");
    return PinnedBytes{*found->second, found->second};
  }
  long pins(std::uint32_t slot) { return buffers_[slot].use_count() - 1; }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<std::vector<std::byte>>> buffers_;
};

std::string address_of(int port) { return "127.0.0.1:" + std::to_string(port); }

struct Pair {
  Store store;
  std::unique_ptr<DataServer> server;
  std::unique_ptr<DataClient> client;
  explicit Pair(DataServerOptions server_options = {.token = token_of('a')}, DataClientOptions client_options = {.token = token_of('a')}) {
    server = *DataServer::open(store, std::move(server_options));
    client = *DataClient::open(std::move(client_options));
  }
  std::string address() const { return address_of(server->port()); }
};

std::future<Status> start(DataClient& client, const std::string& address, std::uint32_t slot, std::span<std::byte> into,
                          SteadyClock::duration span = kPatience, std::uint32_t generation = 7) {
  auto promise = std::make_shared<std::promise<Status>>();
  client.fetch({.address = address, .key = {1, slot, generation}, .into = into, .deadline = SteadyClock::now() + span},
               [promise](const Status& status) { promise->set_value(status); });  // a second call would throw: DS-2
  return promise->get_future();
}

TEST(DataSocket, BuffersOfAllSizesArriveWhole) {  // DS-3
  Pair pair;
  std::uint32_t slot = 0;
  for (const std::size_t size : {std::size_t(0), std::size_t(1), std::size_t(4095), std::size_t(256 * 1024), std::size_t(256 * 1024 + 1),
                                 8 * kMiB, 16 * kMiB - 1, 33 * kMiB + 17}) {
    const auto bytes = pattern(size, slot + 1);
    pair.store.put(slot, bytes);
    std::vector<std::byte> into(size);
    const Status status = start(*pair.client, pair.address(), slot, into).get();
    ASSERT_TRUE(status.ok()) << size << ": " << status.error().what();
    EXPECT_TRUE(into == bytes) << size;
    ++slot;
  }
}

TEST(DataSocket, ConnectionsAreKeptAndUsedAgain) {
  Pair pair({.token = token_of('a')}, {.token = token_of('a'), .io_threads = 1});
  pair.store.put(1, pattern(1000));
  std::vector<std::byte> into(1000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok());
  EXPECT_EQ(pair.client->stats().connections_made, 1u);
  EXPECT_EQ(pair.server->stats().requests, 100u);
}

TEST(DataSocket, ManyFetchesAtOnceShareFewConnections) {
  Pair pair({.token = token_of('a')}, {.token = token_of('a'), .io_threads = 2, .connections_per_address = 3});
  for (std::uint32_t slot = 0; slot < 200; ++slot) pair.store.put(slot, pattern(10'000 + slot, slot + 1));
  std::vector<std::vector<std::byte>> into(200);
  std::vector<std::future<Status>> pending;
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    into[slot].resize(10'000 + slot);
    pending.push_back(start(*pair.client, pair.address(), slot, into[slot]));
  }
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    ASSERT_TRUE(pending[slot].get().ok());
    EXPECT_TRUE(into[slot] == pattern(10'000 + slot, slot + 1)) << slot;
  }
  EXPECT_LE(pair.client->stats().connections_made, 6u);
}

TEST(DataSocket, ManyClientsAtOnce) {
  Pair pair;
  pair.store.put(1, pattern(100'000));
  std::vector<std::unique_ptr<DataClient>> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(*DataClient::open({.token = token_of('a'), .io_threads = 1}));
  std::vector<std::vector<std::byte>> into(clients.size(), std::vector<std::byte>(100'000));
  std::vector<std::future<Status>> pending;
  for (std::size_t i = 0; i < clients.size(); ++i) pending.push_back(start(*clients[i], pair.address(), 1, into[i]));
  for (auto& one : pending) EXPECT_TRUE(one.get().ok());
}

TEST(DataSocket, WhatTheSourceSaysIsTheErrorOfTheFetch) {
  Pair pair;
  pair.store.put(1, pattern(100));
  std::vector<std::byte> into(100), wrong(101);
  const Status missing = start(*pair.client, pair.address(), 5, into).get();
  EXPECT_EQ(code_of(missing), ErrorCode::kNotFound);
  EXPECT_NE(std::string(missing.error().what()).find("slot 5"), std::string::npos);
  EXPECT_EQ(code_of(start(*pair.client, pair.address(), 1, into, kPatience, 8).get()), ErrorCode::kObjectLost);
  EXPECT_EQ(code_of(start(*pair.client, pair.address(), 1, wrong).get()), ErrorCode::kObjectLost);
  EXPECT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok()) << "and the next fetch works";
}

TEST(DataSocket, AnotherTokenGetsNothing) {  // DS-1
  Pair pair({.token = token_of('a')}, {.token = token_of('b')});
  pair.store.put(1, pattern(100));
  std::vector<std::byte> into(100);
  const Status status = start(*pair.client, pair.address(), 1, into).get();
  EXPECT_EQ(code_of(status), ErrorCode::kUnauthenticated);
  EXPECT_EQ(pair.server->stats().requests, 0u);
  EXPECT_FALSE(DataServer::open(pair.store, {}).ok());
  EXPECT_FALSE(DataClient::open({}).ok());
}

TEST(DataSocket, APortInUseAndAPortWithoutServer) {
  Pair pair;
  auto second = DataServer::open(pair.store, {.token = token_of('a'), .port = pair.server->port()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kInvalidArgument);
  std::vector<std::byte> into(32 * kMiB);  // in two parts: both fail, done once
  const std::string gone = pair.address();
  pair.server.reset();
  EXPECT_EQ(code_of(start(*pair.client, gone, 1, into).get()), ErrorCode::kNodeDied);
  EXPECT_EQ(code_of(start(*pair.client, "nonsense", 1, into).get()), ErrorCode::kInvalidArgument);
}

TEST(DataSocket, AServerThatCameBackIsFoundAgainThroughAStalePool) {
  Pair pair;
  pair.store.put(1, pattern(100));
  std::vector<std::byte> into(100);
  ASSERT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok());
  const int port = pair.server->port();
  pair.server.reset();
  pair.server = *DataServer::open(pair.store, {.token = token_of('a'), .port = port});
  for (int i = 0; i < 4; ++i) {
    const Status status = start(*pair.client, pair.address(), 1, into).get();
    EXPECT_TRUE(status.ok()) << status.error().what();
  }
}

// ---------------------------------------------------------------------------------------------------------- hostile peers

/// Stands between client and server, and may change what flows back.
class Proxy {
 public:
  using Change = std::function<bool(std::size_t position, char* bytes, std::size_t size)>;  ///< false: hang up
  Proxy(int to, Change change) : to_(to), change_(std::move(change)), listener_(*listen_tcp("127.0.0.1", 0)), port(*local_port(listener_.get())) {
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    stop_ = true;
    thread_.join();
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

  int to_;
  Change change_;
  UniqueFd listener_;
  std::thread thread_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};

 public:
  const int port;
};

TEST(DataSocket, AFlippedBitAnywhereInTheBytesIsSeen) {  // DS-3
  const std::size_t size = 3 * kMiB;
  for (const std::size_t at : {std::size_t(500), size / 2, size}) {
    Pair pair;
    pair.store.put(1, pattern(size));
    Proxy proxy(pair.server->port(), [at](std::size_t position, char* bytes, std::size_t count) {
      if (at >= position && at < position + count) bytes[at - position] ^= 1;
      return true;
    });
    std::vector<std::byte> into(size);
    const Status status = start(*pair.client, address_of(proxy.port), 1, into).get();
    EXPECT_EQ(code_of(status), ErrorCode::kSerialization) << at;
    pair.client->stop();
  }
}

TEST(DataSocket, FlippedHeadersAndHangUpsAnywhereAreTypedErrors) {  // DS-5
  Pair pair;
  const std::size_t size = 600'000;
  const auto bytes = pattern(size);
  pair.store.put(1, bytes);
  std::atomic<std::size_t> at{0};
  std::atomic<bool> flip{true};
  Proxy proxy(pair.server->port(), [&](std::size_t position, char* data, std::size_t count) {
    if (at < position || at >= position + count) return true;
    if (flip) data[at - position] = char(data[at - position] ^ 0x55);
    return flip.load();
  });
  for (const bool flipping : {true, false}) {
    flip = flipping;
    for (std::size_t place = 0; place < 140; place += 3) {  // welcome, reply, first chunk header
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

TEST(DataSocket, GarbageOnThePortHarmsNobody) {  // DS-5
  Pair pair({.token = token_of('a'), .handshake_timeout = std::chrono::milliseconds(200)});
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
    DataHello hello;
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

TEST(DataSocket, AnAuthenticatedPeerThatSendsNonsenseIsCut) {  // DS-5
  Pair pair;
  pair.store.put(1, pattern(100));
  for (int kind = 0; kind < 4; ++kind) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    auto address = *parse_address(pair.address());
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), address.size), 0);
    const timeval patience{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    DataHello hello;
    ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), ssize_t(sizeof hello));
    DataWelcome welcome;
    ASSERT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_WAITALL), ssize_t(sizeof welcome));
    EXPECT_TRUE(same_proof(welcome.proof, data_proof(token_of('a'), DataRole::kServer, hello.nonce, welcome.nonce)));
    DataProof proof{data_proof(token_of('a'), DataRole::kClient, hello.nonce, welcome.nonce)};
    ASSERT_EQ(::send(fd.get(), &proof, sizeof proof, 0), ssize_t(sizeof proof));
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

TEST(DataSocket, APeerThatStopsInTheMiddleMeetsTheDeadline) {  // DS-2
  Pair pair;
  pair.store.put(1, pattern(4 * kMiB));
  std::mutex gate;
  std::unique_lock shut(gate);
  Proxy proxy(pair.server->port(), [&](std::size_t position, char*, std::size_t) {
    if (position > kMiB) std::lock_guard wait(gate);
    return true;
  });
  std::vector<std::byte> into(4 * kMiB);
  EXPECT_EQ(code_of(start(*pair.client, address_of(proxy.port), 1, into, std::chrono::milliseconds(300)).get()), ErrorCode::kDeadlineExceeded);
  std::fill(into.begin(), into.end(), std::byte{0});
  shut.unlock();
  pair.client->stop();
  EXPECT_TRUE(std::all_of(into.begin(), into.end(), [](std::byte b) { return b == std::byte{0}; })) << "nobody writes after done";
}

TEST(DataSocket, AClientThatTakesNothingIsCutAndItsPinReleased) {  // DS-4
  Pair pair({.token = token_of('a'), .stall_timeout = std::chrono::milliseconds(300)});
  pair.store.put(1, pattern(64 * kMiB));
  std::mutex gate;
  std::unique_lock shut(gate);
  {
    Proxy proxy(pair.server->port(), [&](std::size_t position, char*, std::size_t) {
      if (position > kMiB) std::lock_guard wait(gate);
      return true;
    });
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

TEST(DataSocket, StopEndsEveryFetchOnce) {
  Pair pair;
  UniqueFd silent = *listen_tcp("127.0.0.1", 0);
  std::vector<std::byte> into(100);
  std::vector<std::future<Status>> pending;
  for (int i = 0; i < 50; ++i) pending.push_back(start(*pair.client, address_of(*local_port(silent.get())), 1, into));
  pair.client->stop();
  pending.push_back(start(*pair.client, pair.address(), 1, into));
  for (auto& one : pending) EXPECT_EQ(code_of(one.get()), ErrorCode::kCancelled);
}

TEST(DataSocket, AConnectionOfAnotherPurposeIsHandedOver) {
  std::promise<std::pair<UniqueFd, std::string>> promise;
  Pair pair({.token = token_of('a'), .hand_over = [&](UniqueFd fd, ByteView body) { promise.set_value({std::move(fd), std::string(as_text(body))}); }});
  auto mine = dial_hand_over(pair.address(), as_bytes("group 1, epoch 2, key"), SteadyClock::now() + kPatience);
  ASSERT_TRUE(mine.ok()) << mine.error().what();
  ASSERT_EQ(::send(mine->get(), "hello", 5, 0), 5);
  auto [theirs, body] = promise.get_future().get();
  EXPECT_EQ(body, "group 1, epoch 2, key");
  const int flags = ::fcntl(theirs.get(), F_GETFL);
  ::fcntl(theirs.get(), F_SETFL, flags & ~O_NONBLOCK);
  char text[5];
  EXPECT_EQ(::recv(theirs.get(), text, 5, MSG_WAITALL), 5);
  EXPECT_EQ(std::string(text, 5), "hello") << "what follows the body is the new owner's";
  EXPECT_FALSE(dial_hand_over(pair.address(), std::vector<std::byte>(5000), SteadyClock::now()).ok());
}

TEST(DataSocket, AllVersionsOfTheChecksumAgree) {
  const auto bytes = pattern(300'000);
  for (std::size_t size : {0u, 1u, 16u, 128u, 240u, 241u, 1024u, 4097u, 262'144u, 300'000u}) {
    const auto expected = checksum_versions::portable(bytes.data(), size, size * 3);
    EXPECT_EQ(checksum(bytes.data(), size, size * 3), expected);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
      EXPECT_EQ(checksum_versions::avx2(bytes.data(), size, size * 3), expected);
    }
    if (__builtin_cpu_supports("avx512f")) {
      EXPECT_EQ(checksum_versions::avx512(bytes.data(), size, size * 3), expected);
    }
#endif
  }
}

}  // namespace
}  // namespace troupe::net
