// The door between the public templates and the runtime: each function of troupe/detail finds its process's core, takes
// the lock, and lets one part do the work.
#include <troupe/troupe.h>

#include <fmt/format.h>

#include <algorithm>

#include "core/caller/streams.h"
#include "core/process/core.h"
#include "core/process/wait_reason.h"
#include "core/runtime/waits.h"

namespace troupe::detail {

using namespace worker;

namespace {
[[noreturn]] void empty_ref() { throw InvalidArgumentError("an empty reference"); }
const ObjectPtr& checked(const ObjectPtr& object) {
  if (!object) empty_ref();
  return object;
}
const HandlePtr& checked(const HandlePtr& handle) {
  if (!handle) throw InvalidArgumentError("an empty actor handle");
  return handle;
}
/// What a run that is over made or read names nothing any more: in the run after it, or outside of all, the same names
/// may be others'.
void check_run(Runtime& of, const char* what) {
  if (of.shutting_down() && &of != current_runtime()) [[unlikely]]
    throw InvalidArgumentError(fmt::format("{} of a troupe::run that is over", what));
}
Core& running_core_of(const ObjectEntry& entry) {
  check_run(entry.runtime(), "a reference");
  return core_of(entry);
}
ActorClient& running_client(const HandlePtr& handle) {
  ActorClient& client = client_of(checked(handle));
  check_run(client.runtime(), "an actor handle");
  return client;
}
/// Of what is about to be kept or sent.
void check_run(const Value& value) {
  if (!value.attachments) [[likely]] return;
  for (const auto& object : value.attachments->objects) check_run(entry_of(object).runtime(), "a reference");
  for (const auto& handle : value.attachments->handles) check_run(client_of(handle).runtime(), "an actor handle");
  for (const auto& buffer : value.attachments->buffers)
    if (buffer) check_run(buffer_of(buffer).runtime(), "an array");
}
void check_run(const OutgoingCall& call) {
  check_run(call.arguments);
  for (const auto& dependency : call.dependencies) check_run(entry_of(dependency).runtime(), "a reference");
}
void check_registered(const FunctionNode* function) {
  if (function && function->index == FunctionNode::kUnregistered)
    throw InvalidArgumentError("the function " + function_name(*function) +
                               " is in a module that was opened after run began: it cannot be called remotely");
}
}  // namespace

void throw_empty_ref() { empty_ref(); }

std::string object_id(const ObjectBase* object) {
  return object ? to_string(static_cast<const ObjectEntry*>(object)->id) : std::string();
}

Attachments& writable_attachments(Writer& ar) {
  if (!ar.attachments())
    throw SerializationError("references and arrays travel only in arguments, results and objects");
  return *ar.attachments();
}

// ------------------------------------------------------------------------------------------------------------- buffers

OpenBuffer allocate_buffer(std::size_t bytes) {
  Result<BufferPtr> made = require_core().owner().buffers().allocate(bytes);
  if (!made.ok()) made.error().raise();
  OpenBuffer open{*std::move(made), nullptr};
  open.data = buffer_of(open.buffer).open.data();
  return open;
}

void seal_buffer(BufferBase& buffer) { require_core().owner().buffers().seal(static_cast<BufferEntry&>(buffer)); }

std::byte* open_value(Value& value, std::size_t size) {
  if (size <= wire::kInlineMax) {
    value.body = Bytes(size);
    return value.body.data();
  }
  OpenBuffer open = allocate_buffer(size);
  value.large_body = std::move(open.buffer);
  return open.data;
}

void seal_value(Value& value) {
  if (value.large_body) seal_buffer(*value.large_body);
}

// ------------------------------------------------------------------------------------------------------------- objects

ObjectPtr put_value(Value value, const PutOptions& options) {
  if (options.copies != 1)
    throw InvalidArgumentError("put: copies is 1, as no second copy of an object is kept on another node: put it there "
                               "by a task as well");
  Core& core = require_core();
  check_run(value);
  CoreLock lock(core);
  if (core.shutting_down()) core.shutdown_reason()->raise();
  ObjectEntry* entry = core.objects().make_owned();
  core.objects().complete(*entry, std::move(value));
  return ObjectPtr::adopt(entry);
}

namespace {
/// Waits until one object is settled. False: the deadline passed.
bool await_one(Core& core, ObjectEntry& entry, exec::Deadline deadline) {
  if (entry.state() != ObjectEntry::kPending) return true;
  exec::Waiter waiter(core);
  WaitScope scope(core, waiter);
  WaitGroup group{&waiter, 1};
  WaitNode node{&group, nullptr};
  struct Unlink {
    Core& core; ObjectEntry& entry; WaitNode& node; bool linked = false;
    ~Unlink() {
      if (!linked) return;
      CoreLock lock(core);
      core.objects().remove_waiter(entry, node);
    }
  } unlink{core, entry, node};
  for (;;) {
    {
      CoreLock lock(core);
      scope.check();  // first: with a recursive cancel the object fails too, and the caller is to be told once
      if (entry.state() != ObjectEntry::kPending) return true;
      if (!unlink.linked) {
        core.objects().want(entry);
        core.objects().add_waiter(entry, node);
        unlink.linked = true;
      }
    }
    if (!scope.wait(deadline) && entry.state() == ObjectEntry::kPending && exec::Deadline::clock::now() >= deadline)
      return false;
  }
}
}  // namespace

void await_all(const ObjectPtr* const* objects, std::size_t count, Duration timeout) {
  exec::Deadline deadline{};
  bool deadline_known = false;
  for (std::size_t i = 0; i < count; ++i) checked(*objects[i]);  // before anything is waited for
  for (std::size_t i = 0; i < count; ++i) {
    ObjectEntry& entry = entry_of(checked(*objects[i]));
    if (entry.state() == ObjectEntry::kFailed) return;  // the first error: what is behind it is not waited for
    if (entry.state() == ObjectEntry::kReady && BufferTable::all_here(entry.value)) continue;
    if (!std::exchange(deadline_known, true)) deadline = exec::deadline_after(timeout);
    Core& core = running_core_of(entry);
    bool arrived = await_one(core, entry, deadline);
    if (arrived && entry.state() == ObjectEntry::kFailed) return;
    if (arrived) {
      Result<bool> fetched = core.owner().buffers().fetch_all(entry.value, deadline);
      if (!fetched.ok()) fetched.error().raise();
      arrived = *fetched;
    }
    if (!arrived) {
      CoreLock lock(core);
      throw GetTimeoutError(not_ready_error(core, entry, timeout));
    }
  }
}

const Value* value_of(const ObjectBase& object) noexcept {
  return object.state() == ObjectBase::kReady ? &static_cast<const ObjectEntry&>(object).value : nullptr;
}

ErrorPtr error_of(const ObjectBase& object) { return static_cast<const ObjectEntry&>(object).error; }

void check_distinct(Core& core, const ObjectPtr* const* objects, std::size_t count);

namespace {
/// One call of wait: the objects that are settled, and with fetch_local those whose memory is here too, or is lost.
class ListWait {
 public:
  ListWait(Core& core, const ObjectPtr* const* objects, std::size_t count, const WaitOptions& options)
      : core_(core), objects_(objects), count_(count), options_(options) {}
  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> found = ready();
    if (found.size() >= options_.num_returns) return found;
    // Only now: what is ready is read like that of a run that is over, and a list is walked with each wait for it.
    for (std::size_t i = 0; i < count_; ++i)
      if ((*objects_[i])->state() == ObjectBase::kPending) (void)running_core_of(entry_of(*objects_[i]));
    exec::Waiter waiter(core_);
    WaitScope scope(core_, waiter);
    const exec::Deadline deadline = exec::deadline_after(options_.timeout);
    const Listed listed(*this, waiter);
    for (;;) {
      {
        CoreLock lock(core_);
        scope.check();
        found = ready();
        if (found.size() >= options_.num_returns) return found;
        group_.missing = options_.num_returns - found.size();
        if (fetch()) continue;
      }
      if (scope.wait(deadline) || exec::Deadline::clock::now() < deadline) continue;
      CoreLock lock(core_);
      return ready();
    }
  }

