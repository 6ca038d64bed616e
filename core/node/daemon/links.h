// DaemonLinks: the links of this daemon, brought onto its loop. One to the head; one to each node that it talks to, dialed at
// the first frame or taken over from the other side.
//
//   node:  unknown --view--> known --send--> dialing --> linked --broken--> known ...   dead: never again
//
// Thread rule: everything on the loop's thread; the transport's threads only post to it.
//
// Invariants
//   DL-1  Frames to one node leave on one link as long as that link is open: their order holds (LK-1).
//   DL-2  Frames to a node that the view does not name yet wait up to kEarlyWait for it; then they are given to `undeliverable`.
//   DL-3  Frames to the head wait, in order and bounded, until this node is registered on the link that is open: nothing is
//         before the registration, and a link that is dialled again loses none of them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/net/link/link.h"
#include "core/node/daemon/local_links.h"
#include "core/node/base/loop.h"
#include "core/node/daemon/mail.h"
#include "core/wire/messages.h"

namespace troupe::node {

inline constexpr Duration kEarlyWait = std::chrono::seconds(2);
inline constexpr std::size_t kEarlyBytesMax = std::size_t{64} << 20;

struct LinkCallbacks {
  std::function<void(std::uint32_t node, const net::FrameHeader&, ByteView)> frame;  ///< node 0: from the head
  std::function<void(std::uint32_t node)> up;
  std::function<void(std::uint32_t node, const std::string& why)> down;
  std::function<void(const net::FrameHeader&)> undeliverable;
};

class DaemonLinks final : public LinkPort, private net::LinkEvents {
 public:
  static Result<std::unique_ptr<DaemonLinks>> open(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks,
                                                   const LinkOpener& open_links = &net::open_links);
  ~DaemonLinks() override;

  /// Returns the port.
  Result<int> listen(const std::string& bind);
  /// Begins; up(0) or down(0) follows.
  Status dial_head(const std::string& address, Duration timeout);
  /// Before anything else (DL-3). False: there is no link.
  bool send_registration(const net::FrameHeader& header, ByteView payload);
  /// The head has taken the registration: what waits for it goes out.
  void head_registered();
  void set_self(std::uint32_t node, const std::string& cluster_id);
  void apply_view(const wire::ClusterView& view);
  void node_dead(std::uint32_t node);
  bool is_dead(std::uint32_t node) const { return dead_.contains(node); }
  std::string data_address(std::uint32_t node) const;

  bool send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) override;
  std::vector<std::uint32_t> linked() const override;
  void shutdown();

 private:
  struct Known { std::string address, data_address; };
  struct Link { std::uint32_t node = 0; bool is_head = false, open = false; };
  struct Early { net::FrameHeader header; std::vector<std::byte> payload; };
  DaemonLinks(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks)
      : loop_(loop), identity_(std::move(identity)), callbacks_(std::move(callbacks)) {}

  void on_open(net::LinkId link, const net::LinkPeer& peer) override;
  void on_batch(net::LinkId link, ByteView frames) override;
  void on_closed(net::LinkId link, const Status& why) override;
  void opened(net::LinkId link, const std::string& hello, bool outgoing);
  void batch(net::LinkId link, const std::vector<std::byte>& frames);
  void closed(net::LinkId link, const std::string& why);
  bool keep_early(std::uint32_t node, const net::FrameHeader& header, ByteView payload);
  void flush_early(std::uint32_t node, bool deliverable);

  Loop& loop_;
  net::LinkIdentity identity_;
  LinkCallbacks callbacks_;
  std::unique_ptr<net::Links> links_;
  std::map<net::LinkId, Link> open_;
  std::map<std::uint32_t, net::LinkId> way_;           ///< node -> the link its frames leave on
  std::map<std::uint32_t, Known> known_;
  std::map<std::uint32_t, std::vector<Early>> early_;
  std::size_t early_bytes_ = 0;
  std::set<std::uint32_t> dead_;
  std::uint32_t self_ = 0;
  bool head_knows_us_ = false;                         ///< on the link that is open now
};

}  // namespace troupe::node
