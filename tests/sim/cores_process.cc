// Inside a simulated process: what its service thread, its executors and its users' functions do.
#include "tests/sim/cores.h"

#include <algorithm>

#include "core/caller/streams.h"

namespace troupe::sim {

using namespace std::chrono_literals;
using troupe::detail::ObjectPtr;

namespace {
constexpr std::uint64_t kStreamBytes = 5 * sizeof(Label);  ///< that a generator may be ahead of its reader

/// A generator that waits, and need not any more.
bool may_go_on(SimRun& run) {
  run.window->taken(run.call->stream_taken);
  return run.window->may_make();
}
}  // namespace

std::optional<Label> label_of(const troupe::detail::Value& value) {
  Label label;
  if (value.size() < sizeof label) return std::nullopt;
  std::memcpy(&label, value.data(), sizeof label);
  return label;
}

// -------------------------------------------------------------------------------------------------------- surroundings

void SimProcess::wake() noexcept { world.plan_step(*this); }
void SimProcess::post(worker::HostedActor&, std::function<void()> work) { core->host().queue_work(std::move(work)); }
void SimProcess::run(const worker::IncomingPtr& call, worker::HostedActor* actor) { world.begin(*this, call, actor); }
void SimProcess::kill_process() { world.kill(*this, "killed by itself (9)", DeathCause::kKilled); }

void CoreWorld::plan_step(SimProcess& process) {
  if (!process.alive || std::exchange(process.step_planned, true)) return;
  const SimNode* node = node_at(process.id.node);
  const double pause = random_.chance(0.01) ? 20e6 : 20e3;  // now and then others run first
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * pause * node->slowness)), [this, id = process.id] {
    SimProcess* process = find(id);
    if (!process || !process->core) return;
    process->step_planned = false;
    step(*process);
  });
}

void CoreWorld::step(SimProcess& process) {
  const exec::Deadline next = process.core->service_queue().run_due();
  while (process.alive && do_work(process)) {}
  if (process.alive && process.memory) process.memory->client().flush();
  if (!process.alive) return;
  look(process);
  check(process);
  if (next == exec::kNever) return;
  const Time at = next.time_since_epoch() - 1h;
  if (process.timer_at && *process.timer_at <= at) return;
  process.timer_at = at;
  queue_.at(at, [this, id = process.id, at] {
    SimProcess* process = find(id);
    if (!process || process->timer_at != at) return;
    process->timer_at.reset();
    step(*process);
  });
}

/// What an executor would do next, once. False: nothing to do.
bool CoreWorld::do_work(SimProcess& process) {
  std::function<void()> work;
  bool over = false;
  {
    worker::CoreLock lock(*process.core);
    if (!process.core->host().next_work(work)) over = process.core->host().ending();
  }
  if (work) work();
  else if (over) kill(process, "exited with code 0", DeathCause::kFinished, true);
  return static_cast<bool>(work);
}

// ----------------------------------------------------------------------------------------------------------- functions

void CoreWorld::begin(SimProcess& process, const worker::IncomingPtr& call, worker::HostedActor* actor) {
  auto made = std::make_unique<SimRun>();
  SimRun& run = *made;
  run.call = call;
  run.actor = actor;
  run.began = queue_.now();
  process.runs.push_back(std::move(made));
  process.core->host().begin_run(call, actor, run.context);
  if (const auto label = label_of(call->arguments); label && calls_.contains(label->token))
    calls_[label->token].noted = true;
  if (call->dropped) {  // cancelled on its way here: it does not begin
    run.token = 0;
    return end(
        process, run,
        call->dropped_why ? call->dropped_why : make_error<CancelledError>("the call was cancelled before it began"));
  }
  check_begin(process, run);
  check_key(run, false);
  if (call->head.stream) run.window.emplace(call->head.stream_buffer ? call->head.stream_buffer : 64, kStreamBytes);
  auto collect = [&](const troupe::detail::Value& value) {
    if (!value.attachments) return;
    for (const auto& object : value.attachments->objects) run.refs.push_back(object);
    for (const auto& handle : value.attachments->handles) {
      if (random_.chance(0.3)) process.handles.push_back(handle);
      run.given.push_back(handle);
    }
  };
  collect(call->arguments);
  for (const auto& dependency : call->dependencies) collect(dependency);
  run.steps_left = random_.chance(0.5) ? 0 : 1 + int(below(3));
  run.endless = busy_ && !run.window && random_.chance(0.01);
  plan_advance(process, run,
               Duration(static_cast<Duration::rep>(random_.unit() * (random_.chance(0.1) ? 50e6 : 300e3))));
}

void CoreWorld::plan_advance(SimProcess& process, SimRun& run, Duration after) {
  if (std::exchange(run.planned, true)) return;
  queue_.after(after, [this, id = process.id, call = run.call.get(), began = run.began] {
    SimProcess* process = find(id);
    if (!process) return;
    for (auto& run : process->runs)
      if (run->call.get() == call && run->began == began && run->planned) {
        run->planned = false;
        advance(*process, *run);
        if (process->alive) look(*process);
        if (process->alive) check(*process);
        return;
      }
  });
}

