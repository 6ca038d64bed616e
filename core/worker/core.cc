#include "core/worker/core.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/worker/actor_clients.h"
#include "core/worker/buffers.h"
#include "core/worker/host.h"
#include "core/worker/log_printer.h"
#include "core/worker/objects.h"
#include "core/worker/outlet.h"
#include "core/worker/store_link.h"
#include "core/worker/streams.h"
#include "core/worker/task_submitter.h"
#include "core/worker/transit.h"

namespace troupe::worker {

// --------------------------------------------------------------------------------------------------------------------- lock

namespace {
thread_local const Core* locked_core = nullptr;
}

CoreLock::CoreLock(Core& core) : core_(core) {
  core_.mutex_.lock();
  locked_core = &core_;
}
CoreLock::~CoreLock() { core_.release_lock(); }
bool CoreLock::held(const Core& core) noexcept { return locked_core == &core; }

/// Does what was put off, lets go, and delivers frames that this process sent to itself.
void Core::release_lock() {
  for (;;) {
    while (!dropped_objects_.empty() || !dropped_buffers_.empty()) {
      for (ObjectEntry* entry : std::exchange(dropped_objects_, {})) objects_->dropped(*entry);
      for (BufferEntry* entry : std::exchange(dropped_buffers_, {})) {
        transit_->dropped(*entry);
        delete entry;
      }
    }
    if (!deferred_.empty()) {
      std::vector<std::function<void()>> deferred = std::exchange(deferred_, {});
      locked_core = nullptr;
      mutex_.unlock();
      for (auto& action : deferred) action();
      deferred.clear();
      mutex_.lock();
      locked_core = this;
      continue;
    }
    Courier::Local local;
    if (courier_.delivering || !courier_.take_local(local)) break;
    courier_.delivering = true;
    locked_core = nullptr;
    mutex_.unlock();
    on_message(self(), local.header, local.payload);
    mutex_.lock();
    locked_core = this;
    courier_.delivering = false;
  }
  locked_core = nullptr;
  mutex_.unlock();
}

void Core::without_lock(const std::function<void()>& action) {
  locked_core = nullptr;
  mutex_.unlock();
  action();
  mutex_.lock();
  locked_core = this;
}

void Core::drop(ObjectEntry& entry) noexcept {
  if (CoreLock::held(*this)) {
    dropped_objects_.push_back(&entry);
    return;
  }
  CoreLock lock(*this);
  objects_->dropped(entry);
}

void Core::drop(BufferEntry& entry) noexcept {
  arm_flush();
  if (!entry.held) {  // nobody elsewhere is to be told: the pin goes without the lock
    delete &entry;
    return;
  }
  if (CoreLock::held(*this)) {
    dropped_buffers_.push_back(&entry);
    return;
  }
  CoreLock lock(*this);
  transit_->dropped(entry);
  delete &entry;
}

/// What is dropped is handed back in batches. A thread that drops and then blocks would keep it: the service thread does it then.
void Core::arm_flush() noexcept {
  if (outlet_ || flush_armed_.load(std::memory_order_relaxed) || flush_armed_.exchange(true)) return;
  constexpr long kFlushDelayNs = 5'000'000;
  const itimerspec soon{{}, {0, kFlushDelayNs}};
  ::timerfd_settime(flush_timer_.get(), 0, &soon, nullptr);
}

void BufferEntry::last_released() noexcept { core_.drop(*this); }

// -------------------------------------------------------------------------------------------------------------------- start

Core::Core(CoreOptions options)
    : is_driver_(options.hello.role == wire::Role::kDriver), options_(std::move(options)), fork_(options_.fork), courier_(*this), requests_(*this) {
  transit_ = std::make_unique<Transit>(*this);
  objects_ = std::make_unique<ObjectTable>(*this, *transit_);
  calls_ = std::make_unique<CallTable>(*this);
  tasks_ = std::make_unique<TaskSubmitter>(*this);
  actors_ = std::make_unique<ActorClients>(*this);
  host_ = std::make_unique<Host>(*this);
}

Result<std::unique_ptr<Core>> Core::start(CoreOptions options) {
  std::unique_ptr<Core> core(new Core(std::move(options)));
  if (Status status = core->connect(); !status.ok()) return status.error_ptr();
  core->service_ = std::thread([raw = core.get()] { raw->service_loop(); });
  return core;
}

Status Core::connect() {
  if (options_.socket) {
    socket_ = std::move(options_.socket);
  } else {
    Result<UniqueFd> socket = node::connect_boot_socket(options_.socket_path);
    if (!socket.ok()) return socket.error_ptr();
    socket_ = *std::move(socket);
  }
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  flush_timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  // The endpoint's own id is known only with the welcome: the hello carries its descriptors, so it is made first.
  Result<std::unique_ptr<net::Endpoint>> endpoint = net::Endpoint::create({.self = {}});
  if (!endpoint.ok()) return endpoint.error_ptr();
  endpoint_ = *std::move(endpoint);
  Result<bool> sent = node::send_message(socket_.get(), wire::BootKind::kHello, options_.hello, {endpoint_->doorbell_fd(), endpoint_->event_fd()});
  if (!sent.ok()) return sent.error_ptr();
  Result<node::BootPacket> packet = node::wait_packet(socket_.get(), options_.connect_timeout);
  if (!packet.ok()) return packet.error_ptr();
  if (packet->kind == wire::BootKind::kRefused) {
    Result<wire::Refused> refused = wire::decode_message<wire::Refused>(packet->payload);
    return refused.ok() ? Error::make(refused->error) : refused.error_ptr();
  }
  Result<wire::Welcome> welcome = wire::decode_message<wire::Welcome>(packet->payload);
  if (!welcome.ok()) return welcome.error_ptr();
  welcome_ = *std::move(welcome);
  calls_->budget().set_limit(welcome_.call_memory);
  objects_->set_self(welcome_.self);
  return open_store(*packet);
}

Status Core::open_store(node::BootPacket& packet) {
  if (packet.fds.size() < 7) return InvalidArgumentError("the node daemon's welcome lacks descriptors");
  net::Attachment attachment{daemon(), std::move(packet.fds[0]), 1, std::move(packet.fds[1]), std::move(packet.fds[2])};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok()) return status;
  store::StoreHandles handles{std::move(packet.fds[4]), std::move(packet.fds[3]), std::move(packet.fds[5]), std::move(packet.fds[6]),
                              {welcome_.self.node, welcome_.store_slots, welcome_.store_capacity, welcome_.store_large_from}};
  store_link_ = std::make_unique<StoreLink>(*this);
  Result<std::unique_ptr<store::StoreClient>> store = store::StoreClient::create(std::move(handles), *store_link_);
  if (!store.ok()) return store.error_ptr();
  store_ = *std::move(store);
  return {};
}

