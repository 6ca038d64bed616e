#include "core/node/daemon/links.h"

#include <charconv>
#include <cstring>

#include "core/base/log.h"

namespace troupe::node {
namespace {
constexpr std::string_view kHelloPrefix = "node ";
}

Result<std::unique_ptr<DaemonLinks>> DaemonLinks::open(Loop& loop, net::LinkIdentity identity, LinkCallbacks callbacks,
                                                       const LinkOpener& open_links) {
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
  if (links_) links_->shutdown();
}

Result<int> DaemonLinks::listen(const std::string& bind) { return links_->listen({.address = bind}); }

Status DaemonLinks::dial_head(const std::string& address, Duration timeout) {
  Result<net::LinkId> link = links_->dial({.address = address, .timeout = timeout, .retry = true, .expected = {.role = net::ProofRole::kHead}});
  if (!link.ok()) return link.error_ptr();
  open_[*link] = {0, true, false};
  way_[0] = *link;
  return {};
}

bool DaemonLinks::send_registration(const net::FrameHeader& header, ByteView payload) {
  auto way = way_.find(0);
  return way != way_.end() && links_->send(way->second, header, payload);
}

void DaemonLinks::head_registered() {
  head_knows_us_ = true;
  flush_early(0, true);
}

void DaemonLinks::set_self(std::uint32_t node, const std::string& cluster_id) {
  self_ = node;
  identity_.hello = std::string(kHelloPrefix) + std::to_string(node);
  identity_.cluster_id = cluster_id;
  links_->identify(identity_);
}

void DaemonLinks::apply_view(const wire::ClusterView& view) {
  for (const wire::NodeInfo& info : view.nodes) {
    if (dead_.contains(info.node)) continue;
    const bool fresh = known_.insert_or_assign(info.node, Known{info.address, info.data_address}).second;
    if (fresh) flush_early(info.node, true);
  }
}

void DaemonLinks::node_dead(std::uint32_t node) {
  dead_.insert(node);
  known_.erase(node);
  flush_early(node, false);
  if (auto it = way_.find(node); it != way_.end()) links_->abort(it->second, "the node was declared dead");
  way_.erase(node);
}

std::string DaemonLinks::data_address(std::uint32_t node) const {
  auto it = known_.find(node);
  return it == known_.end() ? std::string() : it->second.data_address;
}

bool DaemonLinks::send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
  if (dead_.contains(node)) return false;
  if (node == 0 && !head_knows_us_) return keep_early(node, header, payload);
  auto way = way_.find(node);
  if (way == way_.end()) {
    auto known = known_.find(node);
    if (known == known_.end()) return keep_early(node, header, payload);
    Result<net::LinkId> link = links_->dial({.address = known->second.address, .timeout = std::chrono::seconds(5), .retry = true,
                                                 .expected = {.role = net::ProofRole::kNode}});
    if (!link.ok()) {
      write_log(LogLevel::kWarn, "dialing node {}: {}", node, link.error().message());
      return false;
    }
    open_[*link] = {node, false, false};
    way = way_.emplace(node, *link).first;
  }
  return links_->send(way->second, header, payload);
}

bool DaemonLinks::keep_early(std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
  if (early_bytes_ + payload.size() > kEarlyBytesMax) return false;
  auto [it, fresh] = early_.try_emplace(node);
  if (fresh && node != 0) loop_.after(kEarlyWait, [this, node] { flush_early(node, known_.contains(node)); });
  early_bytes_ += payload.size();
  it->second.push_back({header, {payload.begin(), payload.end()}});
  return true;
}

void DaemonLinks::flush_early(std::uint32_t node, bool deliverable) {
  auto it = early_.find(node);
  if (it == early_.end()) return;
  const std::vector<Early> frames = std::move(it->second);
  early_.erase(it);
  for (const Early& early : frames) {
    early_bytes_ -= early.payload.size();
    if (!deliverable || !send(node, early.header, early.payload)) callbacks_.undeliverable(early.header);
  }
}

std::vector<std::uint32_t> DaemonLinks::linked() const {
  std::set<std::uint32_t> nodes;
  for (const auto& [id, link] : open_) if (link.open && !link.is_head && link.node != 0) nodes.insert(link.node);
  return {nodes.begin(), nodes.end()};
}

// ---- transport threads

void DaemonLinks::on_open(net::LinkId link, const net::LinkPeer& peer) {
  loop_.post([this, link, hello = std::string(peer.hello), outgoing = peer.outgoing] { opened(link, hello, outgoing); });
}

void DaemonLinks::on_batch(net::LinkId link, ByteView frames) {
  loop_.post([this, link, copy = std::vector<std::byte>(frames.begin(), frames.end())] { batch(link, copy); });
}

void DaemonLinks::on_closed(net::LinkId link, const Status& why) {
  loop_.post([this, link, text = why.ok() ? std::string() : why.error().message()] { closed(link, text); });
}

// ---- the loop's thread

void DaemonLinks::opened(net::LinkId id, const std::string& hello, bool outgoing) {
  Link& link = open_[id];
  link.open = true;
  if (!outgoing) {
    if (hello.starts_with(kHelloPrefix))
      std::from_chars(hello.data() + kHelloPrefix.size(), hello.data() + hello.size(), link.node);
    if (link.node == 0 || dead_.contains(link.node)) {
      links_->abort(id, "this node was declared dead, or does not say which it is");
      return;
    }
    way_.try_emplace(link.node, id);
  }
  callbacks_.up(link.is_head ? 0 : link.node);
}

void DaemonLinks::batch(net::LinkId id, const std::vector<std::byte>& frames) {
  auto it = open_.find(id);
  if (it == open_.end()) return;
  const std::uint32_t node = it->second.node;
  ByteView rest(frames);
  while (!rest.empty()) {
    Result<net::FrameHeader> header = net::decode_header(rest.first(std::min(rest.size(), sizeof(net::FrameHeader))));
    if (!header.ok() || rest.size() < sizeof(net::FrameHeader) + header->payload_size) {
      links_->abort(id, "a frame that does not decode");
      return;
    }
    callbacks_.frame(node, *header, rest.subspan(sizeof(net::FrameHeader), header->payload_size));
    rest = rest.subspan(sizeof(net::FrameHeader) + header->payload_size);
  }
}

void DaemonLinks::closed(net::LinkId id, const std::string& why) {
  auto it = open_.find(id);
  if (it == open_.end()) return;
  const Link link = it->second;
  open_.erase(it);
  if (link.is_head) head_knows_us_ = false;
  if (auto way = way_.find(link.node); way != way_.end() && way->second == id) {
    way_.erase(way);
    for (const auto& [other, candidate] : open_)  // the link that the other side has made meanwhile
      if (candidate.open && candidate.node == link.node && !candidate.is_head) way_.try_emplace(link.node, other);
  }
  callbacks_.down(link.is_head ? 0 : link.node, why);
}

}  // namespace troupe::node
