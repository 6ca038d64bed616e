// PacketChannel: a PacketQueue on the daemon's loop: packets come as calls, and what the socket does not take is sent
// when it does.
//
// Thread rule: the loop's thread. A handler may destroy its channel or give it other handlers.
//
// Invariants
//   PC-1  `closed` is called once, and nothing after it.
//   PC-2  What send() has taken is sent in its order, or `closed` follows: no packet is left behind while the other
//         side lives.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/boot/packet_queue.h"
#include "core/node/base/loop.h"

namespace troupe::node {

/// The kernel refuses descriptors in flight (ETOOMANYREFS) without an event that says when it takes them again.
inline constexpr Duration kInFlightWait = std::chrono::milliseconds(10);

class PacketChannel {
 public:
  struct Handlers {
    std::function<void(BootPacket)> packet;
    std::function<void(const std::string& why)> closed;  ///< why: empty when the other side closed it
  };
  PacketChannel(Loop& loop, UniqueFd fd);
  ~PacketChannel();
  PacketChannel(const PacketChannel&) = delete;
  PacketChannel& operator=(const PacketChannel&) = delete;

  void set_handlers(Handlers handlers);
  int fd() const { return channel_.fd(); }
  template <class M> void send(wire::BootKind kind, const M& message, std::vector<UniqueFd> fds = {}) {
    send_bytes(kind, wire::encode_message(message), std::move(fds));
  }
  /// No event is delivered any more; what is queued is dropped.
  void close();

 private:
  void send_bytes(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds);
  void on_event(std::uint32_t events);
  void after_flush(PacketQueue::Flushed flushed);
  void end(const std::string& why);

  Loop& loop_;
  PacketQueue channel_;
  std::shared_ptr<const Handlers> handlers_;  // shared: a handler that runs may replace them, or destroy the channel
  std::optional<Loop::TimerId> again_;
  bool watching_writes_ = false, closed_ = false;
};

}  // namespace troupe::node
