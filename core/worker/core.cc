#include "core/worker/core.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/worker/actor_clients.h"
#include "core/worker/buffers.h"
#include "core/worker/host.h"
#include "core/worker/log_printer.h"
#include "core/worker/objects.h"
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

void Core::drop(ObjectEntry& entry) noexcept {
  if (CoreLock::held(*this)) {
    dropped_objects_.push_back(&entry);
    return;
  }
  CoreLock lock(*this);
  objects_->dropped(entry);
}

void Core::drop(BufferEntry& entry) noexcept {
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
  if (stopped_.exchange(true)) return;
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
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_.get(), &one, sizeof one);
}

void Core::service_loop() {
  set_process_core(this);
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
    pollfd fds[3] = {{endpoint_->service_fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    ::poll(fds, 3, timeout);  // ends with a message, a timer, or the daemon's end
    if (fds[2].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] auto got = ::read(wake_.get(), &count, sizeof count);
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
      if (std::function<void()> action = timers_.take_expired(exec::Deadline::clock::now())) {
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
    if (!is_driver_) ::_exit(0);  // a worker does not outlive its daemon; nothing of it is to be kept
    if (options_.on_daemon_lost) std::exchange(options_.on_daemon_lost, nullptr)();
    begin_shutdown(make_error<NodeDiedError>("the node daemon is gone"));
    stopped_.store(true);
    return;
  }
  if (received->state != node::Received::State::kPacket || received->packet.kind != wire::BootKind::kPair) return;
  node::BootPacket& packet = received->packet;
  Result<wire::PairOffer> offer = wire::decode_message<wire::PairOffer>(packet.payload);
  if (!offer.ok() || packet.fds.size() < 3) return;
  CoreLock lock(*this);
  if (courier_.is_dead(offer->peer)) return;
  net::Attachment attachment{offer->peer, std::move(packet.fds[0]), offer->side, std::move(packet.fds[1]), std::move(packet.fds[2])};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok()) return warn(status.error().message());
  courier_.connected(offer->peer);
}

// ----------------------------------------------------------------------------------------------------------------- messages

void Core::on_broken(ProcessId peer, const ErrorPtr& why) { warn("the ring with " + to_string(peer) + " is broken: " + why->message()); }

void Core::on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) {
  CoreLock lock(*this);
  FrameReader in(payload);
  switch (wire::FrameKind(header.kind)) {
    case wire::FrameKind::kRequest: return on_request(header, payload);
    case wire::FrameKind::kResponse: return requests_.on_response(header, payload);
    case wire::FrameKind::kNotice: return on_notice(header, payload);
    case wire::FrameKind::kCall: return host_->on_call(from, header, payload);
    case wire::FrameKind::kReply: {
      const ReplyHead head = in.get<ReplyHead>();
      PendingCall* call = in.failed() ? nullptr : calls_->find(head.call_id);
      if (!call || call->state != PendingCall::State::kSent || call->target != header.source) return;
      return call->kind == CallKind::kTask ? tasks_->on_reply(*call, head, in, header.source) : actors_->on_reply(*call, head, in, header.source);
    }
    case wire::FrameKind::kStreamItem: {
      const ReplyHead head = in.get<ReplyHead>();
      const std::uint64_t arrival = transit_->begin_arrival(header.source, head.hold);
      detail::Value value = transit_->read(in, arrival);
      transit_->end_arrival(arrival);
      PendingCall* call = in.failed() ? nullptr : calls_->find(head.call_id);
      if (call && call->stream) call->stream->item(head.index, std::move(value));
      return;
    }
    case wire::FrameKind::kValueRequest: return transit_->on_value_request(header, payload);
    case wire::FrameKind::kValue: return transit_->on_value(header, payload);
    case wire::FrameKind::kControl: return on_control(header, payload);
  }
}