 private:
  /// Fetches may end after the wait.
  struct Fetches {
    exec::Waiter* waiter = nullptr;
    std::vector<bool> asked, over;
  };

  bool is_ready(std::size_t i) const {
    const auto state = (*objects_[i])->state();
    if (state == ObjectBase::kPending) return false;
    if (!options_.fetch_local || state == ObjectBase::kFailed) return true;
    return BufferTable::all_here(entry_of(*objects_[i]).value) || (fetches_ && fetches_->over[i]);
  }
  std::vector<std::uint32_t> ready() const {
    std::vector<std::uint32_t> found;
    for (std::size_t i = 0; i < count_ && found.size() < options_.num_returns; ++i)
      if (is_ready(i)) found.push_back(std::uint32_t(i));
    return found;
  }
  /// The waiter is known to the objects that are pending, until it goes.
  struct Listed {
    ListWait& wait;
    Listed(ListWait& wait, exec::Waiter& waiter) : wait(wait) {
      wait.nodes_.resize(wait.count_);
      CoreLock lock(wait.core_);
      wait.group_.waiter = &waiter;
      wait.group_.fetches = wait.options_.fetch_local;
      for (std::size_t i = 0; i < wait.count_; ++i) {
        ObjectEntry& entry = entry_of(*wait.objects_[i]);
        if (entry.state() != ObjectBase::kPending) continue;
        wait.core_.objects().want(entry);
        wait.nodes_[i].group = &wait.group_;
        wait.core_.objects().add_waiter(entry, wait.nodes_[i]);
      }
    }
    ~Listed() {
      CoreLock lock(wait.core_);
      for (std::size_t i = 0; i < wait.count_; ++i)
        if (wait.nodes_[i].group) wait.core_.objects().remove_waiter(entry_of(*wait.objects_[i]), wait.nodes_[i]);
      if (wait.fetches_) wait.fetches_->waiter = nullptr;
    }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
  };
  /// Begins to fetch what is settled and lies elsewhere. True: one has ended at once. Lock held.
  bool fetch() {
    if (!options_.fetch_local) return false;
    bool ended = false;
    for (std::size_t i = 0; i < count_; ++i) {
      if ((*objects_[i])->state() != ObjectBase::kReady || is_ready(i)) continue;
      if (!fetches_) {
        fetches_ = std::make_shared<Fetches>();
        fetches_->waiter = group_.waiter;
        fetches_->asked.resize(count_);
        fetches_->over.resize(count_);
      }
      if (fetches_->asked[i]) continue;
      fetches_->asked[i] = true;
      core_.owner().buffers().fetch_then(entry_of(*objects_[i]).value, [fetches = fetches_, i](const ErrorPtr&) {
        fetches->over[i] = true;  // of one that is lost, get tells
        if (fetches->waiter) fetches->waiter->notify();
      });
      ended |= fetches_->over[i];
    }
    return ended;
  }

