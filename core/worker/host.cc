// The calls of a Host: taken in, controlled, executed. Its actors are in host_actors.cc, the run of one call in runner.cc.
#include "core/worker/host.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/worker/actor_clients.h"
#include "core/worker/core.h"
#include "core/worker/hosted_actor.h"
#include "core/worker/outlet.h"
#include "core/worker/task_submitter.h"
#include "core/worker/waits.h"

namespace troupe::worker {

namespace {
constexpr auto kRecallAfter = std::chrono::milliseconds(2);
}

Host::Host(Core& core) : core_(core) {}
Host::~Host() = default;

exec::FiberThread& Host::main_fibers() {
  if (!main_fibers_) {
    main_fibers_ = std::make_unique<exec::FiberThread>(core_, exec::FiberThread::Options{.stack_size = std::max<std::size_t>(core_.welcome().stack_size, 64 << 10)});
    wake_executors();
  }
  return *main_fibers_;
}

// ----------------------------------------------------------------------------------------------------------------- arriving

IncomingPtr Host::parse(ProcessId ring, const net::FrameHeader& header, ByteView payload) {
  auto call = std::make_shared<IncomingCall>();
  FrameReader in(payload);
  call->head = in.get<CallHead>();
  call->source = header.source;
  call->ring = ring;
  call->stream_taken = header.arg1;
  call->begin_number = ring == core_.daemon() ? ++calls_from_daemon_ : header.token;
  call->name = in.text(call->head.name_size);
  call->key = in.text(call->head.key_size);
  call->group = in.text(call->head.group_size);
  if (call->head.resources_size) {
    Result<Resources> resources = wire::decode_message<Resources>({in.take(call->head.resources_size), call->head.resources_size});
    if (resources.ok()) call->resources = *std::move(resources);
  }
  call->resources.cpus = call->head.cpus;
  const std::uint64_t arrival = core_.transit().begin_arrival(header.source, call->head.hold);
  call->arguments = core_.transit().read(in, arrival);
  if (call->head.dependencies <= in.left() / sizeof(ValueHead)) {
    call->dependencies.reserve(call->head.dependencies);
    for (std::uint32_t i = 0; i < call->head.dependencies; ++i) call->dependencies.push_back(core_.transit().read(in, arrival));
  } else {
    in.fail();
  }
  core_.transit().end_arrival(arrival);
  if (in.failed()) {
    reply_error(*call, make_error<SerializationError>("a call frame that does not decode"));
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
    ErrorRecord record;
    record.code = ErrorCode::kActorDied;
    record.message = "the actor has ended";
    record.outcome = Outcome::kNotExecuted;
    return reply_error(*call, Error::make(std::move(record)));
  }
  found->second->arrived(std::move(call));
}

void Host::on_task(IncomingPtr call) {
  tasks_.push_back(std::move(call));
  if (main_fibers_) return give_back_locked();  // HO-4
  if (!current_task_) return wake_executors();
  const bool waits = current_task_->running && current_task_->running->waiting;
  if (waits || core_.now() - current_since_ > kRecallAfter) give_back_locked();
  else arm_recall();
}

void Host::arm_recall() {
  if (recall_timer_) return;
  recall_timer_ = true;
  core_.add_timer(core_.deadline_after(kRecallAfter), [this] {
    recall_timer_ = false;
    if (tasks_.empty() || !current_task_) return;
    if (core_.now() - current_since_ >= kRecallAfter) give_back_locked();
    else arm_recall();
  });
}

void Host::give_back_queue() {
  CoreLock lock(core_);
  give_back_locked();
}

void Host::give_back_locked() {
  while (!tasks_.empty()) {
    const ProcessId source = tasks_.front()->source;
    std::vector<std::uint64_t> ids;
    for (auto at = tasks_.begin(); at != tasks_.end();) {
      if ((*at)->source != source) { ++at; continue; }
      ids.push_back((*at)->head.call_id);
      at = tasks_.erase(at);
    }
    core_.courier().control(source, Control::kRecalled, 0, 0, std::as_bytes(std::span(ids)));
  }
}

void Host::note_begun(const IncomingCall& call) {
  if (Outlet* outlet = core_.outlet()) [[unlikely]] return outlet->set_begun(call.ring, call.begin_number);
  core_.endpoint().set_begun(call.ring, call.begin_number);
}

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

// --------------------------------------------------------------------------------------------------------------- controlling

void Host::cancel(ProcessId source, std::uint64_t call_id, std::uint64_t flags) {
  const ErrorPtr error = flags & kCancelDeadline ? ErrorPtr(make_error<DeadlineExceededError>("the call did not end within its timeout"))
                                                 : ErrorPtr(make_error<CancelledError>("the call was cancelled"));
  auto is_it = [&](const IncomingPtr& call) { return call->source == source && call->head.call_id == call_id; };
  if (auto found = std::find_if(tasks_.begin(), tasks_.end(), is_it); found != tasks_.end()) {
    IncomingPtr call = *found;
    tasks_.erase(found);
    return reply_error(*call, error);
  }
  for (auto& [id, actor] : actors_)
    if (actor->drop_queued(source, call_id, error)) return;
  drop_admitted([&](const IncomingCall& call) { return call.source == source && call.head.call_id == call_id; }, error);
  IncomingPtr call = find_running(source, call_id);
  if (!call && current_task_ && is_it(current_task_)) current_task_->dropped = true;  // taken, not yet running
  if (!call || !call->running) return;
  if ((flags & kCancelForce) && call->head.kind == CallKind::kTask) {
    if (Outlet* outlet = core_.outlet()) return outlet->end_process(true);
    if (core_.is_local()) return core_.cut_off();
    ::kill(::getpid(), SIGKILL);
  }
  const std::uint64_t run = call->running->run;
  interrupt(*call->running, error);
  if (!(flags & kCancelRecursive)) return;
  std::vector<std::uint64_t> children;
  core_.calls().for_each([&](PendingCall& child) { if (child.parent == run) children.push_back(child.id); });
  for (std::uint64_t id : children) {
    PendingCall* child = core_.calls().find(id);
    if (!child) continue;
    if (child->kind == CallKind::kTask) core_.tasks().cancel(*child, {});
    else if (child->kind == CallKind::kActorCall) core_.actors().cancel(*child, {});
  }
}

void Host::stream_credit(ProcessId source, std::uint64_t call_id, std::uint64_t taken) {
  if (IncomingPtr call = find_running(source, call_id)) {
    call->stream_taken = std::max(call->stream_taken, taken);
    if (call->running && call->running->waiting) call->running->waiting->notify();
  }
}

void Host::stream_dropped(ProcessId source, std::uint64_t call_id) {
  if (IncomingPtr call = find_running(source, call_id)) {
    call->dropped = true;
    if (call->running) interrupt(*call->running, make_error<CancelledError>("the stream's reader is gone"));
  } else {
    cancel(source, call_id, 0);
  }
}

/// Whoever asked for these is gone: nobody wants the answers.
void Host::source_died(ProcessId source) {
  std::erase_if(tasks_, [&](auto& call) { return call->source == source; });
  for (const auto& call : running_) {
    if (call->source != source) continue;
    if (call->head.stream) call->dropped = true;
    if (call->running && (call->head.kind == CallKind::kTask || call->head.stream)) interrupt(*call->running, make_error<CancelledError>("the task's submitter died"));
  }
}

void Host::task_blocked(CallContext& context, bool blocked) {
  if (context.is_task) core_.courier().notice(core_.daemon(), wire::Method::kWorkerBlocked, wire::WorkerBlocked{blocked});
}

void Host::end_process() {
  ending_ = true;
  if (main_fibers_) main_fibers_->stop();
  wake_executors();
}

void Host::shutdown() {
  ending_ = true;
  for (const auto& call : running_)
    if (call->running) {
      interrupt(*call->running, make_error<CancelledError>("the job ends"));
      if (core_.is_cut_off() && call->running->waiting) call->running->waiting->notify();  // one that was cancelled before
    }
  if (main_fibers_) main_fibers_->stop();
  wake_executors();
}

bool Host::idle() const { return tasks_.empty() && running_.empty() && actors_.empty() && !core_.objects().has_borrowers() && core_.calls().open() == 0; }

void Host::describe_tasks(wire::StateReply& reply) {
  auto row = [&](const IncomingCall& call, const char* state) {
    const detail::FunctionNode* node = detail::function_at(call.head.function);
    reply.rows.push_back({{"task_id", task_id_text(call.source, call.head.call_id)},
                          {"name", !call.name.empty() ? call.name : node ? detail::function_name(*node) : ""},
                          {"state", state},
                          {"node_id", core_.welcome().node_id},
                          {"actor_id", call.head.actor.is_nil() ? "" : to_string(call.head.actor)},
                          {"error", ""},
                          {"pid", std::to_string(::getpid())},
                          {"attempt", std::to_string(call.head.attempt)}});
  };
  for (const auto& call : running_) row(*call, "RUNNING");
  for (const auto& call : tasks_) row(*call, "QUEUED");
}

// ----------------------------------------------------------------------------------------------------------------- executing

void Host::make_runnable(std::function<void()> work) {
  if (main_fibers_) return main_fibers_->post(std::move(work));  // HO-4
  runnable_.push_back(std::move(work));
  wake_executors();
}

void Host::wake_executors() {
  if (Outlet* outlet = core_.outlet()) [[unlikely]] return outlet->wake();
  for (exec::Waiter* waiter : idle_executors_) waiter->notify();
}

bool Host::next_work(std::function<void()>& work) {
  if (!runnable_.empty()) {
    work = std::move(runnable_.front());
    runnable_.pop_front();
    return true;
  }
  if (tasks_.empty() || current_task_) return false;
  current_task_ = std::move(tasks_.front());
  tasks_.pop_front();
  if (!tasks_.empty()) arm_recall();  // they came together: this one may be a long one (HO-2)
  work = [this, call = current_task_] { run(call, nullptr); };
  return true;
}

void Host::executor_loop() {
  set_thread_core(&core_);
  exec::Waiter waiter(core_);
  std::function<void()> work;
  for (;;) {
    bool have = false;
    {
      CoreLock lock(core_);
      std::erase(idle_executors_, &waiter);
      if (core_.is_cut_off()) return;
      have = next_work(work);
      if (!have) {
        if (ending_ || core_.shutting_down() || main_fibers_) return;
        idle_executors_.push_back(&waiter);
      }
    }
    if (have) {
      work();
      work = nullptr;
    } else {
      waiter.wait(exec::kNever);  // ends with work, or with shutdown
    }
  }
}

bool Host::run_one() {
  std::function<void()> work;
  bool over = false;
  {
    CoreLock lock(core_);
    if (!next_work(work) && !ending_) return false;
    over = !work;
  }
  if (over) core_.outlet()->end_process(false);
  else work();
  return !over;
}

void Host::let_go() {
  tasks_.clear();
  runnable_.clear();
  current_task_ = nullptr;
  admitted_ = nullptr;
  running_.clear();
  core_.defer([dead = std::make_shared<decltype(actors_)>(std::move(actors_))] {});
  actors_.clear();
}

int Host::run_main_loop() {
  executor_loop();
  exec::FiberThread* fibers = nullptr;
  {
    CoreLock lock(core_);
    if (!ending_ && !core_.shutting_down()) fibers = main_fibers_.get();
  }
  if (fibers) fibers->run();
  return 0;
}

}  // namespace troupe::worker
