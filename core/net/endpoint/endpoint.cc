#include "core/net/endpoint/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/net/endpoint/doorbell.h"
#include "core/net/endpoint/inbox.h"
#include "core/net/endpoint/peers.h"
#include "core/net/endpoint/role.h"

namespace troupe::net {
namespace {

Error errno_error(const char* what) { return Error(std::string(what) + ": " + std::strerror(errno)); }

bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

struct Endpoint::Impl {
  Impl(EndpointOptions chosen, Doorbell bell, UniqueFd timer, UniqueFd epoll)
      : options(chosen),
        doorbell(std::move(bell)),
        service_fd(std::move(epoll)),
        role(doorbell, inbox, chosen, std::move(timer)) {}

  // The slot of an attached peer, under the role (so that it stays what it is), or kNoSlot.
  std::uint32_t held_slot(ProcessId id) const {
    const std::uint32_t slot = peers.find(id);
    const Peer* peer = peers.get(slot);
    if (!peer) return kNoSlot;
    const auto state = peer->state.load(std::memory_order_acquire);
    return state == Peer::State::kOpen || state == Peer::State::kBroken ? slot : kNoSlot;
  }

  // Calls f(peer) under the peer's mutex when it is attached.
  template <class F>
  void with_peer(ProcessId id, F&& f) {
    Peer* peer = peers.get(peers.find(id));
    if (!peer) return;
    std::lock_guard lock(peer->mutex);
    const auto state = peer->state.load(std::memory_order_relaxed);
    if ((state == Peer::State::kOpen || state == Peer::State::kBroken) && peer->id == id) f(*peer);
  }