void Core::on_control(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  switch (Control(header.arg0)) {
    case Control::kRelease:
      while (in.left() >= sizeof(ObjectId) + 8) {
        const ObjectId id = in.get<ObjectId>();
        objects_->released(header.source, id, std::uint32_t(in.get<std::uint64_t>()));
      }
      return;
    case Control::kBorrow:
      while (in.left() >= sizeof(ObjectId)) {
        const ObjectId id = in.get<ObjectId>();
        if (ObjectEntryPtr entry = objects_->find_owned(id)) objects_->grant(*entry, header.source);
        courier_.control(header.source, Control::kBorrowed, 0, 0, std::as_bytes(std::span(&id, 1)));
      }
      return;
    case Control::kBorrowed:
      if (const ObjectId id = in.get<ObjectId>(); !in.failed()) transit_->borrowed(id);
      return;
    case Control::kHoldAck: return transit_->acknowledged(payload);
    case Control::kCancel: return host_->cancel(header.source, header.arg1, header.arg2);
    case Control::kCancelObject:
      if (const ObjectId id = in.get<ObjectId>(); !in.failed())
        if (ObjectEntryPtr entry = objects_->find_owned(id)) cancel_entry(*entry, {(header.arg2 & kCancelForce) != 0, (header.arg2 & kCancelRecursive) != 0});
      return;
    case Control::kRecalled:
      while (in.left() >= 8)
        if (PendingCall* call = calls_->find(in.get<std::uint64_t>()); call && call->kind == CallKind::kTask) tasks_->on_recalled(*call);
      return;
    case Control::kStreamCredit: return host_->stream_credit(header.source, header.arg1, header.arg2);
    case Control::kStreamDrop: return host_->stream_dropped(header.source, header.arg1);
  }
}

void Core::cancel_entry(ObjectEntry& entry, const CancelOptions& options) {
  if (!entry.owned) {
    const std::uint64_t flags = (options.force ? kCancelForce : 0) | (options.recursive ? kCancelRecursive : 0);
    return courier_.control(entry.id.maker, Control::kCancelObject, 0, flags, std::as_bytes(std::span(&entry.id, 1)));
  }
  PendingCall* call = entry.producer;
  if (!call) return;
  if (call->kind == CallKind::kTask) tasks_->cancel(*call, options);
  else actors_->cancel(*call, options);
}

void Core::on_request(const net::FrameHeader& header, ByteView payload) {
  net::FrameHeader answer;
  answer.kind = std::uint8_t(wire::FrameKind::kResponse);
  answer.token = header.token;
  if (wire::Method(header.arg0) == wire::Method::kQueryState) {
    wire::StateReply reply;
    if (Result<wire::StateQuery> query = wire::decode_message<wire::StateQuery>(payload); query.ok()) describe_state(*query, reply);
    return courier_.send(header.source, answer, wire::encode_message(reply));
  }
  answer.arg0 = 1;
  courier_.send(header.source, answer, wire::encode_message(InvalidArgumentError(fmt::format("a worker does not answer method {}", header.arg0)).record()));
}

void Core::on_notice(const net::FrameHeader& header, ByteView payload) {
  auto with = [&]<class M>(std::type_identity<M>, auto&& use) {
    if (Result<M> message = wire::decode_message<M>(payload); message.ok()) use(*std::move(message));
    else warn(message.error().message());
  };
  switch (wire::Method(header.arg0)) {
    case wire::Method::kLeaseGranted: return with(std::type_identity<wire::LeaseGranted>{}, [&](auto m) { tasks_->on_granted(m); });
    case wire::Method::kLeaseRefused: return with(std::type_identity<wire::LeaseRefused>{}, [&](auto m) { tasks_->on_refused(m); });
    case wire::Method::kProcessDied: return with(std::type_identity<wire::ProcessDied>{}, [&](auto m) { on_process_died(m); });
    case wire::Method::kNodeDied: return with(std::type_identity<wire::NodeDied>{}, [&](auto m) { on_node_died(m); });
    case wire::Method::kActorMoved: return with(std::type_identity<wire::ActorLocation>{}, [&](auto m) { actors_->on_moved(m); });
    case wire::Method::kConstructActor: return with(std::type_identity<wire::ConstructActor>{}, [&](auto m) { host_->construct(std::move(m)); });
    case wire::Method::kActorHandlesGone: return with(std::type_identity<wire::ResolveActor>{}, [&](auto m) { host_->handles_gone(m.actor); });
    case wire::Method::kEndActor: return with(std::type_identity<wire::EndActor>{}, [&](auto m) { host_->end_actor(m); });
    case wire::Method::kLogLines: return with(std::type_identity<wire::LogLines>{}, [&](auto m) { print_log_lines(m); });
    case wire::Method::kWarning: return with(std::type_identity<wire::WarningText>{}, [&](auto m) { print_warning(m.text); });
    case wire::Method::kShutdown:
    case wire::Method::kJobEnding:
    case wire::Method::kProcessRetire:
      if (is_driver_) return;
      if (wire::Method(header.arg0) == wire::Method::kProcessRetire && !host_->idle()) return;
      return host_->shutdown();
    default: return;
  }
}