  Core& core_;
  const ObjectPtr* const* objects_;
  const std::size_t count_;
  const WaitOptions& options_;
  WaitGroup group_;
  std::vector<WaitNode> nodes_;
  std::shared_ptr<Fetches> fetches_;
};
}  // namespace

std::vector<std::uint32_t> wait_for(const ObjectPtr* const* objects, std::size_t count, const WaitOptions& options) {
  if (count == 0 || options.num_returns == 0 || options.num_returns > count)
    throw InvalidArgumentError("wait: num_returns is from 1 to the number of references");
  Core& core = require_core();
  check_distinct(core, objects, count);
  return ListWait(core, objects, count, options).run();
}

void check_distinct(Core& core, const ObjectPtr* const* objects, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) (void)checked(*objects[i]);
  {
    CoreLock lock(core);
    const std::uint32_t mark = core.objects().next_mark();
    bool twice = false;
    for (std::size_t i = 0; i < count; ++i) twice |= std::exchange(entry_of(*objects[i]).mark, mark) == mark;
    if (!twice) return;
  }
  std::vector<const ObjectBase*> seen;
  for (std::size_t i = 0; i < count; ++i) seen.push_back((*objects[i]).get());
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end())
    throw InvalidArgumentError("wait: a reference is in the list twice");
}

void cancel_object(const ObjectPtr& object, const CancelOptions& options) {
  ObjectEntry& entry = entry_of(checked(object));
  Core& core = core_of(entry);
  CoreLock lock(core);
  if (options.force && entry.producer && entry.producer->kind == CallKind::kActorCall)
    throw InvalidArgumentError("cancel: force is not for actor calls");
  core.caller().cancel_object(entry, options);
}

