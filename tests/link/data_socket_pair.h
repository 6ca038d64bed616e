// A data server over buffers in memory, a client of it, and a fetch as a future: what the tests of
// net/data/data_socket.h share.
#pragma once
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/net/data/data_socket.h"

namespace troupe::net::testing {

using SteadyClock = std::chrono::steady_clock;
inline constexpr auto kPatience = std::chrono::seconds(30);
inline constexpr std::size_t kMiB = 1u << 20;

inline Token token_of(char digit) { return *Token::parse(std::string(64, digit)); }
inline ErrorCode code_of(const Status& status) { return status.ok() ? ErrorCode(0) : status.error().code(); }

inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed;
  for (auto& byte : bytes) byte = std::byte((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
  return bytes;
}

/// Buffers by slot; counts pins.
class Store : public DataSource {
 public:
  void put(std::uint32_t slot, std::vector<std::byte> bytes) {
    buffers_[slot] = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  }
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

inline std::string address_of(int port) { return "127.0.0.1:" + std::to_string(port); }

struct Pair {
  Store store;
  std::unique_ptr<DataServer> server;
  std::unique_ptr<DataClient> client;
  explicit Pair(DataServerOptions server_options = {.token = token_of('a')},
                DataClientOptions client_options = {.token = token_of('a')}) {
    // A busy machine may keep a client from its word for a while; a test of that limit sets another one.
    if (server_options.handshake_timeout == DataServerOptions{}.handshake_timeout)
      server_options.handshake_timeout = kPatience;
    server = *DataServer::open(store, std::move(server_options));
    client = *DataClient::open(std::move(client_options));
  }
  std::string address() const { return address_of(server->port()); }
};

inline std::future<Status> start(DataClient& client, const std::string& address, std::uint32_t slot,
                                 std::span<std::byte> into, SteadyClock::duration span = kPatience,
                                 std::uint32_t generation = 7) {
  auto promise = std::make_shared<std::promise<Status>>();
  client.fetch({.address = address,
                .key = {1, slot, generation},
                .into = into,
                .deadline = SteadyClock::now() + span,
                .stall = kPatience},  // a server may get no core for a while
               [promise](const Status& status) { promise->set_value(status); });  // a second call would throw: NDS-2
  return promise->get_future();
}

}  // namespace troupe::net::testing
