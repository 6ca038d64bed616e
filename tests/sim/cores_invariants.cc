// The truth of the cores' world against what the cores believe: CI-1 to CI-7, CI-9 to CI-14 of cores.h.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/cores.h"

namespace troupe::sim {

using troupe::detail::ObjectBase;
using worker::ObjectEntry;

namespace {
constexpr int kRoundsMax = 40;                 ///< five were seen
constexpr std::uint64_t kAskedMax = 1'000'000;  ///< how often a process may ask for the time in one event
}  // namespace

/// After each step of a process: what its user holds is what it was; now and then, that everybody's holds are kept.
void CoreWorld::check(SimProcess& process) {
  if (!broken_.empty()) return;
  for (const auto& ref : process.refs) check_settled(process, *ref);
  for (const auto& run : process.runs)
    for (const auto& ref : run->refs) check_settled(process, *ref);
  if (steps_ % 8 == 0) check_held();
  if (steps_ % 16 == 0) check_leases();
}

void CoreWorld::check_leases() {
  for (auto& [number, node] : nodes_)
    if (node->alive)
      if (const std::string wrong = node->leases->audit(); !wrong.empty())
        return broken("CI-14: node " + std::to_string(number) + ": " + wrong);
}

void CoreWorld::check_held() {
  for (auto& [number, node] : nodes_) {
    if (!node->alive) continue;
    for (auto& [serial, process] : node->processes) {
      if (!process->alive || !process->core) continue;
      worker::CoreLock lock(*process->core);
      process->core->objects().for_each([&](ObjectEntry& entry) {
        if (entry.owned || entry.use_count() == 0 || entry.state() == ObjectBase::kFailed ||
            tainted_.contains(entry.id))
          return;
        SimProcess* owner = find(entry.id.maker);
        if (owner && owner->core && !owner->core->objects().knows(entry.id))
          broken("CI-1: object " + to_string(entry.id) + " is freed, and process " + to_string(process->id) +
                 " holds it");
      });
    }
  }
}

void CoreWorld::check_settled(const SimProcess& process, const ObjectBase& object) {
  if (object.state() == ObjectBase::kPending) return;
  const auto& entry = static_cast<const ObjectEntry&>(object);
  auto wrong = [&](const std::string& text) {
    broken("CI-3: object " + to_string(entry.id) + " in process " + to_string(process.id) + " " + text);
  };
  Outcome seen;
  seen.ready = object.state() == ObjectBase::kReady;
  if (seen.ready) seen.label = label_of(entry.value);
  else seen.code = entry.error->code();
  auto made = made_.find(entry.id);
  if (seen.ready && (made == made_.end() || !seen.label)) return wrong("is not what was made");
  if (seen.ready && seen.label != made->second) {  // CI-9: of another call with its key
    const std::string& key = calls_[made->second.token].key;
    if (key.empty() || calls_[seen.label->token].key != key || seen.label->index != made->second.index)
      return wrong("is not what was made");
  }
  if (seen.ready)
    if (auto call = calls_.find(seen.label->token);
        call != calls_.end() && !call->second.given.contains(made->second.index))
      return wrong("has a value that no function gave");
  if (!seen.ready) check_death(entry);
  else check_memory(process, entry.id, entry.value);
  const bool lost = !seen.ready && (seen.code == ErrorCode::kOwnerDied || seen.code == ErrorCode::kObjectLost);
  if (!entry.owned && lost) {
    SimProcess* owner = find(entry.id.maker);
    const auto own = outcomes_.find(entry.id);
    const bool so_made = (own != outcomes_.end() && own->second.code == seen.code) ||
                         (owner && owner->core->objects().code_of(entry.id) == seen.code);
    if (owner && !so_made && !tainted_.contains(entry.id))
      wrong(std::string("is lost, and its owner lives: ") + entry.error->message());
    return;
  }
  auto [known, fresh] = outcomes_.emplace(entry.id, seen);
  if (!fresh &&
      (known->second.ready != seen.ready || known->second.label != seen.label || known->second.code != seen.code))
    wrong("has changed, or is not the same everywhere");
}

void CoreWorld::check_begin(const SimProcess& process, const SimRun& run) {
  const auto label = label_of(run.call->arguments);
  auto at = label ? calls_.find(label->token) : calls_.end();
  if (at == calls_.end())
    return broken("CI-3: process " + to_string(process.id) + " runs a call that nobody submitted");
  const_cast<SimRun&>(run).token = label->token;
  CallTruth& truth = at->second;
  const std::uint32_t attempt = run.call->head.attempt;
  const std::string name = "call " + std::to_string(label->token) + " of " + to_string(truth.submitter);
  say(name + " attempt " + std::to_string(attempt) + " begins in " + to_string(process.id));
  if (!truth.attempts.insert(attempt).second)
    broken("CI-5: attempt " + std::to_string(attempt) + " of " + name + " begins twice");
  if (attempt > 0 && !truth.may_repeat) broken("CI-5: " + name + " is repeated against its options");
  if (!run.actor || truth.order == 0) return;
  std::uint64_t& last =
      last_order_[{run.call->head.actor, run.context.attempt, run.call->source, run.call->head.caller}];
  if (truth.order <= last) broken("CI-4: " + name + " begins after a later one of its caller");
  last = truth.order;
}

/// CI-13
void CoreWorld::check_memory(const SimProcess& process, const ObjectId& object, const troupe::detail::Value& value) {
  if (!value.attachments) return;
  for (const auto& buffer : value.attachments->buffers) {
    const worker::BufferEntry& entry = worker::buffer_of(buffer);
    if (entry.desc.node != process.id.node) continue;
    const std::string name = "CI-13: memory of object " + to_string(object) + " in process " + to_string(process.id);
    if (entry.state == worker::BufferEntry::State::kLost) return broken(name + " is lost");
    if (entry.data() && std::memcmp(entry.data(), value.data(), sizeof(Label)) != 0)
      return broken(name + " is other memory now");
  }
}

/// CI-12
void CoreWorld::check_rounds(const Frame& call) {
  worker::CallHead head;
  std::memcpy(&head, call.payload.data(), sizeof head);
  if (head.kind != worker::CallKind::kTask) return;
  const int rounds = ++rounds_[{call.header.source, head.call_id, head.attempt}];
  if (rounds > kRoundsMax)
    broken("CI-12: attempt " + std::to_string(head.attempt) + " of task " + std::to_string(head.call_id) + " of " +
           to_string(call.header.source) + " came to workers " + std::to_string(rounds) + " times");
}

/// CI-12: nothing else ends a process that goes round within one event.
void CoreWorld::check_ends(const SimProcess& process) {
  if (++asked_time_ < kAskedMax) return;
  std::printf("seed %llu of world cores failed: CI-12: process %s goes round without an end\n",
              static_cast<unsigned long long>(options_.seed), to_string(process.id).c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

/// CI-9: of an actor's calls with a key.
void CoreWorld::check_key(const SimRun& run, bool executed) {
  const CallTruth& truth = calls_.at(run.token);
  if (truth.key.empty()) return;
  const std::pair life{truth.key, run.context.attempt};
  auto at = executed_.find(life);
  const bool its_own = at != executed_.end() && at->second.first == run.token;
  if (at != executed_.end() && !its_own)
    return broken("CI-9: call " + std::to_string(run.token) + " runs, and call " + std::to_string(at->second.first) +
                  " with its key " + (at->second.second ? "was executed" : "is running"));
  if (executed) executed_[life] = {run.token, true};
  else if (its_own) executed_.erase(at);  // it failed: the next one runs
  else executed_[life] = {run.token, false};
}

/// CI-10
void CoreWorld::check_death(const ObjectEntry& entry) {
  auto made = made_.find(entry.id);
  if (entry.error->code() != ErrorCode::kActorDied || !entry.owned || made == made_.end()) return;
  auto at = calls_.find(made->second.token);
  if (at == calls_.end() || at->second.kind != worker::CallKind::kActorCall) return;
  const CallTruth& truth = at->second;
  const std::string name = "call " + std::to_string(at->first) + " of " + to_string(truth.submitter);
  const std::string& dead = entry.error->context().actor_id;
  if (dead.empty() ? truth.depends : dead != truth.actor) return;  // the error of what it depends on
  const troupe::Outcome said = entry.error->record().outcome;
  // Of a frame that waited for room in a ring its sender does not know whether the peer saw it before it died.
  // What a lost node had begun nobody knows; of all others rings and daemons tell each call (A.18).
  const bool exact = !options_.full_rings && std::all_of(nodes_.begin(), nodes_.end(),
                                                         [](const auto& one) { return one.second->alive; });
  if (said == troupe::Outcome::kNotExecuted && !truth.attempts.empty() && truth.key.empty())
    broken("CI-10: " + name + " is said not to have been executed, and began: " + entry.error->message());
  // What it depends on may have been a call of the same actor, whose error it has.
  if (said == troupe::Outcome::kUnknown && !truth.noted && exact && !truth.depends)
    broken("CI-10: " + name + " is said to have been executed perhaps, and never began: " + entry.error->message());
  if (!faults_ && !ended_actors_.contains(truth.actor))
    broken("CI-10: " + name + " fails with the death of an actor that nobody ended: " + entry.error->message());
}

void CoreWorld::check_rest() {
  for (auto& [number, node] : nodes_) {
    if (!node->alive) continue;
    for (auto& [serial, process] : node->processes) {
      if (!process->alive || !process->core) continue;
      const std::string who = "process " + to_string(process->id);
      const bool pooled = process->role == wire::Role::kWorker && !process->actor && !process->light_host;
      const bool asked = std::any_of(node->retiring.begin(), node->retiring.end(),
                                     [&](const auto& one) { return one.second == process->id; });
      if (pooled && !asked && node->leases->workers().state(process->id).empty())
        return broken("CI-11: worker " + to_string(process->id) + " is idle, and nobody can lease it");
      for (const Get& get : process->gets)
        return broken("CI-6: " + who + " still waits for object " + to_string(worker::entry_of(get.object).id) +
                      (find(worker::entry_of(get.object).id.maker) ? "" : ", whose owner is dead"));
      for (const Reader& reader : process->readers)
        return broken("CI-6: " + who + " still waits for an item of stream " + std::to_string(reader.token) +
                      " after " + std::to_string(calls_.at(reader.token).read));
      if (!process->runs.empty())
        return broken("CI-6: " + who + " still runs call " + std::to_string(process->runs.front()->token));
      worker::CoreLock lock(*process->core);
      if (process->core->calls().open() != 0) {
        std::string calls;
        process->core->calls().for_each([&](worker::PendingCall& call) {
          const auto label = label_of(call.arguments);
          calls += " " + std::to_string(label ? label->token : 0) + " (kind " + std::to_string(int(call.kind)) +
                   ", state " + std::to_string(int(call.state)) + ", to " + to_string(call.target) +
                   (call.cancelled ? ", cancelled" : "");
          for (const auto& dependency : call.dependencies)
            if (dependency->state() == ObjectBase::kPending)
              calls += ", waits for " + to_string(worker::entry_of(dependency).id);
          calls += ")";
        });
        return broken("CI-6: open calls of " + who + ":" + calls);
      }
      process->core->objects().for_each([&](ObjectEntry& entry) {
        auto wrong = [&](const std::string& text) { broken("CI-2: object " + to_string(entry.id) + ": " + text); };
        ObjectEntry::Rare* rare = entry.rare_if();
        if (!rare) return;
        if (!entry.owned) {
          SimProcess* owner = find(entry.id.maker);
          if (!owner || tainted_.contains(entry.id) || entry.state() == ObjectBase::kFailed) return;
          if (rare->grants == 0 || owner->core->objects().grants_of(entry.id, process->id) != rare->grants)
            wrong(who + " has " + std::to_string(rare->grants) + " grants, and its owner counts " +
                  std::to_string(owner->core->objects().grants_of(entry.id, process->id)));
          return;
        }
        for (const auto& [borrower, grants] : rare->borrowers) {
          SimProcess* holder = find(borrower);
          if (!holder) wrong("its owner counts dead process " + to_string(borrower));
          else if (!holder->core->objects().borrows(entry.id))
            wrong("its owner counts process " + to_string(borrower) + ", which does not hold it");
        }
      });
    }
  }
}

void CoreWorld::check_empty() {
  for (auto& [number, node] : nodes_) {
    if (!node->alive) continue;
    for (auto& [serial, process] : node->processes) {
      if (!process->alive || !process->core) continue;
      worker::Core& core = *process->core;
      worker::CoreLock lock(core);
      auto left = [&](const char* what, std::size_t count) {
        if (count != 0)
          broken("CI-7: process " + to_string(process->id) + " has " + std::to_string(count) + " " + what + " left");
      };
      core.objects().for_each([&](ObjectEntry& entry) {
        broken("CI-7: process " + to_string(process->id) + " keeps object " + to_string(entry.id) + ", " +
               std::to_string(entry.use_count()) + " owners, " +
               (entry.owned ? std::to_string(entry.rare_if() ? entry.rare_if()->borrowers.size() : 0) + " borrowers"
                            : "borrowed"));
      });
      left("open calls", core.calls().open());
      core.owner().holds().for_each_hold([&](const worker::Outgoing& hold) {
        say("process " + to_string(process->id) + " holds " + std::to_string(hold.objects.size()) + " objects, " +
            std::to_string(hold.buffers.size()) + " buffers and " + std::to_string(hold.handles.size()) +
            " handles for " + to_string(hold.destination));
      });
      left("frames that were not acknowledged", core.owner().holds().held());
      left("frames that it did not acknowledge", core.owner().holds().arriving());
      left("open requests", core.requests().open());
      left("actor clients", core.actors().known());
      if (process->memory) process->memory->client().trim();
    }
    if (node->memory && node->memory->usage().objects != 0)
      return broken("CI-7: " + std::to_string(node->memory->usage().objects) + " buffers of node " +
                    std::to_string(number) + " are left");
    if (std::string books = node->leases->audit(); !books.empty())
      return broken("CI-7: leases of node " + std::to_string(number) + ": " + books);
    if (node->leases->pending() != 0) return broken("CI-7: node " + std::to_string(number) + " has leases waiting");
    if (node->leases->resources().available() != node->leases->resources().total())
      return broken("CI-7: node " + std::to_string(number) + " has only " +
                    node->leases->resources().available().to_string() + " left");
  }
}

}  // namespace troupe::sim
