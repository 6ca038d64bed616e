// What users do in the cores' world: by chance, as long as it is busy; then rest, then everything is dropped.
#include "core/caller/streams.h"
#include "tests/sim/cores.h"

namespace troupe::sim {

using namespace std::chrono_literals;
using troupe::detail::HandlePtr;
using troupe::detail::ObjectPtr;
using troupe::detail::OutgoingCall;

namespace {
constexpr Duration kBusy = 3s, kRest = 40s;
constexpr Duration kKeyLife = 1h + 1min;   // worker::KeyTable

struct SimActor { int nothing = 0; };
SimActor the_actor;  // all of them: a killed process never destroys its own, which a leak checker would hold against it
void construct(troupe::detail::Invocation& in) {
  Label label;
  std::memcpy(&label, in.body.data(), std::min(sizeof label, in.body.size()));
  if (label.index == 1) throw std::runtime_error("the constructor fails");
  in.constructed = &the_actor;
}
void destroy(void*) {}
const troupe::detail::ClassOperations operations{&destroy, nullptr, nullptr};
troupe::detail::FunctionNode function{troupe::detail::FunctionKind::kFunction, nullptr, "[with auto F = model]"};
troupe::detail::FunctionNode method{troupe::detail::FunctionKind::kMethod, nullptr, "[with A = Model; auto M = model]"};
troupe::detail::FunctionNode constructor{troupe::detail::FunctionKind::kConstructor, &construct, "[with A = Model]",
                                         &operations};

head::StateOptions head_options(std::uint64_t seed) {
  head::StateOptions options;
  options.membership.cluster_id = "sim";
  options.seed = seed;
  return options;
}

void attach(troupe::detail::Value& value, const HandlePtr& handle) {
  if (!value.attachments) value.attachments = std::make_unique<troupe::detail::Attachments>();
  value.attachments->handles.push_back(handle);
}
}  // namespace

const std::vector<std::string>& core_plants() {
  static const std::vector<std::string> names{"lost-reply",    "lost-release", "lost-ack",
                                              "lost-value",    "lost-death",   "double-call",
                                              "early-release", "false-value",  "swapped-calls"};
  return names;
}

CoreWorld::CoreWorld(WorldOptions options)
    : options_(std::move(options)),
      random_(options_.seed, 78),
      late_(options_.seed, 79),
      state_(head_options(options_.seed)) {
  troupe::detail::freeze_registry();
}

CoreWorld::~CoreWorld() {
  for (auto& [number, node] : nodes_)
    for (auto& [serial, process] : node->processes) process->alive = false;
  for (auto& [number, node] : nodes_)
    for (auto& [serial, process] : node->processes) bury(*process);
}

std::string CoreWorld::run() {
  faults_ = random_.chance(0.7);
  task_keys_ = random_.chance(0.1);
  refuses_rings_ = random_.chance(0.3);
  retires_ = random_.chance(0.5);
  shares_ = random_.chance(0.3);
  memory_ = random_.chance(0.3);
  say(std::string("here") + (faults_ ? " processes die," : "") + (task_keys_ ? " tasks have keys," : "") +
      (refuses_rings_ ? " rings are refused," : "") + (retires_ ? " workers retire," : "") +
      (shares_ ? " workers are shared," : "") + (memory_ ? " values have memory," : "") + " on one to three nodes");
  const std::uint32_t nodes = 1 + below(3);
  for (std::uint32_t i = 0; i < nodes; ++i) join_node();
  plan_activity();
  queue_.at(kBusy, [this] {
    busy_ = false;
    say("---- from here on nothing new happens");
    for (auto& [number, node] : nodes_)
      for (auto& [serial, process] : node->processes)
        if (process->alive && process->core) look(*process);
  });
  auto go_on = [this](Time end) {
    while (broken_.empty() && queue_.step(end)) {
      asked_time_ = 0;
      for (SimProcess* process : std::exchange(dead_, {})) bury(*process);
    }
  };
  go_on(kBusy + kRest);
  if (broken_.empty()) check_rest();
  if (broken_.empty()) drop_all();
  go_on(kBusy + 2 * kRest + (task_keys_ ? kKeyLife : 0s));
  if (broken_.empty()) check_empty();
  return broken_;
}

void CoreWorld::plan_activity() {
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 10e6)), [this] {
    if (!busy_) return;
    if (faults_ && random_.chance(0.02)) fault();
    std::vector<SimProcess*> able;
    for (auto& [number, node] : nodes_)
      for (auto& [serial, process] : node->processes)
        if (node->alive && process->alive && process->core &&
            (process->role == wire::Role::kDriver || !process->refs.empty() || !process->handles.empty()))
          able.push_back(process.get());
    if (!able.empty()) {
      SimProcess& process = *able[below(able.size())];
      act(process, nullptr);
      if (process.alive) look(process);
      if (process.alive) check(process);
    }
    plan_activity();
  });
}

