#include "core/executor/host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/caller/caller.h"
#include "core/executor/executors.h"
#include "core/executor/hosted_actor.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

namespace {
constexpr auto kRecallAfter = std::chrono::milliseconds(2);
/// between two looks whether a held caller takes its replies again
constexpr auto kRoomLook = std::chrono::milliseconds(20);
}

Host::Host(Runtime& runtime, Owner& owner, Caller& caller, Executors& executors)
    : runtime_(runtime),
      owner_(owner),
      caller_(caller),
      executors_(executors),
      replies_(runtime, owner),
      light_report_(runtime) {
  runtime.set_task_waits(*this);
}
Host::~Host() = default;

// ------------------------------------------------------------------------------------------------------------ arriving

IncomingPtr Host::parse(ProcessId ring, const net::FrameHeader& header, ByteView payload) {
  auto call = std::make_shared<IncomingCall>();
  FrameReader in(payload);
  call->head = in.get<CallHead>();
  if (in.failed()) call->head.call_id = header.arg0;  // whose call it is the header says, too
  call->source = header.source;
  call->ring = ring;
  call->stream_taken = header.arg1;
  call->begin_number = ring == runtime_.daemon() ? ++calls_from_daemon_ : header.token;  // the daemon has counted it
  call->name = in.text(call->head.name_size);
  call->key = in.text(call->head.key_size);
  call->group = in.text(call->head.group_size);
  if (const std::byte* bytes = in.take(call->head.resources_size); bytes && call->head.resources_size) {
    Result<wire::TaskGrant> grant = wire::decode_message<wire::TaskGrant>({bytes, call->head.resources_size});
    if (grant.ok()) {
      call->resources = std::move(grant->resources);
      call->gpu_ids = std::move(grant->gpu_ids);
    } else {
      in.fail();
    }
  }
  call->resources.cpus = call->head.cpus;
  const Arrival arrival = owner_.holds().begin(header.source, call->head.hold);
  call->arguments = owner_.values().read(in, arrival);
  if (call->head.dependencies <= in.left() / sizeof(ValueHead)) {
    call->dependencies.reserve(call->head.dependencies);
    for (std::uint32_t i = 0; i < call->head.dependencies; ++i)
      call->dependencies.push_back(owner_.values().read(in, arrival));
  } else {
    in.fail();
  }
  owner_.holds().end(arrival);
  if (in.failed()) {
    replies_.error(*call, make_error<SerializationError>("a call frame that does not decode"));
    return nullptr;
  }
  return call;
}

void Host::on_call(ProcessId ring, const net::FrameHeader& header, ByteView payload) {
  IncomingPtr call = parse(ring, header, payload);
  if (!call) return;
  if (call->head.kind == CallKind::kTask) return on_task(std::move(call));
  if (call->head.kind == CallKind::kConstructLight) return construct_light(std::move(call));
  auto found = actors_.find(call->head.actor);
  if (found == actors_.end()) {
    if (call->head.direct && is_to_come(call->head.actor)) return early_[call->head.actor].push_back(std::move(call));
    ErrorRecord record;
    record.code = ErrorCode::kActorDied;
    record.message = "the actor has ended";
    record.outcome = Outcome::kNotExecuted;
    return replies_.not_begun(*call, Error::make(std::move(record)));
  }
  found->second->arrived(std::move(call));
}

/// HO-5.
bool Host::is_to_come(ActorId actor) const {
  if (runtime_.frames().is_dead(actor.maker)) return false;
  auto made = last_made_.find(actor.maker);
  return made == last_made_.end() || actor.seq > made->second;
}

/// The maker died before it sent the frame that constructs them.
void Host::fail_early(const AreDead& dead) {
  std::vector<IncomingPtr> failed;
  erase_if(early_, [&](auto& one) {
    if (!dead(one.first.maker)) return false;
    for (auto& call : one.second) failed.push_back(std::move(call));
    return true;
  });
  erase_if(last_made_, [&](auto& one) { return dead(one.first); });
  ErrorRecord record;
  record.code = ErrorCode::kActorDied;
  record.message = "the process that was making the actor died";
  record.outcome = Outcome::kNotExecuted;
  for (auto& call : failed) replies_.error(*call, Error::make(record));
  erase_if(ended_early_, [&](auto& one) { return dead(one.first.maker); });
}

