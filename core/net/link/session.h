// Session: everything that one process sends to one incarnation of another, whatever links carry it. Frames are
// numbered, kept until the peer has acknowledged them, and sent again on the next link, in order, once.
//
//                link_up(link)                            Resume{n}, or nothing was sent before
//   NO LINK ------------------> ASKING (Begin is sent) ------------------------------------------> FLOWING
//      ^                           |                                                                 |
//      +--------- link_down -------+-----------------------------------------------------------------+
//   any --end(), the head's verdict--> OVER
//
// The two directions are independent: each side chooses the link on which it sends, and receives on the link on which
// the peer's last Begin came. So two links that both sides dialled at the same time need no rule about which one stays.
//
// Numbers are not on the wire: a link keeps the order, so it is enough to say where a link begins. An acknowledgement
// means that the peer owns the frame, never that it was executed. Control frames have kind kSessionKind:
//
//   Begin   token 1, arg0 first number, arg1 own incarnation, arg2 the peer's (0: not known), arg3 bit 0: frames follow
//           at once, other bits: how many times this side has begun, from 1
//   Resume  token 2, arg0 the number that is wanted next
//   Ack     token 3, arg0 the number that is wanted next
//
// Links keep no order among each other: a Begin can be overtaken by the one on the next link. So Begins count, and a
// Begin that does not count more than that of the living link on which frames are received is of a link that the peer
// has given up: that link is closed. It is compared with nothing else: a peer that was rebuilt from its notes may
// count anew when its old links are down.
//
// Frames that come on a link before the peer's Begin are outside of the session (a node registers at the head that
// way).
//
// Thread rule: none of its own; pure. Output is called from within the functions.
//
// Invariants
//   NSE-1  deliver() is called for each frame of the peer once, in the order of its send(), over any number of links.
//   NSE-2  What send() took is delivered, unless the session ends before.
//   NSE-3  end() names exactly the frames that no link was ever given: they were surely not executed. Those that were
//          given to a link and not acknowledged may have been.
//   NSE-4  Frames that are kept have at most `kept_bytes_max` bytes when senders stop at is_full(), plus one frame
//          each.
//   NSE-5  Whatever a peer says, no frame is delivered twice or out of order; what contradicts the session, or comes
//          too late for it, is kViolation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/net/base/frame.h"

namespace troupe::net {

inline constexpr std::uint8_t kSessionKind = 0xF0;

/// What a session does to the world.
class SessionOutput {
 public:
  virtual ~SessionOutput() = default;
  /// A whole frame (or several) goes out on the link.
  virtual void transmit(std::uint64_t link, ByteView frames) = 0;
  /// A frame of the peer, in order.
  virtual void deliver(const FrameHeader& header, ByteView payload) = 0;
};

struct SessionOptions {
  std::size_t kept_bytes_max = std::size_t{64} << 20;  ///< not acknowledged; above it is_full()
  std::uint64_t ack_frames = 32;                       ///< acknowledged after so many frames ...
  std::size_t ack_bytes = 128 * 1024;                  ///< ... or so many bytes, whichever comes first
};

class Session {
 public:
  /// `peer`: its incarnation; 0: the first link tells.
  Session(std::uint64_t self, std::uint64_t peer, SessionOutput& output, SessionOptions options = {})
      : self_(self), peer_(peer), output_(output), options_(options) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes the frame; it goes out now if a link flows, else when one does. Version and payload_size are set here.
  void send(const FrameHeader& header, ByteView payload);
  /// Whoever can wait should send no more until it is false again.
  bool is_full() const { return kept_bytes_ >= options_.kept_bytes_max; }
  /// Whoever waits since it was full may go on.
  bool has_room() const { return kept_bytes_ <= options_.kept_bytes_max / 2; }

  /// For each new link: `peer` is the incarnation that is proven there. False: another one than the session's; the link
  /// must be closed.
  bool identify(std::uint64_t peer);
  /// The link is the way out from here on.
  void link_up(std::uint64_t link);
  void link_down(std::uint64_t link);
  std::uint64_t out_link() const { return out_link_; }

  enum class Took {
    kDelivered,
    kControl,    ///< a frame of the session itself
    kOutside,    ///< not of the session: the link has not begun
    kStale,      ///< of a link that the peer has given up: it comes again on another
    kViolation,  ///< the link must be closed: it contradicts the session, or comes too late for it
  };
  Took receive(std::uint64_t link, const FrameHeader& header, ByteView payload);

  /// Frames that no link was ever given, in order; everything kept is dropped. NSE-3.
  std::vector<FrameHeader> end();

  // A process that is started again as the one that was killed rebuilds its sessions, before their first link, from
  // what it has noted: each frame that it was given, each that it sent (by send()), and what was acknowledged of these.
  void count_delivered() { ++wanted_; }
  /// False: so many were never sent.
  bool restore_acknowledged(std::uint64_t frames);
  /// Whatever was sent may have left: the next link asks the peer.
  void presume_given() { handed_ = first_ + kept_.size(); }
  std::uint64_t acknowledged_frames() const { return first_; }

  std::uint64_t peer() const { return peer_; }
  bool idle() const { return kept_.empty(); }
  std::size_t kept_bytes() const { return kept_bytes_; }

 private:
  enum Control : std::uint64_t { kBegin = 1, kResume = 2, kAck = 3 };
  Took take_control(std::uint64_t link, const FrameHeader& header);
  Took take_begin(std::uint64_t link, const FrameHeader& header);
  bool is_given_up(std::uint64_t link) const;
  bool acknowledged(std::uint64_t next);
  void flow();
  void control(std::uint64_t link, Control what, std::uint64_t number, std::uint32_t begins = 0);

  const std::uint64_t self_;
  std::uint64_t peer_;
  SessionOutput& output_;
  const SessionOptions options_;

  // out: frames [first_, first_ + kept_.size()) are kept, those below handed_ were given to a link at least once
  std::deque<std::vector<std::byte>> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_ = 0, handed_ = 0;
  std::uint64_t out_link_ = 0;
  std::uint32_t begun_ = 0;  ///< how many times
  bool flowing_ = false;

  // in
  std::uint64_t in_link_ = 0;
  std::uint32_t in_begun_ = 0;           ///< the count of the Begin on in_link_
  std::vector<std::uint64_t> given_up_;  ///< by the peer, and not down yet
  std::uint64_t wanted_ = 0;  ///< the number of the next frame
  std::uint64_t unacked_frames_ = 0;
  std::size_t unacked_bytes_ = 0;
};

}  // namespace troupe::net