void CoreWorld::fault() {
  std::vector<SimProcess*> workers;
  std::vector<SimNode*> spare;
  for (auto& [number, node] : nodes_) {
    if (!node->alive) continue;
    for (auto& [serial, process] : node->processes)
      if (process->alive && process->role == wire::Role::kWorker) workers.push_back(process.get());
    if (!drives(*node)) spare.push_back(node.get());
  }
  if (random_.chance(0.05) && !spare.empty()) return kill_node(*spare[below(spare.size())]);
  if (!workers.empty()) kill(*workers[below(workers.size())], "killed by SIGSEGV (11)");
}

// ------------------------------------------------------------------------------------------------------------- actions

void CoreWorld::act(SimProcess& process, SimRun* run) {
  auto& refs = run ? run->refs : process.refs;
  const bool works = run || process.role == wire::Role::kDriver;  // others only keep what functions left behind
  const std::uint32_t dice = below(100);
  if (works && dice < 3) return submit_stream(process, refs);
  if (works && dice < 28) return submit_task(process, refs);
  if (works && dice < 38) return put(process, refs);
  if (works && dice < 46 && process.role == wire::Role::kDriver) return create_actor(process, refs);
  if (works && dice < 60) return call_actor(process, refs);
  if (dice < 64 && !process.handles.empty()) {
    const HandlePtr gone = std::move(process.handles[below(process.handles.size())]);
    std::erase(process.handles, HandlePtr());
    return;
  }
  if (refs.empty()) return;
  const std::size_t which = below(refs.size());
  if (dice < 80) {  // get
    const ObjectPtr object = refs[which];
    {
      worker::CoreLock lock(*process.core);
      process.core->objects().want(worker::entry_of(object));
    }
    if (run) run->waits.push_back(object);
    else process.gets.push_back({object, queue_.now()});
  } else if (dice < 84) {
    worker::CoreLock lock(*process.core);
    worker::ObjectEntry& entry = worker::entry_of(refs[which]);
    const bool task = entry.producer && entry.producer->kind == worker::CallKind::kTask;
    process.core->caller().cancel_object(entry,
                                         {.force = task && random_.chance(0.3), .recursive = random_.chance(0.7)});
  } else {
    const ObjectPtr gone = std::move(refs[which]);
    std::erase(refs, ObjectPtr());
  }
}

troupe::detail::Value CoreWorld::value_of(SimProcess& process, Label label, const std::vector<ObjectPtr>& from,
                                          double with_refs) {
  troupe::detail::Value value;
  value.body = troupe::detail::Bytes(reinterpret_cast<const std::byte*>(&label), sizeof label);
  troupe::detail::Attachments attachments;
  while (!from.empty() && attachments.objects.size() < 4 && random_.chance(with_refs)) {
    // Nothing that holds itself, however far around: counting references never frees it.
    const ObjectPtr& held = from[below(from.size())];
    const auto made = made_.find(worker::entry_of(held).id);
    if (made != made_.end() && made->second.token < label.token) attachments.objects.push_back(held);
    else break;
  }
  if (!process.handles.empty() && random_.chance(0.1))
    attachments.handles.push_back(process.handles[below(process.handles.size())]);
  // Memory that says the same; not for constructions, which wait for theirs on a thread.
  if (process.memory && with_refs > 0 && random_.chance(0.2)) {
    if (auto memory = process.core->owner().buffers().allocate(sizeof label); memory.ok()) {
      worker::BufferEntry& entry = worker::buffer_of(*memory);
      std::memcpy(entry.open.data(), &label, sizeof label);
      process.core->owner().buffers().seal(entry);
      attachments.buffers.push_back(*std::move(memory));
    }
  }
  if (!attachments.empty()) value.attachments = std::make_unique<troupe::detail::Attachments>(std::move(attachments));
  return value;
}

void CoreWorld::put(SimProcess& process, std::vector<ObjectPtr>& refs) {
  const Label label{++last_token_, 0};
  troupe::detail::Value value = value_of(process, label, refs, 0.4);
  worker::CoreLock lock(*process.core);
  worker::ObjectEntry* entry = process.core->objects().make_owned();
  process.core->objects().complete(*entry, std::move(value));
  made_[entry->id] = label;
  refs.push_back(ObjectPtr::adopt(entry));
}