void CoreWorld::advance(SimProcess& process, SimRun& run) {
  ErrorPtr interrupt;
  {
    worker::CoreLock lock(*process.core);
    interrupt = std::exchange(run.context.interrupt, nullptr);
  }
  if (interrupt && (run.window || random_.chance(0.8))) return end(process, run, interrupt);
  if (interrupt) run.endless = false;
  if (run.endless && busy_) return;
  for (const auto& handle : std::exchange(run.given, {})) {  // functions call whom they are given
    if (!busy_ || !random_.chance(0.5)) continue;
    worker::set_current_context(&run.context);
    submit_calls(process, handle, run.refs);
    worker::set_current_context(nullptr);
  }
  if (!run.waits.empty()) {
    for (const ObjectPtr& object : run.waits) {
      if (object->state() != troupe::detail::ObjectBase::kReady) continue;
      const auto& value = worker::entry_of(object).value;
      if (value.attachments && random_.chance(0.7))
        for (const auto& inner : value.attachments->objects) run.refs.push_back(inner);
    }
    run.waits.clear();
  }
  if (std::exchange(run.blocked, false)) {
    worker::CoreLock lock(*process.core);
    process.core->host().task_blocked(run.context, false);
  }
  if (run.steps_left > 0) {
    --run.steps_left;
    worker::set_current_context(&run.context);
    act(process, &run);
    worker::set_current_context(nullptr);
    if (!process.alive) return;
    if (!run.waits.empty()) {
      process.core->host().task_waits();
      worker::CoreLock lock(*process.core);
      process.core->host().task_blocked(run.context, true);
      run.blocked = run.context.is_task;
    }
    // A wait that is not over by then ends with its timeout: two actors may wait for each other.
    if (run.waits.empty()) plan_advance(process, run, Duration(static_cast<Duration::rep>(random_.unit() * 500e3)));
    else queue_.after(1s, [this, id = process.id, call = run.call.get(), began = run.began] {
      SimProcess* process = find(id);
      if (!process) return;
      for (auto& run : process->runs)
        if (run->call.get() == call && run->began == began && !run->waits.empty()) plan_advance(*process, *run, 0ns);
    });
    return;
  }
  if (run.window) return make_items(process, run);
  ErrorPtr error;
  if (random_.chance(0.08)) {
    ErrorRecord record;
    record.code = ErrorCode::kTask;
    record.message = "the function failed";
    error = Error::make(std::move(record));
    calls_[run.token].gave_error = true;
  }
  end(process, run, error);
}

/// As worker::CallRunner::stream_items, an item or more at a time.
void CoreWorld::make_items(SimProcess& process, SimRun& run) {
  const CallTruth& truth = calls_.at(run.token);
  const std::string name = "stream " + std::to_string(run.token);
  for (int n = 1 + int(below(4)); n > 0; --n) {
    {
      worker::CoreLock lock(*process.core);
      run.window->taken(run.call->stream_taken);
      if (run.call->dropped) return end(process, run, nullptr);
    }
    const std::uint64_t made = run.window->made();
    if (made == truth.items) {
      run.call->stream_taken = made;
      return end(process, run, nullptr);
    }
    if (busy_ && random_.chance(0.01)) return end(process, run, make_error<TaskError>("the generator failed"));
    if (!run.window->may_make()) return;  // look() comes back when the reader has taken something
    if (made >= truth.read + truth.buffer)
      return broken("CI-8: " + name + " is to make item " + std::to_string(made) + ", " + std::to_string(truth.read) +
                    " were read, and its reader wants " + std::to_string(truth.buffer) + " ahead");
    if (made > truth.read && (made - truth.read) * sizeof(Label) >= kStreamBytes)
      return broken("CI-8: " + name + " has " + std::to_string(made - truth.read) +
                    " items ahead, more than its bytes");
    const troupe::detail::Value item = value_of(process, {run.token, made}, run.refs, 0.2);
    worker::CoreLock lock(*process.core);
    process.core->host().replies().stream_item(*run.call, made, item);
    run.window->made(sizeof(Label));
    may_die_soon(process.id, 0.01, random_);  // another attempt begins while its reader has some of it (ST-3)
  }
  plan_advance(process, run, Duration(static_cast<Duration::rep>(random_.unit() * 300e3)));
}

void CoreWorld::plan_read(SimProcess& process, Token token) {
  for (Reader& reader : process.readers) {
    if (reader.token != token || std::exchange(reader.planned, true)) continue;
    const double pause = reader.slow ? 30e6 : busy_ && random_.chance(0.05) ? 300e6 : 1e6;
    queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * pause)), [this, id = process.id, token] {
      SimProcess* process = find(id);
      if (!process || !process->core) return;
      read(*process, token);
      if (process->alive) look(*process);
      if (process->alive) check(*process);
    });
  }
}