Core::~Core() { stop(); }

void Core::stop() {
  if (stop_called_.exchange(true)) return;
  stopped_.store(true);
  wake_service();
  if (service_.joinable()) service_.join();
  socket_ = UniqueFd();
}

void Core::begin_shutdown(ErrorPtr why) {
  CoreLock lock(*this);
  if (shutting_down()) return;
  shutdown_reason_ = std::move(why);
  shutting_down_.store(true, std::memory_order_release);
  requests_.fail_all([](ProcessId) { return true; }, shutdown_reason_);
  objects_->for_each([&](ObjectEntry& entry) {
    if (entry.state() == ObjectEntry::kPending && entry.waiters && !entry.producer) objects_->fail(entry, shutdown_reason_);
  });
  std::vector<std::uint64_t> open;
  calls_->for_each([&](PendingCall& call) { open.push_back(call.id); });
  for (std::uint64_t id : open)
    if (PendingCall* call = calls_->find(id); call && !call->cancelled) {
      calls_->fail_results(*call, shutdown_reason_);
      call->cancelled = true;
    }
  host_->shutdown();
}

void Core::cut_off() {
  if (cut_off_.exchange(true)) return;
  ::shutdown(socket_.get(), SHUT_RDWR);  // its daemon sees it
  auto end = [this] { begin_shutdown(make_error<CancelledError>("the worker was ended")); };
  if (CoreLock::held(*this)) defer(std::move(end));
  else end();
}

