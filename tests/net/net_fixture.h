// Shared by the tests of the transport: endpoints joined by a pair, handlers that record, a service thread.
#pragma once
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/net/endpoint/endpoint.h"

namespace troupe::net::testing {

using namespace std::chrono_literals;

inline Deadline in(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }
/// Longer than anything that works takes, even under a sanitizer on a busy machine.
inline constexpr auto kPatience = 60s;

inline ByteView bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A payload that tells its length and number apart from any other.
inline std::string pattern(std::size_t size, std::uint64_t seed) {
  std::string text(size, '\0');
  std::uint64_t x = seed * 0x9E3779B97F4A7C15u + size;
  for (char& c : text) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    c = static_cast<char>(x);
  }
  return text;
}

/// Calls functions; unset ones ignore.
struct Calls : Handler {
  std::function<void(ProcessId, const FrameHeader&, ByteView)> message;
  std::function<void(ProcessId, const ErrorPtr&)> broken;
  void on_message(ProcessId from, const FrameHeader& header, ByteView payload) override {
    if (message) message(from, header, payload);
  }
  void on_broken(ProcessId peer, const ErrorPtr& why) override {
    if (broken) broken(peer, why);
  }
};

inline std::unique_ptr<Endpoint> make_endpoint(ProcessId self, std::chrono::nanoseconds spin = 30us,
                                               std::chrono::nanoseconds grace = 50us) {
  return std::move(Endpoint::create({.self = self, .spin = spin, .grace = grace})).value();
}

inline UniqueFd make_pair_fd(std::size_t ring_bytes = 32 * 1024) {
  return std::move(Endpoint::create_pair({.ring_bytes = ring_bytes})).value();
}

inline Attachment attachment(const Endpoint& to, int pair, int side) {
  return {.peer = to.self(),
          .pair = UniqueFd(::dup(pair)),
          .side = side,
          .peer_doorbell = UniqueFd(::dup(to.doorbell_fd())),
          .peer_event = UniqueFd(::dup(to.event_fd()))};
}

inline void join(Endpoint& a, Endpoint& b, std::size_t ring_bytes = 32 * 1024) {
  UniqueFd pair = make_pair_fd(ring_bytes);
  a.attach(attachment(b, pair.get(), 0)).value();
  b.attach(attachment(a, pair.get(), 1)).value();
}

/// Gives the role to this thread for that long, or until `until` says so.
inline bool pump(Endpoint& endpoint, Handler& handler, const std::function<bool()>& until,
                 std::chrono::nanoseconds limit = kPatience) {
  Parker parker(endpoint);
  for (const Deadline end = in(limit); std::chrono::steady_clock::now() < end;) {
    endpoint.block(parker, in(1ms), handler);
    if (until()) return true;
  }
  return until();
}

/// Numbers 1, 2, ... to `most`. A busy machine may do fewer after some seconds, but never fewer than a fifth of them:
/// with less a race that a test looks for would hardly have had its chance.
class Rounds {
 public:
  explicit Rounds(std::uint64_t most) : most_(most), least_((most + 4) / 5) {}
  bool next() { return ++now_ <= most_ && (now_ <= least_ || std::chrono::steady_clock::now() < end_); }
  std::uint64_t operator*() const { return now_; }

 private:
  std::uint64_t most_, least_, now_ = 0;
  Deadline end_ = in(5s);
};

/// The service thread of a process.
class ServiceThread {
 public:
  ServiceThread(Endpoint& endpoint, Handler& handler)
      : endpoint_(endpoint), handler_(handler), stop_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~ServiceThread() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof(one)), 8);
    thread_.join();
  }

 private:
  void run() {
    pollfd fds[2] = {{endpoint_.service_fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (::poll(fds, 2, -1) >= 0 && fds[1].revents == 0) endpoint_.service(handler_);
  }
  Endpoint& endpoint_;
  Handler& handler_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace troupe::net::testing
