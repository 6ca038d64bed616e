// NDS-1 to NDS-3 and NDS-6 of net/data/data_socket.h between peers that keep to the protocol; those that do not:
//       data_socket_hostile_test.cc.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "core/net/data/data_socket.h"
#include "core/net/data/checksum.h"
#include "core/net/base/socket.h"
#include "tests/base/few_descriptors.h"
#include "tests/base/reserved_port.h"
#include "tests/link/data_socket_pair.h"

namespace troupe::net {
namespace {

using namespace testing;

TEST(DataSocket, BuffersOfAllSizesArriveWhole) {  // NDS-3
  Pair pair;
  std::uint32_t slot = 0;
  for (const std::size_t size : {std::size_t(0), std::size_t(1), std::size_t(4095), std::size_t(256 * 1024),
                                 std::size_t(256 * 1024 + 1), 8 * kMiB, 16 * kMiB - 1, 33 * kMiB + 17}) {
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

// 64 peers that keep the connections of their last busy moment would hold all places of a port for ever.
TEST(DataSocket, NDS6_AConnectionThatIsNotUsedMakesRoomAtThePort) {
  Pair pair({.token = token_of('a'), .connections_max = 1},
            {.token = token_of('a'), .io_threads = 1, .idle_max = std::chrono::milliseconds(50)});
  pair.store.put(1, pattern(1000));
  std::vector<std::byte> into(1000);
  ASSERT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok());
  const auto deadline = SteadyClock::now() + kPatience;
  while (pair.server->stats().connections != 0 && SteadyClock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(pair.server->stats().connections, 0u);
  const auto other =
      *DataClient::open({.token = token_of('a'), .io_threads = 1, .idle_max = std::chrono::hours(1)});
  EXPECT_TRUE(start(*other, pair.address(), 1, into).get().ok()) << "the next client finds the place free";
  EXPECT_EQ(code_of(start(*pair.client, pair.address(), 1, into).get()), ErrorCode::kNodeDied) << "there is one place";
  other->stop();
  while (pair.server->stats().connections != 0 && SteadyClock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(start(*pair.client, pair.address(), 1, into).get().ok()) << "it connects anew";
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

TEST(DataSocket, AnotherTokenGetsNothing) {  // NDS-1
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
  const UniqueFd reserved = reserve_port();  // nobody else comes there when the server has gone
  Pair pair({.token = token_of('a'), .port = *local_port(reserved.get())});
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
  const UniqueFd reserved = reserve_port();  // nobody takes the port before the server is back
  Pair pair({.token = token_of('a'), .port = *local_port(reserved.get())});
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

TEST(DataSocket, WhoHasNoDescriptorForASocketHoldsNobodyForDead) {
  if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors";
  Pair pair({.token = token_of('a'), .hand_over = [](UniqueFd, ByteView) {}});
  const FewDescriptors none(0);
  auto mine = dial_hand_over(pair.address(), as_bytes("group"), SteadyClock::now() + kPatience);
  ASSERT_FALSE(mine.ok());
  EXPECT_NE(mine.error().code(), ErrorCode::kNodeDied);
  EXPECT_NE(mine.error().message().find("no socket"), std::string::npos) << mine.error().message();
}

TEST(DataSocket, AConnectionOfAnotherPurposeIsHandedOver) {
  std::promise<std::pair<UniqueFd, std::string>> promise;
  Pair pair({.token = token_of('a'), .hand_over = [&](UniqueFd fd, ByteView body) {
               promise.set_value({std::move(fd), std::string(as_text(body))});
             }});
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