void Core::on_process_died(const wire::ProcessDied& died) {
  if (courier_.is_dead(died.process) || died.process == self()) return;
  std::uint64_t begun = 0;
  if (died.process.node == self().node) {
    // What it had published comes first; the handler locks for itself.
    begun = endpoint_->begun(died.process);
    locked_core = nullptr;
    mutex_.unlock();
    endpoint_->drain_and_close(died.process, *this);
    mutex_.lock();
    locked_core = this;
  } else {
    for (auto& [source, number] : died.begun)
      if (source == self()) begun = number;
  }
  courier_.process_died(died.process);
  const ErrorPtr dead = make_error<WorkerCrashedError>("the process " + to_string(died.process) + " died: " + died.reason);
  requests_.fail_all([&](ProcessId to) { return to == died.process; }, dead);
  transit_->process_died(died.process);
  objects_->process_died(died.process, [&] {
    return make_error<OwnerDiedError>(fmt::format("the owner of the object, process {} (pid {}), died: {}", to_string(died.process), died.pid, died.reason));
  });
  tasks_->process_died(died, begun);
  actors_->process_died(died, begun);
  host_->source_died(died.process);
  courier_.notice(daemon(), wire::Method::kProcessDiedAck, wire::ConnectRequest{died.process});
}

void Core::on_node_died(const wire::NodeDied& died) {
  ErrorRecord record;
  record.code = ErrorCode::kNodeDied;
  record.message = fmt::format("node {} died: {}", died.node_id, died.reason);
  record.context.node = died.node_id;
  const ErrorPtr error = Error::make(std::move(record));
  requests_.fail_all([&](ProcessId to) { return to.node == died.node && to != kHead; }, error);
  transit_->node_died(died.node);
  objects_->node_died(died.node, [&] { return make_error<OwnerDiedError>("the owner of the object was on a node that died: " + error->message()); });
  tasks_->node_died(died.node, error);
  actors_->node_died(died.node, error);
}

// -------------------------------------------------------------------------------------------------------------------- state

void Core::describe_state(const wire::StateQuery& query, wire::StateReply& reply) {
  if (query.kind == wire::StateKind::kTasks) {
    host_->describe_tasks(reply);
    calls_->for_each([&](PendingCall& call) {
      if (call.kind != CallKind::kTask || call.state == PendingCall::State::kSent) return;
      reply.rows.push_back({{"task_id", task_id_text(self(), call.id)}, {"name", calls_->name_of(call)},
                            {"state", call.state == PendingCall::State::kWaiting ? "PENDING_ARGUMENTS" : "PENDING"},
                            {"node_id", ""}, {"actor_id", ""}, {"error", ""}, {"pid", "0"}, {"attempt", std::to_string(call.attempt)}});
    });
    for (const auto& done : calls_->finished())
      reply.rows.push_back({{"task_id", done.task_id}, {"name", done.name}, {"state", done.state}, {"node_id", ""}, {"actor_id", done.actor_id},
                            {"error", done.error}, {"pid", "0"}, {"attempt", std::to_string(done.attempt)}});
  } else if (query.kind == wire::StateKind::kObjects) {
    objects_->for_each([&](ObjectEntry& entry) {
      if (!entry.owned || (query.limit >= 0 && reply.rows.size() >= std::size_t(query.limit) && query.filter.empty())) return;
      std::uint64_t size = entry.value.size();
      if (entry.state() == ObjectEntry::kReady && entry.value.attachments)
        for (const auto& buffer : entry.value.attachments->buffers) size += buffer->size();
      const char* state = entry.state() == ObjectEntry::kReady ? "READY" : entry.state() == ObjectEntry::kFailed ? "FAILED" : "PENDING";
      reply.rows.push_back({{"object_id", to_string(entry.id)}, {"state", state}, {"node_id", welcome_.node_id}, {"size", std::to_string(size)},
                            {"refs", std::to_string(entry.use_count())}});
    });
  }
}

}  // namespace troupe::worker
