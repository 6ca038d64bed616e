// What the tests of links share: events kept in order, waits with a deadline, frames with a number inside.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/net/link/link.h"

namespace troupe::net::testing {

inline constexpr auto kPatience = std::chrono::seconds(30);  // a test that waits longer has failed

inline Token token_of(char digit) { return *Token::parse(std::string(64, digit)); }

#ifndef TROUPE_TEST_RPC_LIBRARY  // the build gives the path of its own library
#define TROUPE_TEST_RPC_LIBRARY "libtroupe_rpc.so"
#endif
/// With limits that no peer exceeds which gets no core for a while; a test of a limit sets its own.
inline LinksOptions options_for(std::string hello, char token = 'a') {
  LinksOptions options;
  options.identity = {
      .token = token_of(token), .cluster_id = "cluster-1", .build = "build-1", .hello = std::move(hello)};
  options.library = TROUPE_TEST_RPC_LIBRARY;
  options.keep_alive.timeout = kPatience;
  options.handshake_timeout = kPatience;
  return options;
}

/// Calls `use` for each frame of a batch; false when the batch is not made of whole frames.
inline bool for_each_frame(ByteView batch, const std::function<void(const FrameHeader&, ByteView)>& use) {
  while (!batch.empty()) {
    FrameHeader header;
    if (batch.size() < sizeof header) return false;
    std::memcpy(&header, batch.data(), sizeof header);
    if (batch.size() - sizeof header < header.payload_size) return false;
    use(header, batch.subspan(sizeof header, header.payload_size));
    batch = batch.subspan(sizeof header + header.payload_size);
  }
  return true;
}

class Recorder : public LinkEvents {
 public:
  struct Seen {
    std::string hello;
    ProofPeer peer;
    bool outgoing = false, open = false, closed = false, whole = true, in_order = true;
    std::uint64_t frames = 0, batches = 0, payload = 0, next_token = 0, biggest_batch = 0;
    int opens = 0, closes = 0;
    ErrorPtr why;
  };

  void on_open(LinkId link, const LinkPeer& peer) override {
    change([&] {
      auto& seen = seen_[link];
      seen.hello = peer.hello;
      seen.outgoing = peer.outgoing;
      seen.peer = peer.proven;
      seen.open = true;
      ++seen.opens;
    });
  }
  void on_batch(LinkId link, ByteView frames) override {
    if (before_batch) before_batch(link, frames);
    change([&] {
      auto& seen = seen_[link];
      ++seen.batches;
      seen.biggest_batch = std::max<std::uint64_t>(seen.biggest_batch, frames.size());
      const bool whole = for_each_frame(frames, [&](const FrameHeader& header, ByteView payload) {
        seen.in_order = seen.in_order && header.token == seen.next_token;
        seen.next_token = header.token + 1;
        ++seen.frames;
        seen.payload += payload.size();
      });
      seen.whole = seen.whole && whole;
    });
  }
  void on_closed(LinkId link, const Status& why) override {
    change([&] {
      auto& seen = seen_[link];
      seen.closed = true;
      ++seen.closes;
      if (!why.ok()) seen.why = why.error_ptr();
    });
  }

  /// False when it did not come true within kPatience.
  bool wait(const std::function<bool(const std::map<LinkId, Seen>&)>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return holds(seen_); });
  }
  bool wait_closed(LinkId link) {
    return wait([link](const auto& all) { return all.contains(link) && all.at(link).closed; });
  }
  bool wait_frames(LinkId link, std::uint64_t frames) {
    return wait([=](const auto& all) { return all.contains(link) && all.at(link).frames >= frames; });
  }
  /// The one link that came from outside.
  LinkId wait_incoming(int nth = 1) {
    LinkId id = 0;
    wait([&](const auto& all) {
      int count = 0;
      for (const auto& [link, seen] : all) {
        if (!seen.outgoing && seen.opens > 0 && ++count == nth) id = link;
      }
      return id != 0;
    });
    return id;
  }
  Seen seen(LinkId link) {
    std::lock_guard lock(mutex_);
    return seen_[link];
  }
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return seen_.size();
  }

  std::function<void(LinkId, ByteView)> before_batch;  // runs on the transport's thread, outside of the lock

 private:
  template <class Change> void change(const Change& change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LinkId, Seen> seen_;
};

inline FrameHeader numbered(std::uint64_t number) {
  FrameHeader header;
  header.kind = 3;
  header.token = number;
  return header;
}

}  // namespace troupe::net::testing