  const EndpointOptions options;
  Doorbell doorbell;
  UniqueFd service_fd;
  PeerTable peers;
  std::mutex attach_mutex;
  Outbox outbox{peers, doorbell};
  Inbox inbox{peers, doorbell, outbox};
  ConsumerRole role;
};

Parker::Parker(Endpoint& endpoint) : role_(&endpoint.impl_->role) {}
void Parker::notify() noexcept { ConsumerRole::notify(*this); }

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Endpoint::~Endpoint() {
  for (ProcessId id : impl_->peers.ids()) detach(id);
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(EndpointOptions options) {
  Result<Doorbell> doorbell = Doorbell::create();
  if (!doorbell) return doorbell.error_ptr();
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (timer.get() < 0) return errno_error("timerfd_create");
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) return errno_error("epoll_create1");
  if (!watch(epoll.get(), timer.get()) || !watch(epoll.get(), doorbell->event_fd())) return errno_error("epoll_ctl");
  auto impl = std::make_unique<Impl>(options, std::move(doorbell).value(), std::move(timer), std::move(epoll));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

ProcessId Endpoint::self() const noexcept { return impl_->options.self; }
int Endpoint::doorbell_fd() const noexcept { return impl_->doorbell.fd(); }
int Endpoint::event_fd() const noexcept { return impl_->doorbell.event_fd(); }
int Endpoint::service_fd() const noexcept { return impl_->service_fd.get(); }

std::size_t Endpoint::pair_bytes(PairOptions options) { return kPairHeaderBytes + 2 * options.ring_bytes; }

Result<UniqueFd> Endpoint::create_pair(PairOptions options) { return create_ring_pair(options.ring_bytes); }

Status Endpoint::attach(Attachment attachment) {
  if (attachment.side != 0 && attachment.side != 1) {
    return make_error<InvalidArgumentError>("attach: side " + std::to_string(attachment.side) + " of a pair");
  }
  Result<PairMapping> pair = open_ring_pair(attachment.pair.get());
  if (!pair) return pair.error_ptr();
  Result<PeerDoorbell> doorbell = PeerDoorbell::open(attachment.peer_doorbell.get(), std::move(attachment.peer_event));
  if (!doorbell) return doorbell.error_ptr();

  std::lock_guard one_at_a_time(impl_->attach_mutex);
  if (impl_->peers.find(attachment.peer) != kNoSlot) {
    return make_error<InvalidArgumentError>("attach: " + to_string(attachment.peer) + " is attached already");
  }
  const std::uint32_t slot = impl_->peers.insert(attachment.peer);
  if (slot == kNoSlot) return Error("attach: " + std::to_string(kPeersMax) + " processes are attached");
  Peer& peer = *impl_->peers.get(slot);
  {
    std::lock_guard lock(peer.mutex);
    peer.id = attachment.peer;
    peer.pair = *pair;
    peer.out = RingWriter(pair->ring[attachment.side]);
    peer.in = RingReader(pair->ring[1 - attachment.side]);
    peer.doorbell = std::move(doorbell).value();
    peer.state.store(Peer::State::kOpen, std::memory_order_release);
    // From here on the peer rings; what it wrote before is found by the look that we ask for.
    peer.in.control().consumer_slot.store(slot + 1, std::memory_order_seq_cst);
  }
  impl_->doorbell.ring_self(slot);
  return {};
}

void Endpoint::detach(ProcessId peer) {
  ConsumerRole::Hold hold(impl_->role);
  if (const std::uint32_t slot = impl_->held_slot(peer); slot != kNoSlot) impl_->inbox.close(slot);
}

void Endpoint::pause(ProcessId peer) {
  ConsumerRole::Hold hold(impl_->role);
  if (const std::uint32_t slot = impl_->held_slot(peer); slot != kNoSlot) impl_->inbox.pause(slot);
}

void Endpoint::resume(ProcessId peer) {
  ConsumerRole::Hold hold(impl_->role);
  if (const std::uint32_t slot = impl_->held_slot(peer); slot != kNoSlot) impl_->inbox.resume(slot);
}

std::size_t Endpoint::drain_and_close(ProcessId peer, Handler& handler) {
  ConsumerRole::Hold hold(impl_->role);
  const std::uint32_t slot = impl_->held_slot(peer);
  if (slot == kNoSlot) return 0;
  const std::size_t delivered = impl_->inbox.drain(slot, handler);
  // A handler may have detached it, and attached another in its place.
  if (impl_->held_slot(peer) == slot) impl_->inbox.close(slot);
  return delivered;
}

bool Endpoint::attached(ProcessId peer) const noexcept {
  bool found = false;
  impl_->with_peer(peer, [&](Peer&) { found = true; });
  return found;
}

bool Endpoint::send(ProcessId peer, const FrameHeader& header, std::span<const ByteView> pieces) {
  return impl_->outbox.send(peer, header, pieces);
}

std::size_t Endpoint::backlog(ProcessId peer) const noexcept {
  std::size_t bytes = 0;
  impl_->with_peer(peer, [&](Peer& open) { bytes = open.backlog.load(std::memory_order_relaxed); });
  return bytes;
}

void Endpoint::ring_always(ProcessId peer) noexcept {
  impl_->with_peer(peer, [](Peer& open) { open.doorbell.ring_always(); });
}

void Endpoint::set_begun(ProcessId peer, std::uint64_t seq) noexcept {
  impl_->with_peer(peer, [&](Peer& open) {
    open.in.control().begun.note(seq);
  });
}

std::uint64_t Endpoint::begun(ProcessId peer) const noexcept {
  std::uint64_t seq = 0;
  impl_->with_peer(peer, [&](Peer& open) { seq = open.out.control().begun.highest(); });
  return seq;
}

BegunCalls Endpoint::begun_calls(ProcessId peer) const noexcept {
  BegunCalls begun;
  impl_->with_peer(peer, [&](Peer& open) { begun = open.out.control().begun.snapshot(); });
  return begun;
}

bool Endpoint::block(Parker& parker, Deadline deadline, Handler& handler) {
  return impl_->role.block(parker, deadline, handler);
}
int Endpoint::try_drain(Handler& handler, int budget) { return impl_->role.try_drain(handler, budget); }
void Endpoint::service(Handler& handler) { impl_->role.service(handler); }

Endpoint::Stats Endpoint::stats() const noexcept {
  const auto& [role, inbox, outbox] = std::tie(impl_->role, impl_->inbox, impl_->outbox);
  return {.received = inbox.received.get(),
          .polls = inbox.polls.get(),
          .sleeps = role.sleeps.get(),
          .handovers = role.handovers.get(),
          .attendances = role.attendances.get(),
          .service_drains = role.service_drains.get(),
          .event_rings = outbox.event_rings.load(std::memory_order_relaxed),
          .futex_rings = outbox.futex_rings.load(std::memory_order_relaxed),
          .queued = outbox.queued.load(std::memory_order_relaxed)};
}

}  // namespace troupe::net
