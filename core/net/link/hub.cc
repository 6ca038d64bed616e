#include "core/net/link/hub.h"

#include <algorithm>
#include <future>

#include "core/net/link/spans.h"

namespace troupe::net {
namespace {

constexpr std::size_t kMessageMax = sizeof(FrameHeader) + kPayloadMax + kBatchTarget;
/// gRPC's own watchdog counts time in which this process did not run (SIL-1): it must not be the first to judge.
constexpr int kTransportPatience = 10;

/// Empty when two hellos fit together, else the reason. LK-3.
std::string compare(const abi::Hello& theirs, const abi::Hello& ours) {
  if (theirs.protocol != ours.protocol) {
    return "protocol " + std::to_string(theirs.protocol) + " differs from ours, " + std::to_string(ours.protocol);
  }
  if (!theirs.cluster_id.empty() && !ours.cluster_id.empty() && theirs.cluster_id != ours.cluster_id) {
    return "cluster " + theirs.cluster_id + " is not ours, " + ours.cluster_id;
  }
  if (!theirs.build.empty() && !ours.build.empty() && theirs.build != ours.build) {
    return "build " + theirs.build + " differs from ours, " + ours.build;
  }
  return {};
}

}  // namespace

LinkHub::LinkHub(LinkEvents& events, const LinksOptions& options, std::unique_ptr<SocketLoop> loop)
    : events_(events),
      options_(options),
      descriptors_max_(raise_descriptor_limit()),
      identity_(options.identity),
      connections_(*loop, options_, counters_),
      dialer_(*loop, {.self = [this] { return proof_self(); },
                      .proven = [this](const std::shared_ptr<LinkStream>& link,
                                       UniqueFd socket) { dialled(link, std::move(socket)); },
                      .silence_max = options.keep_alive.timeout,
                      .counters = &counters_}),
      loop_(std::move(loop)) {}

LinkHub::~LinkHub() { shutdown(); }

bool LinkHub::start(abi::Factory factory) {
  abi::Settings settings;
  settings.keep_alive_time_ms = to_ms(options_.keep_alive.time);
  settings.keep_alive_timeout_ms = kTransportPatience * to_ms(options_.keep_alive.timeout);  // LH-3 judges, not gRPC
  settings.message_bytes_max = kMessageMax + 64 * 1024;
  settings.acceptor = this;
  transport_.reset(factory(abi::kLinkAbi, &settings));
  return transport_ != nullptr;
}

void LinkHub::identify(LinkIdentity identity) {
  std::lock_guard lock(identity_mutex_);
  if (identity.incarnation == 0) identity.incarnation = identity_.incarnation;  // a process has one
  identity_ = std::move(identity);
}

// ------------------------------------------------------------------------------------------------------------------
// sending

std::shared_ptr<LinkStream> LinkHub::find(LinkId link) const {
  std::shared_lock lock(links_mutex_);
  auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

bool LinkHub::send(LinkId link, const FrameHeader& header, std::span<const ByteView> pieces) {
  std::size_t size = 0;
  for (const auto& piece : pieces) size += piece.size();
  if (size > kPayloadMax) return false;
  auto one = find(link);
  if (!one) return false;
  FrameHeader own = header;
  own.version = kFrameVersion;
  own.payload_size = std::uint32_t(size);
  return one->send(own, pieces, size);
}

bool LinkHub::send_raw(LinkId link, ByteView frames) {
  if (frames.empty() || frames.size() > kMessageMax) return false;
  auto one = find(link);
  return one && one->send_raw(frames);
}

std::size_t LinkHub::backlog(LinkId link) const {
  auto one = find(link);
  return one ? one->backlog() : 0;
}

Links::Stats LinkHub::stats() const {
  return {counters_.frames_sent,      counters_.batches_sent,   counters_.bytes_sent,
          counters_.batches_received, counters_.bytes_received, counters_.connections_refused,
          counters_.handshakes_failed};
}

// ------------------------------------------------------------------------------------------------------------------
// incoming

Result<int> LinkHub::listen(const ListenOptions& options) {
  {
    std::unique_lock lock(links_mutex_);
    if (stopping_) return CancelledError("links are shut down");
    if (listening_) return InvalidArgumentError("links listen already");
    listening_ = true;
  }
  auto socket = listen_tcp(options.address, options.port);
  auto port = socket.ok() ? local_port(socket->get()) : Result<int>(socket.error_ptr());
  if (!port.ok()) {
    std::unique_lock lock(links_mutex_);
    listening_ = false;
    return port;
  }
  connections_.limit(std::size_t(std::min<std::uint64_t>(std::uint64_t(std::max(1, options.connections_max)),
                                                         std::max<std::uint64_t>(descriptors_max_ / 4, 1))));
  Listener::Options limits;
  limits.has_room = [this] { return connections_.has_room(); };
  limits.refused = &counters_.connections_refused;
  Handshakes::Options handshakes;
  handshakes.self = [this] { return proof_self(); };
  handshakes.unproven_max = std::size_t(std::max(1, options.unproven_max));
  handshakes.timeout = options_.handshake_timeout;
  handshakes.failed = &counters_.handshakes_failed;
  handshakes.admitted = [this](UniqueFd socket, const ProofPeer& peer) {
    if (connections_.admit(socket.get(), peer)) transport_->adopt(socket.release());
  };
  auto shared = std::make_shared<UniqueFd>(std::move(*socket));  // std::function wants something that can be copied
  loop_->post([this, shared, limits, handshakes] {
    handshakes_ = std::make_unique<Handshakes>(*loop_, handshakes);
    listener_ = std::make_unique<Listener>(*loop_, std::move(*shared), limits, [this](UniqueFd fd) {
      set_tcp_options(fd.get(), {.user_timeout_ms = to_ms(options_.keep_alive.timeout)});
      handshakes_->add(std::move(fd));
    });
  });
  return port;
}

ProofSelf LinkHub::proof_self() const {
  std::lock_guard lock(identity_mutex_);
  return {identity_.token,     identity_.cluster_id,  identity_.role,
          ProofPurpose::kLink, identity_.incarnation, identity_.epoch};
}

std::string LinkHub::judge(const abi::Hello& hello) {
  auto reason = compare(hello, own_hello());
  if (!reason.empty()) counters_.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  return reason;
}

abi::Hello LinkHub::own_hello() {
  std::lock_guard lock(identity_mutex_);
  return {kLinkProtocol, identity_.cluster_id, identity_.build, identity_.hello};
}

std::shared_ptr<abi::Owner> LinkHub::incoming(std::shared_ptr<abi::Stream> stream, int descriptor) {
  auto link = make_link({.outgoing = false, .place = "the peer"});
  if (!link) return nullptr;
  if (!connections_.claim(descriptor, link)) {  // cut meanwhile
    forget_link(*link);
    return nullptr;
  }
  link->attach(std::move(stream));
  return link;
}

// ------------------------------------------------------------------------------------------------------------------
// outgoing

Result<std::shared_ptr<LinkStream>> LinkHub::start_dial(const ConnectOptions& options, bool waited_for) {
  {
    std::lock_guard lock(identity_mutex_);
    if (!identity_.token.is_set())
      return UnauthenticatedError("no cluster token to connect to " + options.address + " with");
  }
  auto address = parse_address(options.address);
  if (!address.ok()) return address.error_ptr();
  auto link = make_link({.outgoing = true, .waited_for = waited_for, .place = options.address});
  if (!link) return CancelledError("links are shut down");
  loop_->post([this, link, address = *address, options] {
    if (auto why = link->abort_reason()) return link->fail(why);  // closed before we came to it
    dialer_.start(link, address, options);
  });
  return link;
}

Result<LinkId> LinkHub::dial(const ConnectOptions& options) {
  auto link = start_dial(options, false);
  if (!link.ok()) return link.error_ptr();
  return (*link)->setup().id;
}

Result<LinkId> LinkHub::connect(const ConnectOptions& options) {
  auto link = start_dial(options, true);
  if (!link.ok()) return link.error_ptr();
  auto opened = (*link)->wait_until_open();
  if (!opened.ok()) return opened.error_ptr();
  return (*link)->setup().id;
}

void LinkHub::dialled(const std::shared_ptr<LinkStream>& link, UniqueFd socket) {
  connections_.dialled(socket.get(), link);
  link->attach(transport_->dial(socket.release(), own_hello(), link));
}

// ------------------------------------------------------------------------------------------------------------------
// the table

std::shared_ptr<LinkStream> LinkHub::make_link(LinkStream::Setup setup) {
  std::unique_lock lock(links_mutex_);
  if (stopping_) return nullptr;
  setup.id = next_link_++;
  auto link = std::make_shared<LinkStream>(
      std::move(setup), events_, counters_, [this](const abi::Hello& hello) { return judge(hello); },
      [this](LinkStream& one) { link_ended(one); });
  links_.emplace(link->setup().id, link);
  return link;
}

void LinkHub::link_ended(LinkStream& link) {
  if (link.connection() != 0) loop_->post([this, serial = link.connection()] { connections_.cut(serial); });  // LH-2
  forget_link(link);
}

void LinkHub::forget_link(LinkStream& link) {
  std::unique_lock lock(links_mutex_);
  links_.erase(link.setup().id);
  if (links_.empty()) links_gone_.notify_all();
}

// --------------------------------------------------------------------------------------------------------------------
// ending

void LinkHub::close(LinkId link) {
  auto one = find(link);
  if (!one) return;
  if (!one->close()) {
    auto why = make_error<CancelledError>("closed before it was open");
    loop_->post([this, link, why] { dialer_.end(link, why); });
    return;
  }
  loop_->post([this, weak = std::weak_ptr(one)] {
    loop_->at(std::chrono::steady_clock::now() + kLinger, [weak] {
      if (auto late = weak.lock())
        late->abort(make_error<NodeDiedError>("the peer did not take what was sent before the end of the link"));
    });
  });
}

void LinkHub::abort(LinkId link, std::string reason) {
  auto one = find(link);
  if (!one) return;
  auto why = make_error<CancelledError>("the link to " + one->setup().place + " was cut: " + reason);
  one->abort(why);
  loop_->post([this, link, why] { dialer_.end(link, why); });
}

void LinkHub::shutdown() {
  std::vector<LinkId> open;
  {
    std::unique_lock lock(links_mutex_);
    if (std::exchange(stopping_, true)) return;
    for (const auto& [id, link] : links_) open.push_back(id);
  }
  std::promise<void> unlistened;
  loop_->post([this, &unlistened] {
    listener_.reset();
    handshakes_.reset();
    unlistened.set_value();
  });
  unlistened.get_future().wait();  // the loop's thread never blocks
  for (auto id : open) close(id);
  {
    std::unique_lock lock(links_mutex_);
    links_gone_.wait_for(lock, kLinger, [this] { return links_.empty(); });
  }
  if (transport_) transport_->shutdown();
  loop_->stop();
  std::vector<std::shared_ptr<LinkStream>> left;  // dials that the loop did not come to any more
  {
    std::unique_lock lock(links_mutex_);
    for (const auto& [id, link] : links_) left.push_back(link);
  }
  for (const auto& link : left) link->fail(make_error<CancelledError>("links were shut down"));
}

}  // namespace troupe::net