void CoreWorld::read(SimProcess& process, Token token) {
  auto at = std::find_if(process.readers.begin(), process.readers.end(), [&](auto& one) { return one.token == token; });
  if (at == process.readers.end()) return;
  at->planned = false;
  const troupe::detail::StreamPtr stream = at->stream;
  auto over = [&] { process.readers.erase(at); };
  if (busy_ && random_.chance(0.02)) return over();  // the reader has enough
  CallTruth& truth = calls_.at(token);
  const std::string name = "stream " + std::to_string(token);
  ObjectPtr item;
  bool any;
  {
    worker::CoreLock lock(*process.core);
    any = static_cast<worker::StreamState&>(*stream).take(item);
  }
  if (!any) return;
  if (!item) {
    if (truth.read != truth.items)
      broken("CI-8: " + name + " ends after " + std::to_string(truth.read) + " of " + std::to_string(truth.items) +
             " items");
    return over();
  }
  if (item->state() != troupe::detail::ObjectBase::kReady) return over();
  const worker::ObjectEntry& entry = worker::entry_of(item);
  const auto label = label_of(entry.value);
  if (label != Label{token, truth.read})
    broken("CI-8: " + name + " gives item " + std::to_string(label ? label->index : 0) + " of " +
           std::to_string(label ? label->token : 0) + ", and it should be item " + std::to_string(truth.read));
  made_[entry.id] = {token, truth.read};
  truth.given.insert(truth.read++);
  if (random_.chance(0.3)) process.refs.push_back(item);
  plan_read(process, token);
}

void CoreWorld::end(SimProcess& process, SimRun& run, ErrorPtr error) {
  if (run.token != 0) check_key(run, !error);
  troupe::detail::Invocation invocation;
  if (!error && run.call->head.kind != worker::CallKind::kCast)
    for (std::uint32_t i = 0; i < run.call->head.returns; ++i) {
      invocation.results.push_back(value_of(process, {run.token, i}, run.refs, 0.4));
      // What an actor keeps for a key it keeps for an hour, and what that holds.
      if (!calls_.at(run.token).key.empty()) invocation.results.back().attachments.reset();
      calls_[run.token].given.insert(i);
    }
  // what functions keep in globals
  if (random_.chance(0.1) && !run.refs.empty()) process.refs.push_back(run.refs[below(run.refs.size())]);
  if (std::exchange(run.blocked, false)) {
    worker::CoreLock lock(*process.core);
    process.core->host().task_blocked(run.context, false);
  }
  auto at = std::find_if(process.runs.begin(), process.runs.end(), [&](auto& one) { return one.get() == &run; });
  const std::unique_ptr<SimRun> over = std::move(*at);
  process.runs.erase(at);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(queue_.now() - over->began).count();
  over->call->run_us = std::uint32_t(us);
  process.core->host().end_run(over->call, over->actor, over->context, invocation, error);
  plan_step(process);  // the executor looks for more
}

/// What became ready: functions that waited go on, gets end.
void CoreWorld::look(SimProcess& process) {
  auto settled = [](const ObjectPtr& object) { return object->state() != troupe::detail::ObjectBase::kPending; };
  for (auto& run : process.runs) {
    const bool woken = run->context.interrupt ||
                       (!run->waits.empty() && std::all_of(run->waits.begin(), run->waits.end(), settled)) ||
                       (run->endless && !busy_) || (run->window && (run->call->dropped || may_go_on(*run)));
    if (woken && !run->planned) plan_advance(process, *run, 1us);
  }
  for (const Reader& reader : std::vector<Reader>(process.readers))
    if (!reader.planned) plan_read(process, reader.token);
  for (std::size_t i = 0; i < process.gets.size();) {
    if (!settled(process.gets[i].object)) { ++i; continue; }
    const ObjectPtr object = std::move(process.gets[i].object);
    process.gets.erase(process.gets.begin() + std::ptrdiff_t(i));
    check_settled(process, *object);
    const auto& value = worker::entry_of(object).value;
    if (dropping_ || object->state() != troupe::detail::ObjectBase::kReady || !value.attachments) continue;
    for (const auto& inner : value.attachments->objects)
      if (random_.chance(0.6)) process.refs.push_back(inner);
    for (const auto& handle : value.attachments->handles)
      if (random_.chance(0.5)) process.handles.push_back(handle);
  }
}

/// A process that ended: what it knew is gone, and what only it kept alive may be.
void CoreWorld::bury(SimProcess& process) {
  if (!process.core) return;
  {
    worker::CoreLock lock(*process.core);
    process.core->objects().for_each([&](worker::ObjectEntry& entry) {
      if (!entry.owned) tainted_.insert(entry.id);
    });
  }
  process.refs.clear();
  process.handles.clear();
  process.gets.clear();
  process.readers.clear();
  {
    worker::CoreLock lock(*process.core);
    process.core->host().clear();
  }
  process.runs.clear();
  const std::size_t left = process.core->take_apart();
  if (left != 0)
    broken("CI-7: " + std::to_string(left) + " things of dead process " + to_string(process.id) + " hold each other");
  process.core.reset();
  process.memory.reset();
}

}  // namespace troupe::sim
