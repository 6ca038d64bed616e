#include "core/net/link/hub.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

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
  incoming_max_ = std::size_t(std::min<std::uint64_t>(std::uint64_t(std::max(1, options.connections_max)),
                                                      std::max<std::uint64_t>(descriptors_max_ / 4, 1)));
  Listener::Options limits;
  limits.has_room = [this] { return room_for_incoming(); };
  limits.refused = &counters_.connections_refused;
  Handshakes::Options handshakes;
  handshakes.self = [this] { return proof_self(); };
  handshakes.unproven_max = std::size_t(std::max(1, options.unproven_max));
  handshakes.timeout = options_.handshake_timeout;
  handshakes.failed = &counters_.handshakes_failed;
  handshakes.admitted = [this](UniqueFd socket, const ProofPeer& peer) { admitted(std::move(socket), peer); };
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

bool LinkHub::room_for_incoming() const {
  std::lock_guard lock(connections_mutex_);
  return incoming_ < incoming_max_;
}

void LinkHub::admitted(UniqueFd socket, const ProofPeer& peer) {
  UniqueFd watch(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!watch || !room_for_incoming()) {  // NLS-3: others may have proven themselves since it was accepted
    counters_.connections_refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t serial = register_connection(socket.get(), std::move(watch), true);
  const auto too_late = loop_->at(std::chrono::steady_clock::now() + options_.handshake_timeout, [this, serial] {
    {
      std::lock_guard lock(connections_mutex_);
      auto found = connections_.find(serial);
      if (found == connections_.end() || found->second.linked) return;
    }
    counters_.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    cut(serial);  // LH-1
  });
  {
    std::lock_guard lock(connections_mutex_);
    connections_.at(serial).handshake = too_late;
    connections_.at(serial).peer = peer;
  }
  transport_->adopt(socket.release());
}

std::uint64_t LinkHub::register_connection(int descriptor, UniqueFd watch, bool incoming) {
  const std::uint64_t serial = next_serial_++;
  // Only EPOLLHUP and EPOLLERR, which always come: the transport has shut its own descriptor.
  loop_->watch(watch.get(), 0, [this, serial](std::uint32_t) { cut(serial); });
  {
    std::lock_guard lock(connections_mutex_);
    Connection& connection = connections_[serial];
    connection.descriptor = descriptor;
    connection.watch = std::move(watch);
    connection.incoming = incoming;
    serial_of_[descriptor] = serial;
    incoming_ += incoming;
  }
  if (!std::exchange(looking_, true))
    loop_->at(std::chrono::steady_clock::now() + kLookAfter, [this] { look_for_silence(); });
  return serial;
}

void LinkHub::cut(std::uint64_t serial) {
  Connection connection;
  {
    std::lock_guard lock(connections_mutex_);
    auto found = connections_.find(serial);
    if (found == connections_.end()) return;
    connection = std::move(found->second);
    connections_.erase(found);
    incoming_ -= connection.incoming;
    auto known = serial_of_.find(connection.descriptor);
    if (known != serial_of_.end() && known->second == serial) serial_of_.erase(known);
  }
  loop_->cancel(connection.handshake);
  loop_->forget(connection.watch.get());
  ::shutdown(connection.watch.get(), SHUT_RDWR);
}

// LH-3.
void LinkHub::look_for_silence() {
  const auto limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.keep_alive.time + options_.keep_alive.timeout);
  std::vector<std::pair<std::uint64_t, std::shared_ptr<LinkStream>>> silent;
  silence_.look(std::chrono::steady_clock::now());
  {
    std::lock_guard lock(connections_mutex_);
    for (const auto& [serial, connection] : connections_) {
      if (connection.linked && silence_.counted(silence_of(connection.watch.get())) > limit)
        silent.emplace_back(serial, connection.link.lock());
    }
    looking_ = !connections_.empty();
  }
  for (const auto& [serial, link] : silent) {
    if (link)
      link->abort(make_error<NodeDiedError>("the link to " + link->setup().place + " broke: no sign of life for " +
                                            seconds_text(limit)));
    cut(serial);
  }
  if (!looking_) return silence_.pause();
  loop_->at(std::chrono::steady_clock::now() + kLookAfter, [this] { look_for_silence(); });
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
  bool known = false;
  {
    std::lock_guard lock(connections_mutex_);
    if (auto serial = serial_of_.find(descriptor); serial != serial_of_.end()) {
      known = true;
      link->set_connection(serial->second);
      Connection& connection = connections_.at(serial->second);
      link->set_peer(connection.peer);
      connection.linked = true;
      connection.link = link;
    }
  }
  if (!known) {  // cut meanwhile
    forget_link(*link);
    return nullptr;
  }
  link->attach(std::move(stream));
  return link;
}

// ----------------------------------------------------------------------------------------------------------------- the
// table

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
  if (link.connection() != 0) loop_->post([this, serial = link.connection()] { cut(serial); });  // LH-2
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
    loop_->post([this, link, why] { end_dial(link, why); });
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
  loop_->post([this, link, why] { end_dial(link, why); });
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