ErrorPtr Core::shutdown_reason() { return shutdown_reason_; }

void Core::warn(const std::string& text) { write_log(LogLevel::kWarn, "{}", text); }

// ------------------------------------------------------------------------------------------------------------ service thread

Timers::Id Core::add_timer(exec::Deadline when, std::function<void()> action) {
  auto [id, first] = timers_.add(when, std::move(action));
  if (first) wake_service();
  return id;
}

void Core::run_later(std::function<void()> callback) {
  callbacks_.push_back(std::move(callback));
  wake_service();
}

void Core::wake_service() {
  if (outlet_) return outlet_->wake();
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_.get(), &one, sizeof one);
}

void Core::service_loop() {
  set_thread_core(this);
  while (!stopped_.load()) {
    exec::Deadline next;
    {
      CoreLock lock(*this);
      next = timers_.next();
    }
    int timeout = -1;
    if (next != exec::kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - exec::Deadline::clock::now());
      timeout = int(std::clamp<std::int64_t>(left.count(), 0, 60'000));
    }
    pollfd fds[4] = {{endpoint_->service_fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {flush_timer_.get(), POLLIN, 0}};
    ::poll(fds, 4, timeout);  // ends with a message, a timer, or the daemon's end
    if (fds[2].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] auto got = ::read(wake_.get(), &count, sizeof count);
    }
    if (fds[3].revents) {
      std::uint64_t expired = 0;
      [[maybe_unused]] auto got = ::read(flush_timer_.get(), &expired, sizeof expired);
      flush_armed_.store(false);  // before the flush: what is dropped from now on arms anew
    }
    if (fds[1].revents) read_socket();
    if (fds[0].revents) endpoint_->service(*this);
    run_timers_and_callbacks();
    if (store_) store_->flush();
  }
}

void Core::run_timers_and_callbacks() {
  for (;;) {
    std::function<void()> callback;
    {
      CoreLock lock(*this);
      if (std::function<void()> action = timers_.take_expired(now())) {
        action();
        continue;
      }
      if (callbacks_.empty()) return;
      callback = std::move(callbacks_.front());
      callbacks_.pop_front();
    }
    try {
      callback();
    } catch (const std::exception& error) {
      warn(std::string("a callback threw: ") + error.what());
    } catch (...) {
      warn("a callback threw something that is no std::exception");
    }
  }
}

void Core::read_socket() {
  Result<node::Received> received = node::receive_packet(socket_.get());
  if (!received.ok() || received->state == node::Received::State::kClosed) {
    if (stopped_.load()) return;
    if (!is_driver_ && !options_.local) ::_exit(0);  // a worker does not outlive its daemon; nothing of it is to be kept
    if (options_.local) {
      cut_off();
      stopped_.store(true);
      return;
    }
    if (options_.on_daemon_lost) std::exchange(options_.on_daemon_lost, nullptr)();
    begin_shutdown(make_error<NodeDiedError>("the node daemon is gone"));
    stopped_.store(true);
    return;
  }
  if (received->state != node::Received::State::kPacket) return;
  if (received->packet.kind == wire::BootKind::kRankSocket) return on_rank_socket(std::move(received->packet));
  if (received->packet.kind != wire::BootKind::kPair) return;
  node::BootPacket& packet = received->packet;
  Result<wire::PairOffer> offer = wire::decode_message<wire::PairOffer>(packet.payload);
  if (!offer.ok() || packet.fds.size() < 3) return;
  CoreLock lock(*this);
  if (courier_.is_dead(offer->peer)) return;
  net::Attachment attachment{offer->peer, std::move(packet.fds[0]), offer->side, std::move(packet.fds[1]), std::move(packet.fds[2])};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok()) return warn(status.error().message());
  courier_.connected(offer->peer);
}

}  // namespace troupe::worker