void CoreWorld::submit_task(SimProcess& process, std::vector<ObjectPtr>& refs, const HandlePtr& given) {
  const Token token = ++last_token_;
  OutgoingCall call;
  call.function = &function;
  call.arguments = value_of(process, {token, 0}, refs, 0.4);
  if (given) attach(call.arguments, given);
  while (!refs.empty() && call.dependencies.size() < 3 && random_.chance(0.25))
    call.dependencies.push_back(refs[below(refs.size())]);
  call.returns = 1 + below(2);
  TaskOptions options;
  options.retry.max_retries = random_.chance(0.5) ? 3 : int(below(2));
  if (random_.chance(0.2)) options.retry.retry_error = [](const TaskError&) { return true; };
  options.resources.cpus = random_.chance(0.7) ? 1 : 0.5;
  if (random_.chance(0.08)) options.timeout = Duration(static_cast<Duration::rep>(1e6 + random_.unit() * 200e6));
  const bool plain = random_.chance(0.3);
  const bool keyed = task_keys_ && !plain && random_.chance(0.3);
  if (keyed) options.idempotency_key = "key " + std::to_string(below(5));
  CallTruth& truth = calls_[token];
  truth.submitter = process.id;
  truth.may_repeat = plain || options.retry.max_retries != 0;
  std::vector<ObjectPtr> returns(call.returns);
  worker::CoreLock lock(*process.core);
  auto known = keyed ? process.keyed.find(options.idempotency_key) : process.keyed.end();
  bool same = known != process.keyed.end() && known->second.size() == returns.size();
  if (same)
    for (ObjectId id : known->second)
      same = same && process.core->objects().knows(id) && !process.core->objects().code_of(id);
  process.core->tasks().submit(std::move(call), plain ? nullptr : &options, returns.data(), nullptr);
  std::vector<ObjectId> ids;
  for (const ObjectPtr& object : returns) ids.push_back(worker::entry_of(object).id);
  if (keyed) {
    if (same != (known != process.keyed.end() && known->second == ids))
      broken("CI-9: process " + to_string(process.id) + " submitted key '" + options.idempotency_key +
             "' again and got " + (same ? "other results" : "the results that failed"));
    process.keyed[options.idempotency_key] = ids;
  }
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (!same) made_[ids[i]] = {token, i};
    if (random_.chance(0.85)) refs.push_back(std::move(returns[i]));
  }
}

void CoreWorld::create_actor(SimProcess& process, std::vector<ObjectPtr>& refs) {
  if (process.handles.size() > 8) return;
  OutgoingCall call;
  call.function = &constructor;
  const bool fails = random_.chance(0.05);
  call.arguments = value_of(process, {++last_token_, fails ? 1u : 0u}, {}, 0);
  if (!process.handles.empty() && random_.chance(0.2))
    attach(call.arguments, process.handles[below(process.handles.size())]);
  ActorOptions options;
  const bool plain_light = random_.chance(0.15);  // made in its host directly (HO-5)
  const int restarts[] = {0, 0, 1, 3, kNoLimit};
  if (!plain_light) {
    options.max_restarts = restarts[below(5)];
    if (random_.chance(0.3)) options.max_task_retries = 2;
    if (random_.chance(0.2)) options.max_concurrency = 3;
    if (random_.chance(0.15)) options.out_of_order = true;
  }
  if (plain_light || random_.chance(0.2)) options.isolation = Isolation::kLight;
  const HandlePtr made = process.core->caller().creation().create(std::move(call), &options, "Model");
  if (fails) ended_actors_.insert(to_string(worker::client_of(made).id()));
  // Who works with it is not always who made it: its calls may overtake the construction.
  if (random_.chance(0.2)) submit_task(process, refs, made);
  else if (!process.handles.empty() && random_.chance(0.4))
    submit_calls(process, process.handles[below(process.handles.size())], refs, made);
  if (random_.chance(0.9)) process.handles.push_back(made);
}

void CoreWorld::call_actor(SimProcess& process, std::vector<ObjectPtr>& refs) {
  if (process.handles.empty()) return;
  const HandlePtr handle = process.handles[below(process.handles.size())];
  if (random_.chance(0.02)) {
    worker::CoreLock lock(*process.core);
    ended_actors_.insert(to_string(worker::client_of(handle).id()));
    if (random_.chance(0.5)) {
      OutgoingCall stop;
      stop.returns = 0;
      worker::client_of(handle).submit(std::move(stop), worker::CallKind::kStop, nullptr, nullptr, nullptr);
    } else {
      process.core->requests().send<wire::Empty>(kHead, wire::Method::kKillActor,
                                                 wire::KillActor{worker::client_of(handle).id(), random_.chance(0.4)},
                                                 [](auto) {});
    }
    return;
  }
  submit_calls(process, handle, refs);
}

