#include "core/node/daemon/peers/links.h"

#include <charconv>
#include <cstring>

#include "core/base/log.h"
#include "core/net/link/batch.h"

namespace troupe::node {
namespace {
constexpr std::string_view kHelloPrefix = "node ";
constexpr std::size_t kKeptBytesMax = std::size_t{16} << 20;  // for a node, not acknowledged
constexpr Duration kDialTimeout = std::chrono::seconds(5), kRedialPause = std::chrono::milliseconds(50);
}  // namespace

Result<std::unique_ptr<DaemonLinks>> DaemonLinks::open(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks,
                                                       const LinkOpener& open_links) {
  if (identity.incarnation == 0) {  // sessions name it
    Result<std::uint64_t> drawn = net::draw_incarnation();
    if (!drawn.ok()) return drawn.error_ptr();
    identity.incarnation = *drawn;
  }
  std::unique_ptr<DaemonLinks> self(new DaemonLinks(loop, std::move(identity), std::move(callbacks)));
  net::LinksOptions options;
  options.identity = self->identity_;
  Result<std::unique_ptr<net::Links>> links = open_links(*self, options);
  if (!links.ok()) return links.error_ptr();
  self->links_ = std::move(*links);
  return self;
}

DaemonLinks::~DaemonLinks() { shutdown(); }

void DaemonLinks::shutdown() {
  ended_ = true;
  if (links_) links_->shutdown();
}

Result<int> DaemonLinks::listen(const std::string& bind) { return links_->listen({.address = bind}); }

void DaemonLinks::set_self(std::uint32_t node, const std::string& cluster_id) {
  self_ = node;
  identity_.hello = std::string(kHelloPrefix) + std::to_string(node);
  identity_.cluster_id = cluster_id;
  links_->identify(identity_);
}

// ------------------------------------------------------------------------------------------------------------ the head

Status DaemonLinks::dial_head(const std::string& address, Duration timeout) {
  Result<net::LinkId> link = links_->dial(
      {.address = address, .timeout = timeout, .retry = true, .expected = {.role = net::ProofRole::kHead}});
  if (!link.ok()) return link.error_ptr();
  open_[*link] = {0, true, false};
  head_link_ = *link;
  return {};
}

bool DaemonLinks::send_registration(const net::FrameHeader& header, ByteView payload) {
  return links_->send(head_link_, header, payload);
}

void DaemonLinks::head_registered() {
  auto link = open_.find(head_link_);
  if (link != open_.end() && link->second.open) link_is_up(peer_of(0), head_link_);
}

/// Another head took the place of the one that we talked to: what that one was told is gone with it.
void DaemonLinks::renew_head(Peer& head, std::uint64_t incarnation) {
  std::vector<net::FrameHeader> never = head.session->end();
  head.session = head.make_session();
  head.session->identify(incarnation);
  if (std::exchange(head.held_up, false)) callbacks_.room(0);
  callbacks_.never_sent(0, std::move(never));
}

// ----------------------------------------------------------------------------------------------------------- the nodes

std::unique_ptr<net::Session> DaemonLinks::Peer::make_session() {
  return std::make_unique<net::Session>(owner.identity_.incarnation, 0, *this,
                                        net::SessionOptions{.kept_bytes_max = kKeptBytesMax});
}

DaemonLinks::Peer& DaemonLinks::peer_of(std::uint32_t node) {
  std::unique_ptr<Peer>& peer = peers_[node];
  if (!peer) peer = std::make_unique<Peer>(*this, node);
  return *peer;
}

void DaemonLinks::apply_view(const wire::ClusterView& view) {
  for (const wire::NodeInfo& info : view.nodes) {
    if (dead_.contains(info.node)) continue;
    const bool fresh = known_.insert_or_assign(info.node, Known{info.address, info.data_address}).second;
    if (auto waiting = peers_.find(info.node); fresh && waiting != peers_.end()) seek_link(*waiting->second);
  }
}

void DaemonLinks::node_dead(std::uint32_t node) {
  if (node == 0 || !dead_.insert(node).second) return;
  known_.erase(node);
  for (const auto& [id, link] : open_)
    if (link.node == node && !link.is_head) links_->abort(id, "the node was declared dead");
  auto found = peers_.find(node);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;  // it stays: one of its frames may be what told this
  std::vector<net::FrameHeader> never = peer.session->end();
  peer.dialling = 0;
  if (std::exchange(peer.held_up, false)) callbacks_.room(node);
  callbacks_.never_sent(node, std::move(never));
}

std::string DaemonLinks::data_address(std::uint32_t node) const {
  auto it = known_.find(node);
  return it == known_.end() ? std::string() : it->second.data_address;
}

bool DaemonLinks::send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
  if (dead_.contains(node)) return false;
  if (payload.size() > net::kPayloadMax) {  // nobody would take it, and what follows would wait behind it
    write_log(LogLevel::kError, "a frame of {} bytes for node {} is dropped: it is longer than any may be",
              payload.size(), node);
    return true;
  }
  Peer& peer = peer_of(node);
  peer.session->send(header, payload);
  if (peer.session->is_full()) peer.held_up = true;
  if (peer.session->out_link() == 0) seek_link(peer);
  return true;
}