void Host::on_task(IncomingPtr call) {
  if (call->head.shared && executors_.takes_tasks()) {
    beside_.push_back(call);
    return executors_.run_beside([this, call = std::move(call)] { executors_.run(call, nullptr); });
  }
  tasks_.push_back(std::move(call));
  if (!executors_.takes_tasks()) return give_back_tasks();  // HO-4
  if (spent_lease_ != 0 && tasks_.back()->head.lease == spent_lease_) return give_back_tasks();  // HO-6
  if (!current_task_) return executors_.work_queued();
  const bool waits = current_task_->running && current_task_->running->waiting;
  if (waits || runtime_.now() - current_since_ > kRecallAfter) give_back_tasks();
  else arm_recall();
}

void Host::arm_recall() {
  if (recall_timer_) return;
  recall_timer_ = true;
  runtime_.add_timer(runtime_.deadline_after(kRecallAfter), [this] {
    recall_timer_ = false;
    if (tasks_.empty() || !current_task_) return;
    if (runtime_.now() - current_since_ >= kRecallAfter) give_back_tasks();
    else arm_recall();
  });
}

void Host::task_waits() {
  CoreLock lock(runtime_);
  give_back_tasks();
}

void Host::lease_spent(std::uint64_t lease) {
  spent_lease_ = lease;
  give_back_tasks();
}

void Host::task_blocked(CallContext& context, bool blocked) {
  context.lent |= blocked;
  if (context.is_task)
    runtime_.frames().notice(runtime_.daemon(), wire::Method::kWorkerBlocked,
                             wire::WorkerBlocked{context.lease, blocked});
}

void Host::give_back_tasks() {
  while (!tasks_.empty()) {
    const ProcessId source = tasks_.front()->source;
    std::vector<std::uint64_t> ids;
    for (auto at = tasks_.begin(); at != tasks_.end();) {
      if ((*at)->source != source) { ++at; continue; }
      ids.push_back((*at)->head.call_id);
      at = tasks_.erase(at);
    }
    runtime_.frames().control(source, Control::kRecalled, 0, 0, std::as_bytes(std::span(ids)));
  }
}

void Host::note_begun(const IncomingCall& call) { runtime_.transport().set_begun(call.ring, call.begin_number); }

void Host::link_admitted(IncomingCall& call) {
  call.next_admitted = admitted_;
  if (admitted_) admitted_->previous_admitted = &call;
  admitted_ = &call;
}

void Host::unlink_admitted(IncomingCall& call) {
  (call.previous_admitted ? call.previous_admitted->next_admitted : admitted_) = call.next_admitted;
  if (call.next_admitted) call.next_admitted->previous_admitted = call.previous_admitted;
  call.next_admitted = call.previous_admitted = nullptr;
}

IncomingPtr Host::find_running(ProcessId source, std::uint64_t call_id) {
  for (const auto& call : running_)
    if (call->source == source && call->head.call_id == call_id) return call;
  return nullptr;
}

// --------------------------------------------------------------------------------------------------------- controlling

void Host::cancel(ProcessId source, std::uint64_t call_id, std::uint64_t flags) {
  const ErrorPtr error = flags & kCancelDeadline
                             ? ErrorPtr(make_error<DeadlineExceededError>("the call did not end within its timeout"))
                             : ErrorPtr(make_error<CancelledError>("the call was cancelled"));
  auto is_it = [&](const IncomingPtr& call) { return call->source == source && call->head.call_id == call_id; };
  if (auto found = std::find_if(tasks_.begin(), tasks_.end(), is_it); found != tasks_.end()) {
    IncomingPtr call = *found;
    tasks_.erase(found);
    return replies_.error(*call, error);
  }
  for (auto& [id, actor] : actors_)
    if (actor->drop_queued(source, call_id, error)) return;
  drop_admitted([&](const IncomingCall& call) { return call.source == source && call.head.call_id == call_id; }, error);
  IncomingPtr call = find_running(source, call_id);
  if (!call && current_task_ && is_it(current_task_)) current_task_->dropped = true;  // taken, not yet running
  for (const auto& beside : beside_)
    if (is_it(beside)) beside->dropped = true;
  for (auto& [actor, calls] : early_)
    if (auto found = std::find_if(calls.begin(), calls.end(), is_it); found != calls.end()) {
      IncomingPtr early = *found;
      calls.erase(found);
      return replies_.error(*early, error);
    }
  if (!call || !call->running) return;
  if ((flags & kCancelForce) && call->head.kind == CallKind::kTask) {
    return executors_.kill_process();
  }
  const std::uint64_t run = call->running->run;
  interrupt(*call->running, error);
  if (!(flags & kCancelRecursive)) return;
  caller_.cancel_children(run);
}