namespace {
/// Calls back once the value's memory is here too, or is lost: what is waited for holds up no thread.
void call_when_here(Core& core, const ObjectPtr& object, std::function<void(const ErrorPtr&)> callback) {
  const Value* value = value_of(*object);
  if (!value || BufferTable::all_here(*value)) return callback(nullptr);
  CoreLock lock(core);
  core.owner().buffers().fetch_then(*value, [&core, object, callback = std::move(callback)](const ErrorPtr& lost) {
    core.run_later([object, callback, lost] { callback(lost); });
  });
}
}  // namespace

void call_when_ready(const ObjectPtr& object, std::function<void(const ErrorPtr&)> callback) {
  ObjectEntry& entry = entry_of(checked(object));
  Core& core = running_core_of(entry);
  auto settled = [object, &core, callback = std::move(callback)] { call_when_here(core, object, callback); };
  CoreLock lock(core);
  if (entry.state() != ObjectEntry::kPending) return core.run_later(std::move(settled));
  core.objects().want(entry);
  entry.rare().callbacks.push_back(std::move(settled));
}

// --------------------------------------------------------------------------------------------------------------- tasks

namespace {
void check_resources(const Resources& resources) {
  auto amount = [](const std::string& name, double value) {
    if (!(value >= 0 && value <= 1e9))
      throw InvalidArgumentError("resources: " + std::to_string(value) + " is no amount of " + name);
  };
  if (resources.cpus != kUnset) amount("CPU", resources.cpus);
  amount("GPU", resources.gpus);
  for (const auto& [name, value] : resources.custom) amount(name, value);
}
}  // namespace

namespace {
constexpr auto kSaysWhyAfter = std::chrono::seconds(5);

/// Holds the submitter back while open calls take all the memory they may (CallBudget). Not the service thread: calls
/// end there.
void admit(Core& core) {
  CallBudget& budget = core.calls().budget();
  if (!budget.full()) [[likely]] return;
  if (core.service().is_this_thread()) return;
  exec::Waiter waiter(core);
  WaitScope scope(core, waiter);
  struct Listed {
    Core& core; exec::Waiter& waiter;
    Listed(Core& core, exec::Waiter& waiter) : core(core), waiter(waiter) {
      CoreLock lock(core);
      core.calls().budget().add_waiter(waiter);
    }
    ~Listed() { CoreLock lock(core); core.calls().budget().remove_waiter(waiter); }
  } listed(core, waiter);
  exec::Deadline says_why = exec::deadline_after(kSaysWhyAfter);
  for (;;) {
    {
      CoreLock lock(core);
      scope.check();
      if (!budget.full()) return;
    }
    if (scope.wait(says_why)) continue;
    says_why = exec::kNever;
    std::size_t open = 0;
    {
      CoreLock lock(core);
      open = core.calls().open();
    }
    core.warn(
        fmt::format("submitting waits: {} calls of this process are open and take {} MiB, the limit "
                    "(--troupe-call-memory); it goes on when results arrive",
                    open, budget.limit() >> 20));
  }
}
}  // namespace

void submit_task(OutgoingCall call, const TaskOptions* options, ObjectPtr* returns) {
  Core& core = require_core();
  check_run(call);
  admit(core);
  check_registered(call.function);
  if (options) check_resources(options->resources);
  {
    CoreLock lock(core);
    core.tasks().submit(std::move(call), options, returns, nullptr);
  }
  // A thread that only submits and never waits takes its replies all the same: leases have room again, and the memory
  // of calls that have ended is free, without a switch to the service thread.
  core.endpoint().try_drain(core.handler(), 64);
}

namespace {
/// The items of a generator are not kept, so that there is nothing to answer a second call of the same key with.
void refuse_key(const std::string& idempotency_key) {
  if (!idempotency_key.empty())
    throw InvalidArgumentError("idempotency_key is not for generators: their items are not kept; let the function "
                               "return its values");
}
}  // namespace

StreamPtr submit_stream(OutgoingCall call, const TaskOptions* options) {
  Core& core = require_core();
  if (options) refuse_key(options->idempotency_key);
  check_run(call);
  admit(core);
  check_registered(call.function);
  if (options) check_resources(options->resources);
  auto* stream = new StreamState(core, core.caller(), options && options->stream_buffer ? options->stream_buffer : 64);
  StreamPtr pointer(stream);
  CoreLock lock(core);
  core.tasks().submit(std::move(call), options, nullptr, stream);
  return pointer;
}