bool DaemonLinks::is_full(std::uint32_t node) const {
  auto peer = peers_.find(node);
  return peer != peers_.end() && peer->second->session->is_full();
}

std::vector<std::uint32_t> DaemonLinks::linked() const {
  std::vector<std::uint32_t> nodes;
  for (const auto& [node, peer] : peers_)
    if (node != 0 && !dead_.contains(node)) nodes.push_back(node);
  return nodes;
}

net::LinkId DaemonLinks::open_link(std::uint32_t node) const {
  for (const auto& [id, link] : open_)
    if (link.open && link.node == node && !link.is_head) return id;
  return 0;
}

/// Something waits for the node, or will. DL-5.
void DaemonLinks::seek_link(Peer& peer) {
  if (peer.node == 0 || ended_ || peer.dialling != 0 || peer.session->out_link() != 0 || peer.session->idle()) return;
  watch(peer);
  auto known = known_.find(peer.node);
  if (known == known_.end()) return;  // the view will name it, or the head says that it is dead
  Result<net::LinkId> link = links_->dial({.address = known->second.address,
                                           .timeout = kDialTimeout,
                                           .retry = true,
                                           .expected = {.role = net::ProofRole::kNode}});
  if (!link.ok()) {
    peer.last_error = link.error().message();
    return write_log(LogLevel::kWarn, "dialing node {}: {}", peer.node, peer.last_error);
  }
  open_[*link] = {peer.node, false, false};
  peer.dialling = *link;
}

void DaemonLinks::watch(Peer& peer) {
  if (std::exchange(peer.watched, true)) return;
  loop_.after(kReportAfter, [this, node = peer.node] { still_no_link(node); });
}

void DaemonLinks::still_no_link(std::uint32_t node) {
  Peer& peer = peer_of(node);
  peer.watched = false;
  if (ended_ || dead_.contains(node) || peer.session->out_link() != 0 || peer.session->idle()) return;
  const bool known = known_.contains(node);
  peer.reported |= known;
  callbacks_.report(node, known ? wire::LinkState::kDown : wire::LinkState::kUnknown, peer.last_error);
  seek_link(peer);
  watch(peer);
}

void DaemonLinks::link_is_up(Peer& peer, net::LinkId link) {
  peer.session->link_up(link);
  peer.last_error.clear();
  if (std::exchange(peer.reported, false)) callbacks_.report(peer.node, wire::LinkState::kUp, {});
}

// ---- transport threads

void DaemonLinks::on_open(net::LinkId link, const net::LinkPeer& peer) {
  loop_.post([this, link, hello = std::string(peer.hello), outgoing = peer.outgoing,
              incarnation = peer.proven.incarnation] { opened(link, hello, outgoing, incarnation); });
}