void Host::stream_credit(ProcessId source, std::uint64_t call_id, std::uint64_t taken) {
  if (IncomingPtr call = find_running(source, call_id)) {
    call->stream_taken = std::max(call->stream_taken, taken);
    if (call->running && call->running->waiting) call->running->waiting->notify();
  }
}

void Host::stream_dropped(ProcessId source, std::uint64_t call_id) {
  if (IncomingPtr call = find_running(source, call_id)) {
    if (!call->head.stream) return;  // what runs without one has no reader
    call->dropped = true;
    if (call->running) interrupt(*call->running, make_error<CancelledError>("the stream's reader is gone"));
  } else {
    cancel(source, call_id, 0);
  }
}

/// HO-8: nobody has a use for the rest of it.
bool Host::ends_with_source(const IncomingCall& call) {
  return call.head.kind == CallKind::kTask || call.head.stream;
}

void Host::forget_sources(const AreDead& dead) {
  fail_early(dead);
  std::erase_if(tasks_, [&](auto& call) { return dead(call->source); });
  for (const auto& call : running_) {
    if (!dead(call->source) || !ends_with_source(*call)) continue;
    if (call->head.stream) call->dropped = true;
    if (call->running)
      interrupt(*call->running, make_error<CancelledError>("the task's submitter died"));
  }
}

void Host::shutdown() {
  ending_ = true;
  for (const auto& call : running_)
    if (call->running) interrupt(*call->running, make_error<CancelledError>("the job ends"));
  executors_.stop();
}

bool Host::idle() const {
  return tasks_.empty() && beside_.empty() && early_.empty() && running_.empty() && actors_.empty() &&
         !owner_.objects().has_borrowers() && caller_.calls().open() == 0 && caller_.untaken().size() == 0 &&
         caller_.creation().held_back() == 0 &&
         owner_.holds().held() == 0 && !runtime_.frames().any_held();
}

void Host::describe_tasks(wire::StateReply& reply) {
  auto row = [&](const IncomingCall& call, const char* state) {
    const detail::FunctionNode* node = detail::function_at(call.head.function);
    reply.rows.push_back({{"task_id", task_id_text(call.source, call.head.call_id)},
                          {"name", !call.name.empty() ? call.name : node ? detail::function_name(*node) : ""},
                          {"state", state},
                          {"node_id", runtime_.welcome().node_id},
                          {"actor_id", call.head.actor.is_nil() ? "" : to_string(call.head.actor)},
                          {"error", ""},
                          {"pid", std::to_string(::getpid())},
                          {"attempt", std::to_string(call.head.attempt)}});
  };
  for (const auto& call : running_) row(*call, "RUNNING");
  for (const auto& call : tasks_) row(*call, "QUEUED");
}

// ------------------------------------------------------------------------------------------------------------- running

void Host::queue_work(std::function<void()> work) {
  runnable_.push_back(std::move(work));
  executors_.work_queued();
}

bool Host::next_work(std::function<void()>& work) {
  if (!runnable_.empty()) {
    work = std::move(runnable_.front());
    runnable_.pop_front();
    return true;
  }
  if (current_task_) return false;
  auto next = tasks_.begin();
  while (next != tasks_.end() && is_held((*next)->source)) ++next;  // HO-7
  if (next == tasks_.end()) return false;
  current_task_ = std::move(*next);
  tasks_.erase(next);
  if (!tasks_.empty()) arm_recall();  // they came together: this one may be a long one (HO-2)
  work = [this, call = current_task_] { executors_.run(call, nullptr); };
  return true;
}

exec::Deadline Host::begin_run(const IncomingPtr& call, HostedActor* actor, CallContext& context) {
  context.runtime = &runtime_;
  context.submitter = call->source;
  context.call_id = call->head.call_id;
  context.function = detail::function_at(call->head.function);
  context.name = call->name;
  context.is_task = call->head.kind == CallKind::kTask;
  context.lease = call->head.lease;
  context.actor = actor;
  context.attempt = actor ? actor->restarts() : int(call->head.attempt);
  context.resources = actor ? actor->resources() : call->resources;
  const exec::Deadline start = runtime_.now();
  CoreLock lock(runtime_);
  context.gpu_ids = actor ? actor->gpu_ids() : call->gpu_ids;
  context.run = next_run();
  context.caller = actor ? actor->caller_key() : context.run << 20 | 1;
  call->running = &context;
  running_.push_back(call);
  if (actor) unlink_admitted(*call);
  if (call == current_task_) current_since_ = start;
  if (call->head.shared) std::erase(beside_, call);
  if (ends_with_source(*call) && runtime_.frames().is_dead(call->source)) call->dropped = true;  // HO-8
  note_begun(*call);
  return start;
}