ObjectPtr next_item(StreamBase& stream) { return static_cast<StreamState&>(stream).next(); }

// -------------------------------------------------------------------------------------------------------------- actors

namespace {
/// "[with A = Counter]" -> "Counter"
std::string class_name_of(const char* pretty) {
  std::string text(pretty);
  const std::size_t from = text.find("A = ");
  if (from == std::string::npos) return text;
  text = text.substr(from + 4);
  if (const std::size_t to = text.find_last_of(']'); to != std::string::npos) text.resize(to);
  return text;
}
}  // namespace

HandlePtr create_actor(OutgoingCall construction, const ActorOptions* options, const char* pretty_class) {
  check_registered(construction.function);
  check_run(construction);
  admit(require_core());
  return require_core().caller().creation().create(std::move(construction), options, class_name_of(pretty_class));
}

void submit_call(const HandlePtr& handle, OutgoingCall call, const CallOptions* options, ObjectPtr* returns) {
  Core& core = require_core();
  ActorClient& client = running_client(handle);
  check_run(call);
  admit(core);
  check_registered(call.function);
  {
    CoreLock lock(core);
    client.submit(std::move(call), CallKind::kActorCall, options, returns, nullptr);
  }
  core.endpoint().try_drain(core.handler(), 64);
}

StreamPtr submit_stream_call(const HandlePtr& handle, OutgoingCall call, const CallOptions* options) {
  Core& core = require_core();
  if (options) refuse_key(options->idempotency_key);
  ActorClient& client = running_client(handle);
  check_run(call);
  admit(core);
  check_registered(call.function);
  auto* stream = new StreamState(core, core.caller(), 64);
  StreamPtr pointer(stream);
  CoreLock lock(core);
  client.submit(std::move(call), CallKind::kActorCall, options, nullptr, stream);
  return pointer;
}

void submit_cast(const HandlePtr& handle, OutgoingCall call, const CallOptions* options) {
  Core& core = require_core();
  ActorClient& client = running_client(handle);
  check_run(call);
  admit(core);
  check_registered(call.function);
  {
    CoreLock lock(core);
    client.submit(std::move(call), CallKind::kCast, options, nullptr, nullptr);
  }
  core.endpoint().try_drain(core.handler(), 64);
}

Result<HandlePtr> find_actor(const std::string& name, const NameOptions& options, const char* pretty_class) {
  return require_core().caller().lookup().find({name, options.name_space}, class_name_of(pretty_class));
}

void kill_actor(const HandlePtr& handle, const KillOptions& options) {
  (void)running_client(handle);
  require_core().actors().kill(handle, options.restart);
}

void stop_actor(const HandlePtr& handle) {
  Core& core = require_core();
  OutgoingCall stop;
  stop.returns = 0;
  ActorClient& client = running_client(handle);
  CoreLock lock(core);
  client.submit(std::move(stop), CallKind::kStop, nullptr, nullptr, nullptr);
}

ObjectPtr monitor_actor(const HandlePtr& handle) {
  Core& core = require_core();
  ActorClient& client = running_client(handle);
  CoreLock lock(core);
  return client.monitor();
}

ObjectPtr actor_ready(const HandlePtr& handle) {
  Core& core = require_core();
  ActorClient& client = running_client(handle);
  CoreLock lock(core);
  return client.ready();
}

std::string handle_id(const HandlePtr& handle) { return to_string(client_of(handle).id()); }

}  // namespace troupe::detail

namespace troupe {

void get(const std::vector<ObjectRef<void>>& refs, GetOptions options) {
  std::vector<const detail::ObjectPtr*> objects;
  for (auto& ref : refs) objects.push_back(&detail::pointer_of(ref));
  detail::await_all(objects.data(), objects.size(), options.timeout);
  for (auto* object : objects) detail::read_value<void>(**object);
}

WaitResult<AnyRef> wait(const std::vector<AnyRef>& refs, WaitOptions options) {
  return detail::wait_in<AnyRef>(refs, options);
}
WaitResult<AnyRef> wait(std::vector<AnyRef>&& refs, WaitOptions options) {
  return detail::wait_in<AnyRef>(std::move(refs), options);
}

void exit_actor() { worker::require_core().host().exit_current_actor(); }

}  // namespace troupe
