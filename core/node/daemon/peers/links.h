// DaemonLinks: this daemon's sessions (net/link/session.h) with the head and with each node that it talks to, and the
// links that carry them, brought onto its loop.
//
//   a node's link:  none --a frame wants to go--> dialling --> up --broken--> none ...
//                     `--none for kReportAfter: `unreachable`, again and again, while dialled--'     node_dead(): over
//
// A link is never a verdict: what was sent waits for the next one, and only the head says who is dead (node_dead). The
// head's own link is dialled by Membership; its session begins on it when the head has taken the registration.
//
// Thread rule: everything on the loop's thread; the transport's threads only post to it.
//
// Invariants
//   DL-1  Frames to one node arrive in the order of send(), once, whatever links carry them (NSE-1), until node_dead().
//   DL-2  A frame is given up only at node_dead(): those that no link was ever given go to `never_sent`, the others are
//         lost without a word, for they may have arrived.
//   DL-3  On a link to the head nothing is before the registration.
//   DL-4  What is kept for a node is bounded as NSE-4 says, by whoever asks is_full() and waits for `room`.
//   DL-5  While frames wait for a node without a link it is dialled, and told to `unreachable` every kReportAfter:
//         nobody waits for ever without the head's knowing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/net/link/link.h"
#include "core/net/link/session.h"
#include "core/node/daemon/local/links.h"
#include "core/node/base/loop.h"
#include "core/node/daemon/mail/mail.h"
#include "core/wire/messages.h"

namespace troupe::node {

/// How long a node without a link, for which frames wait, is dialled before the head is told.
inline constexpr Duration kReportAfter = std::chrono::seconds(3);

struct LinkCallbacks {
  /// of a session; node 0: from the head
  std::function<void(std::uint32_t node, const net::FrameHeader&, ByteView)> frame;
  std::function<void(const net::FrameHeader&, ByteView)> head_answer;                ///< to send_registration
  std::function<void()> head_up;
  std::function<void(const std::string& why)> head_down;
  /// for the head: DL-5
  std::function<void(std::uint32_t node, wire::LinkState state, const std::string& why)> report;
  std::function<void(std::uint32_t node, std::vector<net::FrameHeader>)> never_sent;              ///< DL-2
  std::function<void(std::uint32_t node)> room;                                                   ///< DL-4
};

class DaemonLinks final : public LinkPort, private net::LinkEvents {
 public:
  static Result<std::unique_ptr<DaemonLinks>> open(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks,
                                                   const LinkOpener& open_links = &net::open_links);
  ~DaemonLinks() override;

  /// Returns the port.
  Result<int> listen(const std::string& bind);
  /// Begins; head_up or head_down follows.
  Status dial_head(const std::string& address, Duration timeout);
  /// Outside of the session, before anything else (DL-3). False: there is no link.
  bool send_registration(const net::FrameHeader& header, ByteView payload);
  /// The head has taken the registration: its session goes on, on this link.
  void head_registered();
  void set_self(std::uint32_t node, const std::string& cluster_id);
  void apply_view(const wire::ClusterView& view);
  void node_dead(std::uint32_t node);
  bool is_dead(std::uint32_t node) const { return dead_.contains(node); }
  std::string data_address(std::uint32_t node) const;

  bool send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) override;
  bool is_full(std::uint32_t node) const override;
  std::vector<std::uint32_t> linked() const override;
  void shutdown();

 private:
  struct Known { std::string address, data_address; };
  struct Link { std::uint32_t node = 0; bool is_head = false, open = false; };
  /// A node, or the head.
  struct Peer final : net::SessionOutput {
    Peer(DaemonLinks& links, std::uint32_t number) : owner(links), node(number), session(make_session()) {}
    std::unique_ptr<net::Session> make_session();
    void transmit(std::uint64_t link, ByteView frames) override { (void)owner.links_->send_raw(link, frames); }
    void deliver(const net::FrameHeader& header, ByteView payload) override {
      owner.callbacks_.frame(node, header, payload);
    }
    DaemonLinks& owner;
    const std::uint32_t node;
    std::unique_ptr<net::Session> session;
    net::LinkId dialling = 0;
    bool watched = false;        ///< a timer of kReportAfter runs
    bool reported = false;       ///< as down
    bool held_up = false;        ///< is_full() was seen true: `room` is due
    std::string last_error = {};
  };
  DaemonLinks(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks)
      : loop_(loop), identity_(std::move(identity)), callbacks_(std::move(callbacks)) {}

  void on_open(net::LinkId link, const net::LinkPeer& peer) override;
  void on_batch(net::LinkId link, ByteView frames) override;
  void on_closed(net::LinkId link, const Status& why) override;
  void opened(net::LinkId link, const std::string& hello, bool outgoing, std::uint64_t incarnation);
  void batch(net::LinkId link, const std::vector<std::byte>& frames);
  bool take(net::LinkId link, Peer& peer, const net::FrameHeader& header, ByteView payload);
  void closed(net::LinkId link, const std::string& why);

  Peer& peer_of(std::uint32_t node);
  net::LinkId open_link(std::uint32_t node) const;
  void seek_link(Peer& peer);
  void watch(Peer& peer);
  void still_no_link(std::uint32_t node);
  void link_is_up(Peer& peer, net::LinkId link);
  void renew_head(Peer& head, std::uint64_t incarnation);

  Loop& loop_;
  net::LinkIdentity identity_;
  LinkCallbacks callbacks_;
  std::unique_ptr<net::Links> links_;
  std::map<net::LinkId, Link> open_;
  std::map<std::uint32_t, std::unique_ptr<Peer>> peers_;
  net::LinkId head_link_ = 0;
  std::map<std::uint32_t, Known> known_;
  std::set<std::uint32_t> dead_;
  std::uint32_t self_ = 0;
  bool ended_ = false;
};

}  // namespace troupe::node
