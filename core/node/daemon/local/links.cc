#include "core/node/daemon/local/links.h"

#include <charconv>
#include <cstring>
#include <vector>

namespace troupe::node {

class LocalLinks final : public net::Links {
 public:
  LocalLinks(std::shared_ptr<LocalSwitch> shared, net::LinkEvents& events, net::LinkIdentity identity)
      : shared_(std::move(shared)), switch_(*shared_), events_(events), identity_(std::move(identity)) {}
  ~LocalLinks() override { shutdown(); }

  void identify(net::LinkIdentity identity) override {
    std::lock_guard lock(switch_.mutex_);
    if (identity.incarnation == 0) identity.incarnation = identity_.incarnation;
    identity_ = std::move(identity);
  }
  Result<int> listen(const net::ListenOptions&) override {
    std::lock_guard lock(switch_.mutex_);
    port_ = switch_.next_port_++;
    switch_.listeners_[port_] = this;
    return port_;
  }
  Result<net::LinkId> dial(const net::ConnectOptions& options) override {
    std::lock_guard lock(switch_.mutex_);
    const std::string number = options.address.substr(options.address.rfind(':') + 1);
    int port = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), port).ec != std::errc())
      return make_error<InvalidArgumentError>("no address: " + options.address);
    const net::LinkId link = next_link_++;
    auto found = switch_.listeners_.find(port);
    if (found == switch_.listeners_.end()) {
      events_.on_closed(link, NotFoundError("nobody listens at " + options.address));
      return link;
    }
    meet(*found->second, link);
    return link;
  }
  Result<net::LinkId> connect(const net::ConnectOptions& options) override {
    Result<net::LinkId> link = dial(options);
    if (!link.ok()) return link;
    std::lock_guard lock(switch_.mutex_);
    if (!links_.contains(*link)) return make_error<NotFoundError>("nobody listens at " + options.address);
    return link;
  }

  bool send(net::LinkId link, const net::FrameHeader& given, std::span<const ByteView> pieces) override {
    net::FrameHeader header = given;
    std::size_t size = 0;
    for (ByteView piece : pieces) size += piece.size();
    if (size > net::kPayloadMax) return false;
    header.version = net::kFrameVersion;
    header.payload_size = static_cast<std::uint32_t>(size);
    std::vector<std::byte> frame(sizeof(header) + size);
    std::memcpy(frame.data(), &header, sizeof(header));
    std::byte* to = frame.data() + sizeof(header);
    for (ByteView piece : pieces) {
      if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    }
    return send_raw(link, frame);
  }
  bool send_raw(net::LinkId link, ByteView frames) override {
    std::lock_guard lock(switch_.mutex_);
    auto found = links_.find(link);
    if (found == links_.end()) return false;
    const LocalSwitch::End other = found->second;
    ++stats_.frames_sent;
    ++stats_.batches_sent;
    stats_.bytes_sent += frames.size();
    ++other.side->stats_.batches_received;
    other.side->stats_.bytes_received += frames.size();
    other.side->events_.on_batch(other.link, frames);
    return true;
  }
  std::size_t backlog(net::LinkId) const override { return 0; }

  void close(net::LinkId link) override {
    std::lock_guard lock(switch_.mutex_);
    part(link, Status(), true);
  }
  void abort(net::LinkId link, std::string reason) override {
    std::lock_guard lock(switch_.mutex_);
    part(link, NodeDiedError(std::move(reason)), true);
  }
  void shutdown() override {
    std::lock_guard lock(switch_.mutex_);
    if (port_ != 0) switch_.listeners_.erase(std::exchange(port_, 0));
    while (!links_.empty()) part(links_.begin()->first, Status(), false);
  }
  Stats stats() const override {
    std::lock_guard lock(switch_.mutex_);
    return stats_;
  }

 private:
  // ---- the switch's lock is held
  void meet(LocalLinks& other, net::LinkId mine) {
    if (!identity_.token.equals(other.identity_.token) ||
        (!identity_.cluster_id.empty() && !other.identity_.cluster_id.empty() &&
         identity_.cluster_id != other.identity_.cluster_id))
      return events_.on_closed(mine, UnauthenticatedError("the other side belongs to another cluster"));
    const net::LinkId theirs = other.next_link_++;
    links_[mine] = {&other, theirs};
    other.links_[theirs] = {this, mine};
    other.events_.on_open(theirs, {identity_.hello, false, proven(identity_)});
    events_.on_open(mine, {other.identity_.hello, true, proven(other.identity_)});
  }
  static net::ProofPeer proven(const net::LinkIdentity& identity) {
    return {identity.role, identity.incarnation, identity.epoch};
  }
  void part(net::LinkId link, const Status& why, bool tell_me) {
    auto found = links_.find(link);
    if (found == links_.end()) return;
    const LocalSwitch::End other = found->second;
    links_.erase(found);
    other.side->links_.erase(other.link);
    if (tell_me) events_.on_closed(link, why);
    other.side->events_.on_closed(other.link, why);
  }

  const std::shared_ptr<LocalSwitch> shared_;
  LocalSwitch& switch_;
  net::LinkEvents& events_;
  net::LinkIdentity identity_;
  std::map<net::LinkId, LocalSwitch::End> links_;
  net::LinkId next_link_ = 1;
  int port_ = 0;
  Stats stats_;
};

Result<std::unique_ptr<net::Links>> LocalSwitch::open(net::LinkEvents& events, const net::LinksOptions& options) {
  net::LinkIdentity identity = options.identity;
  if (identity.incarnation == 0) {
    Result<std::uint64_t> drawn = net::draw_incarnation();
    if (!drawn.ok()) return drawn.error_ptr();
    identity.incarnation = *drawn;
  }
  return std::unique_ptr<net::Links>(std::make_unique<LocalLinks>(shared_from_this(), events, std::move(identity)));
}

}  // namespace troupe::node