void CoreWorld::submit_calls(SimProcess& process, const HandlePtr& handle, std::vector<ObjectPtr>& refs,
                             const HandlePtr& given) {
  for (std::uint32_t n = 1 + below(3); n > 0; --n) {
    const Token token = ++last_token_;
    const bool cast = random_.chance(0.2);
    OutgoingCall call;
    call.function = &method;
    call.arguments = value_of(process, {token, 0}, refs, 0.3);
    if (given) attach(call.arguments, given);
    if (!refs.empty() && random_.chance(0.2)) call.dependencies.push_back(refs[below(refs.size())]);
    CallOptions options;
    if (random_.chance(0.3)) options.max_retries = int(below(3));
    if (random_.chance(0.05)) options.timeout = Duration(static_cast<Duration::rep>(1e6 + random_.unit() * 200e6));
    const bool plain = random_.chance(0.5);
    CallTruth& truth = calls_[token];
    if (!plain && !cast && random_.chance(0.3)) {
      options.idempotency_key = "key " + std::to_string(below(4));
      truth.key = to_string(worker::client_of(handle).id()) + " " + options.idempotency_key;
    }
    truth.actor = to_string(worker::client_of(handle).id());
    truth.depends = !call.dependencies.empty();
    truth.kind = cast ? worker::CallKind::kCast : worker::CallKind::kActorCall;
    truth.submitter = process.id;
    truth.may_repeat = (plain || options.max_retries == -2 ? worker::client_of(handle).desc().max_task_retries
                                                           : options.max_retries) != 0;
    const worker::CallContext* context = worker::current_context();
    // One that waits for another with its key may run later, if that one fails.
    const bool ordered = !worker::client_of(handle).out_of_order() && truth.key.empty();
    truth.order = !ordered ? 0 : ++orders_[{process.id, context ? context->caller : 0}];
    ObjectPtr result;
    worker::CoreLock lock(*process.core);
    worker::client_of(handle).submit(std::move(call), truth.kind, plain ? nullptr : &options,
                                  cast ? nullptr : &result, nullptr);
    if (!result) continue;
    made_[worker::entry_of(result).id] = {token, 0};
    refs.push_back(std::move(result));
  }
}

/// A task or an actor's call that is a generator, and somebody who reads it: at once or slowly, to the end or not.
void CoreWorld::submit_stream(SimProcess& process, std::vector<ObjectPtr>& refs) {
  const Token token = ++last_token_;
  CallTruth& truth = calls_[token];
  truth.submitter = process.id;
  truth.items = below(random_.chance(0.3) ? 60 : 8);
  const bool of_actor = !process.handles.empty() && random_.chance(0.4);
  truth.buffer = of_actor && random_.chance(0.5) ? 64 : 1 + below(6);
  OutgoingCall call;
  call.returns = 0;
  call.function = of_actor ? &method : &function;
  call.arguments = value_of(process, {token, 0}, refs, 0.2);
  auto* stream = new worker::StreamState(*process.core, process.core->caller(), std::uint32_t(truth.buffer));
  process.readers.push_back({troupe::detail::StreamPtr(stream), token, random_.chance(0.3), false});
  say("process " + to_string(process.id) + " reads stream " + std::to_string(token) + " of " +
      std::to_string(truth.items) + " items");
  {
    worker::CoreLock lock(*process.core);
    if (of_actor) {
      const HandlePtr handle = process.handles[below(process.handles.size())];
      truth.kind = worker::CallKind::kActorCall;
      truth.may_repeat = worker::client_of(handle).desc().max_task_retries != 0;
      const worker::CallContext* context = worker::current_context();
      truth.order =
          worker::client_of(handle).out_of_order() ? 0 : ++orders_[{process.id, context ? context->caller : 0}];
      worker::client_of(handle).submit(std::move(call), truth.kind, nullptr, nullptr, stream);
    } else {
      TaskOptions options;
      options.retry.max_retries = random_.chance(0.7) ? 3 : 0;
      options.stream_buffer = std::uint32_t(truth.buffer);
      truth.may_repeat = options.retry.max_retries != 0;
      process.core->tasks().submit(std::move(call), &options, nullptr, stream);
    }
  }
  plan_read(process, token);
  if (of_actor && process.role == wire::Role::kWorker) may_die_soon(process.id, 0.3, late_);  // HO-8: before it begins
}

void CoreWorld::drop_all() {
  say("---- everything is dropped");
  dropping_ = true;
  for (auto& [number, node] : nodes_)
    for (auto& [serial, process] : node->processes) {
      if (!process->alive || !process->core) continue;
      auto gets = std::exchange(process->gets, {});
      auto readers = std::exchange(process->readers, {});
      auto refs = std::exchange(process->refs, {});
      auto handles = std::exchange(process->handles, {});
    }
}

}  // namespace troupe::sim