void Host::never_runs(IncomingCall& call, HostedActor* actor) {
  if (!actor) return;
  CoreLock lock(runtime_);
  unlink_admitted(call);
}

void Host::end_run(const IncomingPtr& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation,
                   const ErrorPtr& error) {
  CoreLock lock(runtime_);
  call->lent = context.is_task && context.lent;
  if (call->lent && !call->head.shared) lease_spent(call->head.lease);
  const ErrorPtr failed =
      error || call->head.kind == CallKind::kCast ? error : replies_.too_large(*call, context, invocation.results);
  answer(*call, actor, invocation, failed);
  call->running = nullptr;
  std::erase(running_, call);
  if (call == current_task_) current_task_ = nullptr;
  if (actor) actor->finished(*call, context.exit_asked);
}

void Host::answer(IncomingCall& call, HostedActor* actor, detail::Invocation& invocation, const ErrorPtr& error) {
  // The arguments go now, so that what they hold is free before the caller goes on.
  call.arguments = {};
  call.dependencies.clear();
  if (error) {
    if (call.head.kind == CallKind::kCast) write_log(LogLevel::kError, "a cast failed: {}", std::string(error->what()));
    if (actor) actor->remember(call, nullptr);
    replies_.error(call, error);
    replied(call.source, ReplyRoom::kLarge);
  } else {
    if (actor) actor->remember(call, &invocation.results);
    replied(call.source, replies_.values(call, invocation.results));
  }
}

// ------------------------------------------------------------------------------------------------- held callers (HO-7)

void Host::look_at_room(ProcessId caller) {
  const bool was_any = room_.any();
  if (!room_.waits(caller, runtime_.frames().backlog(caller)) || was_any) return;
  runtime_.add_timer(runtime_.deadline_after(kRoomLook), [this] { look_at_held(); });
}

void Host::look_at_held() {
  const std::vector<ProcessId> open =
      room_.look([this](ProcessId caller) { return runtime_.frames().backlog(caller); });
  if (room_.any()) runtime_.add_timer(runtime_.deadline_after(kRoomLook), [this] { look_at_held(); });
  if (open.empty()) return;
  for (const auto& call : running_)  // generators that wait before their next item
    if (call->head.stream && call->running && call->running->waiting) call->running->waiting->notify();
  std::vector<ActorId> ids;
  for (const auto& [id, actor] : actors_) ids.push_back(id);
  for (ActorId id : ids)
    if (HostedActor* actor = hosted(id)) actor->callers_let_go();
  if (!tasks_.empty()) executors_.work_queued();
}

// -------------------------------------------------------------------------------------------------------------- actors

void Host::construct(wire::ConstructActor message) {
  const ActorId id = message.spec.id;
  auto& place = actors_[id];
  if (!place) {
    place = std::make_unique<HostedActor>(*this, std::move(message));
    return place->start();
  }
  if (message.restarts <= place->restarts()) return;
  auto next = next_lives_.find(id);
  if (next != next_lives_.end() && message.restarts <= next->second->restarts()) return;
  end_next_life(id, DeathCause::kKilled, "another life of it took its place before it began");
  next_lives_[id] = std::make_unique<HostedActor>(*this, std::move(message));
}

/// HO-10
void Host::end_next_life(ActorId actor, DeathCause cause, const std::string& message) {
  auto found = next_lives_.find(actor);
  if (found == next_lives_.end()) return;
  found->second->end_unbegun(cause, message);
  next_lives_.erase(found);
}

void Host::construct_light(IncomingPtr call) {
  const ActorId id = call->head.actor;
  auto& place = actors_[id];
  if (place)
    return replies_.error(*call, make_error<InvalidArgumentError>("the actor " + to_string(id) + " is here already"));
  if (!light_spec_) {
    auto spec = std::make_shared<wire::ActorSpec>();
    spec->job = runtime_.welcome().job;
    spec->name_space = runtime_.welcome().name_space;
    spec->isolation = Isolation::kLight;
    light_spec_ = std::move(spec);
  }
  std::uint64_t& last = last_made_[id.maker];
  last = std::max(last, id.seq);
  if (auto ended = ended_early_.find(id); ended != ended_early_.end()) return not_constructed(*call, ended->second);
  note_begun(*call);
  light_report_.started(id, call->head.function);
  place = std::make_unique<HostedActor>(*this, id, light_spec_, std::move(call));
  place->start();
  auto early = early_.find(id);
  if (early == early_.end()) return;
  const std::vector<IncomingPtr> calls = std::move(early->second);
  early_.erase(early);
  for (const auto& waiting : calls) actors_[id]->arrived(waiting);
}

