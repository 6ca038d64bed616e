// The border between libtroupe (static, in every executable) and libtroupe_rpc (shared, opened by head and daemons
// only).
//
// Only abstract classes and standard types cross it: no troupe::Error, no Result, no gRPC type, for each side has its
// own copy of what is not inline. The policy (who is let in, what is sent when) is on this side, the gRPC mechanics on
// the other.
//
//   Transport  one gRPC server and its client channels     implemented by libtroupe_rpc
//   Stream     one gRPC stream                             implemented by libtroupe_rpc
//   Acceptor   judges newcomers                            implemented by net/link/hub
//   Owner      what a Stream reports to                    implemented by net/link/hub
//
// Thread rule: Transport's and Stream's functions from any thread, they never block (shutdown does). Acceptor's and
// Owner's functions are called by gRPC's threads, for one stream one at a time; they must not block, throw, or call
// shutdown.
//
// Invariants
//   NLA-1  A Stream has at most one write under way: write() is called first after opened(), then after written().
//   NLA-2  Owner: opened() at most once and first; closed() once and last.
//   NLA-3  kLinkAbi changes with every change of this file; the factory refuses another one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::net::abi {

inline constexpr std::uint32_t kLinkAbi = 2;

/// The first message of each side.
struct Hello {
  std::uint32_t protocol = 0;
  std::string cluster_id, build, payload;
};

enum class Ending { kOrderly, kRefused, kBroken };

class Owner {
 public:
  virtual ~Owner() = default;
  /// Outgoing streams: empty, or why the other side's hello is not accepted.
  virtual std::string judge(const Hello& hello) = 0;
  virtual void opened(const Hello& peer) = 0;
  virtual void received(std::string_view frames) = 0;
  /// The write has ended; its buffer comes back for the next one.
  virtual void written(std::string buffer) = 0;
  virtual void closed(Ending ending, std::string_view reason) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void write(std::string frames) = 0;  ///< NLA-1
  virtual void finish() = 0;                   ///< in order; no write may be under way
  virtual void cancel() = 0;                   ///< now; closed() follows
};

class Acceptor {
 public:
  virtual ~Acceptor() = default;
  virtual std::string judge(const Hello& hello) = 0;
  virtual Hello own_hello() = 0;
  /// Null when newcomers are not wanted any more. `descriptor` is the one that adopt() was given, -1 if unknown.
  virtual std::shared_ptr<Owner> incoming(std::shared_ptr<Stream> stream, int descriptor) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Serves a connected, non-blocking socket whose ends have proven themselves (net/base/proof.h); owns it from here
  /// on.
  virtual void adopt(int descriptor) = 0;
  /// Begins a stream over such a socket; owns it from here on.
  virtual std::shared_ptr<Stream> dial(int descriptor, const Hello& hello, std::shared_ptr<Owner> owner) = 0;
  /// Cancels all streams and waits for the last closed().
  virtual void shutdown() = 0;
};

struct Settings {
  int keep_alive_time_ms = 0, keep_alive_timeout_ms = 0;
  std::size_t message_bytes_max = 0;
  Acceptor* acceptor = nullptr;
};

/// What libtroupe_rpc exports, by the name kFactoryName. Null when `abi` is not its own.
using Factory = Transport* (*)(std::uint32_t abi, const Settings* settings);
inline constexpr const char* kFactoryName = "troupe_rpc_open";

}  // namespace troupe::net::abi