void DaemonLinks::on_batch(net::LinkId link, ByteView frames) {
  loop_.post([this, link, copy = std::vector<std::byte>(frames.begin(), frames.end())] { batch(link, copy); });
}

void DaemonLinks::on_closed(net::LinkId link, const Status& why) {
  loop_.post([this, link, text = why.ok() ? std::string() : why.error().message()] { closed(link, text); });
}

// ---- the loop's thread

void DaemonLinks::opened(net::LinkId id, const std::string& hello, bool outgoing, std::uint64_t incarnation) {
  Link& link = open_[id];
  link.open = true;
  if (!outgoing) {
    if (hello.starts_with(kHelloPrefix))
      std::from_chars(hello.data() + kHelloPrefix.size(), hello.data() + hello.size(), link.node);
    if (link.node == 0 || self_ == 0 || dead_.contains(link.node)) {
      links_->abort(id, "one of these nodes is not registered, or was declared dead");
      link.node = 0;
      return;
    }
  }
  Peer& peer = peer_of(link.node);
  if (peer.dialling == id) peer.dialling = 0;
  if (link.is_head) {
    if (!peer.session->identify(incarnation)) renew_head(peer, incarnation);
    return callbacks_.head_up();
  }
  if (dead_.contains(link.node) || !peer.session->identify(incarnation)) {
    links_->abort(id, "it is another process than the one that was node " + std::to_string(link.node));
    return;
  }
  if (peer.session->out_link() == 0) link_is_up(peer, id);
}

void DaemonLinks::batch(net::LinkId id, const std::vector<std::byte>& frames) {
  auto it = open_.find(id);
  if (it == open_.end() || (it->second.node == 0 && !it->second.is_head)) return;
  Peer& peer = peer_of(it->second.node);
  ByteView rest(frames);
  for (;;) {
    const net::BatchFrame frame = net::next_frame(rest);
    if (frame.state == net::BatchFrame::State::kEnd) return;
    if (frame.state == net::BatchFrame::State::kBad) return links_->abort(id, "a frame that does not decode");
    if (dead_.contains(peer.node) || !take(id, peer, frame.header, frame.payload)) return;
  }
}

/// False: no more of this link is to be read.
bool DaemonLinks::take(net::LinkId id, Peer& peer, const net::FrameHeader& header, ByteView payload) {
  using Took = net::Session::Took;
  switch (peer.session->receive(id, header, payload)) {
    case Took::kDelivered:
    case Took::kStale: return true;
    case Took::kControl:
      if (peer.held_up && peer.session->has_room()) {
        peer.held_up = false;
        callbacks_.room(peer.node);
      }
      return true;
    case Took::kOutside:
      if (peer.node == 0) {
        callbacks_.head_answer(header, payload);
        return true;
      }
      break;
    case Took::kViolation: break;
  }
  links_->abort(id, "frames that contradict the session, or come too late for it");
  return false;
}

void DaemonLinks::closed(net::LinkId id, const std::string& why) {
  auto it = open_.find(id);
  if (it == open_.end()) return;
  const Link link = it->second;
  open_.erase(it);
  if (link.node == 0 && !link.is_head) return;
  Peer& peer = peer_of(link.node);
  peer.session->link_down(id);
  if (link.is_head) {
    if (head_link_ != id) return;  // an earlier one
    head_link_ = 0;
    return callbacks_.head_down(why);
  }
  if (peer.dialling == id) peer.dialling = 0;
  if (dead_.contains(link.node)) return;
  if (!why.empty()) peer.last_error = why;
  if (peer.session->out_link() != 0) return;
  // which the other side has made meanwhile
  if (const net::LinkId other = open_link(link.node)) return link_is_up(peer, other);
  loop_.after(kRedialPause, [this, node = link.node] { seek_link(peer_of(node)); });
}

}  // namespace troupe::node