/// HO-9. Its maker and the head hold it for dead already.
void Host::not_constructed(IncomingCall& construction, ErrorPtr why) {
  const ActorId id = construction.head.actor;
  actors_.erase(id);
  ended_early_.erase(id);
  replies_.error(construction, why);
  auto early = early_.find(id);
  if (early == early_.end()) return;
  const std::vector<IncomingPtr> calls = std::move(early->second);
  early_.erase(early);
  for (const auto& call : calls) replies_.not_begun(*call, why);
}

void Host::interrupt_calls(HostedActor& actor, const ErrorPtr& unbegun, const ErrorPtr& begun) {
  drop_admitted([&](const IncomingCall& call) { return call.head.actor == actor.id(); }, unbegun);
  for (const auto& call : running_)
    if (call->running && call->running->actor == &actor) interrupt_anew(*call->running, begun);
}

void Host::handles_gone(ActorId id) {
  end_next_life(id, DeathCause::kFinished, "its last handle is gone");
  if (auto found = actors_.find(id); found != actors_.end()) found->second->end_when_idle();
}

void Host::end_actor(const wire::EndActor& message) {
  const auto is_meant = [&](const HostedActor& life) {
    return message.restarts < 0 || life.restarts() == message.restarts;
  };
  if (auto found = actors_.find(message.actor); found != actors_.end()) {
    if (auto next = next_lives_.find(message.actor); next != next_lives_.end() && is_meant(*next->second))
      end_next_life(message.actor, message.cause, message.message);
    if (is_meant(*found->second)) found->second->kill(message.cause, message.message);
    return;
  }
  if (!message.unheard || !is_to_come(message.actor)) return;
  ErrorRecord record;
  record.code = ErrorCode::kActorDied;
  record.message = message.message;
  record.outcome = Outcome::kNotExecuted;
  ended_early_.emplace(message.actor, Error::make(std::move(record)));  // HO-9
}

void Host::exit_current_actor() {
  CallContext* context = current_context();
  if (!context || !context->actor) throw InvalidArgumentError("exit_actor is for methods of actors");
  context->exit_asked = true;
}

/// The thread that ends it may still be inside: it is destroyed when the lock is let go.
void Host::actor_ended(HostedActor& actor) {
  const ActorId id = actor.id();
  auto found = actors_.find(id);
  if (found == actors_.end()) return;
  const bool own_process = !actor.light();
  {
    std::lock_guard lock(parting_mutex_);
    ++parting_;
  }
  runtime_.defer([this, dead = std::shared_ptr<HostedActor>(std::move(found->second))]() mutable {
    dead.reset();
    std::lock_guard lock(parting_mutex_);
    --parting_;
    parted_.notify_all();
  });
  actors_.erase(found);
  if (auto next = next_lives_.find(id); next != next_lives_.end()) {  // HO-10
    auto& place = actors_[id] = std::move(next->second);
    next_lives_.erase(next);
    place->start();
  }
  if (!own_process) return;
  ending_ = true;
  executors_.stop();
}

void Host::join_actors() {
  std::vector<const HostedActor*> left;
  {
    CoreLock lock(runtime_);
    for (auto& [id, actor] : actors_) left.push_back(actor.get());
  }
  for (const HostedActor* actor : left) executors_.join_threads(actor);  // one may end meanwhile by its own last call
  std::unique_lock lock(parting_mutex_);
  // those that end now: by their own threads, which return from it
  parted_.wait(lock, [this] { return parting_ == 0; });
}

void Host::clear() {
  tasks_.clear();
  runnable_.clear();
  current_task_ = nullptr;
  beside_.clear();
  early_.clear();
  ended_early_.clear();
  admitted_ = nullptr;
  running_.clear();
  for (auto* lives : {&actors_, &next_lives_}) {
    runtime_.defer([dead = std::make_shared<decltype(actors_)>(std::move(*lives))] {});
    lives->clear();
  }
}

}  // namespace troupe::worker
