// Forming a group of actors, from any process of the job:
//
//   founder                                               processes of the members
//     waits until all actors are constructed
//     asks the head where they live, plans (formation.h)
//     "make the memory of your node" ------------------>    lowest rank of each node that shares memory
//     puts the record into the key-value table, where the one before still stands (GA-1)
//     where one of both fails: "ended" ---------------->    all: the memory is let go of (GA-3)
//     "formed: this record" --------------------------->    all: are expected by their daemons, end the older epoch
//     "ended" ----------------------------------------->    members of the older epoch only, and its founder
//     watches every actor: a death fails the group, and is told to all
//
// It returns when all have answered, so that no handle of the older epoch is of use afterwards.
//
// Invariants
//   GA-1  A record is replaced only by one of a larger epoch; the older epoch is ended (kStale) after that. Of several
//         founders at the same moment one succeeds: the record is put only where the one that it follows still stands.
//   GA-3  Memory of an epoch that is not formed is let go of, wherever a maker of it lives.
// Thread rule: any thread of a driver or worker.
#include "collective/group/forming.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/base/backend_name.h"
#include "collective/group/epochs.h"
#include "collective/group/formation.h"
#include "collective/group/rank_net.h"
#include "core/base/environment.h"
#include "core/process/core.h"
#include <troupe/collective.h>
#include <troupe/detail/kv_swap.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

namespace troupe::collective {
namespace {

using troupe::detail::HandlePtr;

// of all actors' constructors, and of those that are restarted
constexpr auto kReadyTimeout = std::chrono::seconds(60);
// for a member's process to take in a word; one that is frozen does not
constexpr auto kTellTimeout = std::chrono::seconds(10);
constexpr auto kEndTimeout = std::chrono::seconds(2);     // the older epoch is gone anyway: its members may be frozen
constexpr auto kHeadTimeout = std::chrono::seconds(30);
constexpr auto kForcedBackend = "TROUPE_COLLECTIVE_BACKEND";

using Words = std::vector<std::pair<ProcessId, wire::GroupWord>>;

/// Sends each its word and waits for the answers, in the same order; an error where a process died or the time is over.
std::vector<Result<wire::GroupAnswer>> ask_all(worker::Core& core, const Words& words, Duration timeout) {
  struct Answers {
    std::vector<std::optional<Result<wire::GroupAnswer>>> got;
    std::size_t left = 0;
    exec::Waiter* waiter = nullptr;
  };
  auto answers = std::make_shared<Answers>();
  answers->got.resize(words.size());
  answers->left = words.size();
  exec::Waiter waiter(core);
  {
    worker::CoreLock lock(core);
    answers->waiter = &waiter;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto done = [answers, i](Result<wire::GroupAnswer> answer) {
        answers->got[i].emplace(std::move(answer));
        if (--answers->left == 0 && answers->waiter) answers->waiter->notify();
      };
      if (core.frames().is_dead(words[i].first))
        done(WorkerCrashedError("the process " + to_string(words[i].first) + " is dead"));
      else core.requests().send<wire::GroupAnswer>(words[i].first, wire::Method::kGroupWord, words[i].second, done);
    }
  }
  const auto deadline = exec::deadline_after(timeout);
  std::vector<Result<wire::GroupAnswer>> out;
  for (bool over = words.empty();;) {
    if (!over) over = !waiter.wait(deadline);
    worker::CoreLock lock(core);
    if (!over && answers->left != 0) continue;
    answers->waiter = nullptr;
    for (auto& one : answers->got)
      out.push_back(one ? std::move(*one) : Result<wire::GroupAnswer>(GetTimeoutError("no answer in time")));
    return out;
  }
}

/// All constructors are done; the first error passes through as it is.
void await_ready(const std::string& name, const std::vector<HandlePtr>& members) {
  std::vector<ObjectRef<void>> ready;
  for (const HandlePtr& member : members)
    ready.push_back(troupe::detail::make_ref<void>(troupe::detail::actor_ready(member)));
  try {
    troupe::get(ready, {.timeout = kReadyTimeout});
  } catch (const GetTimeoutError&) {
    std::vector<int> missing;
    for (std::size_t r = 0; r < ready.size(); ++r)
      if (!try_get(ready[r], {.timeout = Duration::zero()}).ok()) missing.push_back(int(r));
    throw CollectiveError::from(
        {.reason = Reason::kTimeout, .group = name, .operation = "create_group", .missing_ranks = missing},
        "some actors were not constructed in time");
  }
}

std::vector<std::string> ids_of(const std::vector<HandlePtr>& members) {
  if (members.empty()) throw InvalidArgumentError("a group without members");
  if (members.size() > std::size_t(kTcpRanksMax))
    throw InvalidArgumentError(fmt::format("{} members, and a group has at most {}", members.size(), kTcpRanksMax));
  std::vector<std::string> ids;
  for (const HandlePtr& member : members) {
    if (!member) throw InvalidArgumentError("an empty actor handle");
    ids.push_back(troupe::detail::handle_id(member));
  }
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size())
    throw InvalidArgumentError("an actor is twice among the members of a group");
  return ids;
}

/// Where an actor lives now. One that is being restarted is waited for: its move wakes us.
wire::ActorLocation locate(worker::Core& core, const std::string& group, int rank, const HandlePtr& handle,
                           exec::Waiter& waiter, exec::Deadline deadline) {
  const worker::ActorClient& client = worker::client_of(handle);
  wire::ActorLocation location;
  {
    worker::CoreLock lock(core);
    // these never move
    if (worker::ActorClient& known = worker::client_of(handle); known.light() && known.desc().host != ProcessId{}) {
      location.state = wire::ActorState::kAlive;
      location.process = known.desc().host;
      return location;
    }
  }
  for (;;) {
    location = core.requests()
                   .call<wire::ActorLocation>(kHead, wire::Method::kResolveActor, wire::ResolveActor{client.id()},
                                              kHeadTimeout)
                   .value();
    if (location.state == wire::ActorState::kAlive) return location;
    if (location.state == wire::ActorState::kDead) {
      if (location.error) Error::make(*location.error)->raise();
      throw CollectiveError::from(
          {.reason = Reason::kDied, .group = group, .operation = "create_group", .missing_ranks = {rank}},
          fmt::format("rank {} is dead", rank));
    }
    if (!waiter.wait(deadline))
      throw CollectiveError::from(
          {.reason = Reason::kTimeout, .group = group, .operation = "create_group", .missing_ranks = {rank}},
          fmt::format("rank {} is being restarted", rank));
  }
}

std::vector<GroupMember> places_of(worker::Core& core, const std::string& name, const std::vector<HandlePtr>& handles,
                                   const std::vector<std::string>& ids) {
  const auto cluster =
      core.requests().call<wire::ClusterInfo>(kHead, wire::Method::kClusterInfo, wire::Empty{}, kHeadTimeout).value();
  exec::Waiter waiter(core);
  const Epochs::Listener listener(Epochs::instance(), waiter);
  const auto deadline = exec::deadline_after(kReadyTimeout);
  std::vector<GroupMember> members;
  for (std::size_t r = 0; r < handles.size(); ++r) {
    const wire::ActorLocation location = locate(core, name, int(r), handles[r], waiter, deadline);
    GroupMember member{.actor = ids[r],
                       .node = {},
                       .data_address = {},
                       .process = location.process,
                       .restarts = location.restarts,
                       .gpu = worker::client_of(handles[r]).holds_gpu()};
    for (const wire::NodeInfo& node : cluster.nodes)
      if (node.node == location.process.node) member.node = node.node_id, member.data_address = node.data_address;
    if (member.node.empty())
      throw CollectiveError::from(
          {.reason = Reason::kDied, .group = name, .operation = "create_group", .missing_ranks = {int(r)}},
          fmt::format("the node of rank {} (actor {}) is gone", r, ids[r]));
    members.push_back(std::move(member));
  }
  return members;
}

/// The lowest rank of each node that shares memory makes it, and holds its descriptor.
void make_memories(worker::Core& core, const std::string& name, const std::string& key, const FormationPlan& plan,
                   GroupRecord& record) {
  Words words;
  for (const MemoryPlan& memory : plan.memories)
    words.push_back({record.members[std::size_t(memory.ranks.front())].process,
                     {.kind = wire::GroupWordKind::kMemory,
                      .key = key,
                      .group = record.id,
                      .epoch = record.epoch,
                      .memory_key = memory_key(record, memory.node),
                      .ranks = int(memory.ranks.size())}});
  const auto answers = ask_all(core, words, kTellTimeout);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const int rank = plan.memories[i].ranks.front();
    if (!answers[i].ok()) {
      const bool late = answers[i].error().code() == ErrorCode::kGetTimeout;
      throw CollectiveError::from({.reason = late ? Reason::kTimeout : Reason::kDied,
                                   .group = name,
                                   .epoch = record.epoch,
                                   .operation = "create_group",
                                   .missing_ranks = {rank}},
                                  fmt::format("rank {} made no memory for node {}: {}", rank, plan.memories[i].node,
                                              answers[i].error().message()));
    }
    record.memories.push_back({plan.memories[i].node, answers[i]->pid, answers[i]->fd});
  }
}

std::set<ProcessId> processes_of(const GroupRecord& record) {
  std::set<ProcessId> processes;
  for (const GroupMember& member : record.members) processes.insert(member.process);
  return processes;
}

Words ends_of(const std::string& key, const GroupRecord& old, const std::set<ProcessId>& but) {
  Words words;
  std::set<ProcessId> processes = processes_of(old);
  processes.insert(old.founder);
  for (ProcessId process : processes)
    if (!but.contains(process))
      words.push_back(
          {process, {.kind = wire::GroupWordKind::kEnded, .key = key, .group = old.id, .epoch = old.epoch}});
  return words;
}

/// A death is a failure from the moment it is known, also of a rank that has not entered yet.
void watch(worker::Core& core, const std::string& key, const GroupRecord& record,
           const std::vector<HandlePtr>& members) {
  for (std::size_t r = 0; r < members.size(); ++r) {
    const auto death = troupe::detail::make_ref<ActorDeath>(troupe::detail::monitor_actor(members[r]));
    on_ready(death,
             [&core, key, which = EpochNumber{record.id, record.epoch}, rank = int(r),
              actor = record.members[r].actor](Result<ActorDeath>&& died) {
               if (died.ok())
                 Epochs::instance().fail(
                     core, key, which,
                     {Reason::kDied, fmt::format("rank {} (actor {}) died: {}", rank, actor, died->message), {rank}});
             });
  }
}

/// Formed is what all members' processes know of; else the epoch fails, and the caller hears who is missing.
void expect_taken(worker::Core& core, const std::string& name, const std::string& key, const GroupRecord& record,
                  const Words& words, const std::vector<Result<wire::GroupAnswer>>& answers) {
  Failure failure{Reason::kTimeout, {}, {}};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) continue;
    if (answers[i].error().code() != ErrorCode::kGetTimeout) failure.reason = Reason::kDied;
    for (std::size_t r = 0; r < record.members.size(); ++r)
      if (record.members[r].process == words[i].first) failure.missing_ranks.push_back(int(r));
    failure.text = answers[i].error().message();
  }
  if (failure.missing_ranks.empty()) return;
  std::ranges::sort(failure.missing_ranks);
  failure.text =
      fmt::format("ranks {} did not take their places: {}", fmt::join(failure.missing_ranks, ", "), failure.text);
  Epochs::instance().fail(core, key, {record.id, record.epoch}, failure);
  throw CollectiveError::from({.reason = failure.reason,
                               .group = name,
                               .epoch = record.epoch,
                               .operation = "create_group",
                               .missing_ranks = failure.missing_ranks},
                              failure.text);
}

struct Wanted {
  std::string name, key;
  Backend backend = Backend::kAuto;
  bool deterministic = false;
  Duration timeout{};
  std::optional<GroupRecord> old;  // the epoch before
  bool forced = false;             // by this process's environment
};

/// GA-1
void put_record(const Wanted& wanted, const GroupRecord& record) {
  const std::string text = encode(record);
  const auto before = wanted.old ? std::optional(encode(*wanted.old)) : std::nullopt;
  if (troupe::detail::kv_swap(wanted.key, before, text) == text) return;
  throw CollectiveError::from({.reason = Reason::kStale,
                               .group = wanted.name,
                               .epoch = record.epoch,
                               .operation = wanted.old ? "reform" : "create_group"},
                              "another process formed the group at the same moment");
}

/// What cannot be is refused by the name under which it was asked for.
FormationPlan plan_for(const Wanted& wanted, const std::vector<GroupMember>& members) {
  auto plan = plan_formation(members, wanted.backend);
  if (!plan.ok() && wanted.forced)
    throw InvalidArgumentError(
        fmt::format("{}={}: {}", kForcedBackend, backend_name(wanted.backend), plan.error().message()));
  return std::move(plan).value();
}

void form(const Wanted& wanted, const std::vector<HandlePtr>& handles) {
  worker::Core& core = worker::require_core();
  const std::vector<std::string> ids = ids_of(handles);
  await_ready(wanted.name, handles);
  const Secret secret = make_secret().value();
  GroupRecord record{.epoch = wanted.old ? wanted.old->epoch + 1 : 1,
                     .timeout_ns = wanted.timeout.count(),
                     .deterministic = wanted.deterministic,
                     .id = number_of(secret, "id"),
                     .secret = hex_of(secret),
                     .founder = core.self(),
                     .memories = {},
                     .members = places_of(core, wanted.name, handles, ids)};
  const FormationPlan plan = plan_for(wanted, record.members);
  record.backend = plan.backend;
  record.asked = wanted.backend;
  try {
    make_memories(core, wanted.name, wanted.key, plan, record);
    put_record(wanted, record);
  } catch (...) {  // what the members have prepared is given up, also where a word of it is still on its way
    (void)ask_all(core, ends_of(wanted.key, record, {}), kEndTimeout);
    throw;
  }

  Words words;
  const std::set<ProcessId> processes = processes_of(record);
  for (ProcessId process : processes)
    words.push_back({process,
                     {.kind = wire::GroupWordKind::kFormed,
                      .key = wanted.key,
                      .group = record.id,
                      .epoch = record.epoch,
                      .record = encode(record)}});
  Epochs::instance().found(core, wanted.key, record);
  const auto answers = ask_all(core, words, kTellTimeout);
  if (wanted.old && !wanted.old->destroyed)
    (void)ask_all(core, ends_of(wanted.key, *wanted.old, processes), kEndTimeout);
  watch(core, wanted.key, record, handles);
  expect_taken(core, wanted.name, wanted.key, record, words, answers);
}

/// What the environment asks for where the program leaves the choice.
Backend chosen(Backend asked) {
  static const Result<Backend> forced = backend_named(environment(kForcedBackend));
  return asked != Backend::kAuto ? asked : forced.value();
}

}  // namespace

std::string group_key(const std::string& name) {
  if (name.empty()) throw InvalidArgumentError("a group needs a name");
  return record_key(std::to_string(worker::require_core().welcome().job), name);
}

std::optional<GroupRecord> find_record(const std::string& key) {
  const std::optional<std::string> text = kv::get(key);
  if (!text) return std::nullopt;
  return decode_record(*text).value();
}

std::uint64_t memory_key(const GroupRecord& record, const std::string& node) {
  return number_of(secret_of(record.secret).value(), "memory " + node);
}

namespace detail {

void create_group(const std::vector<HandlePtr>& members, const GroupOptions& options) {
  const std::string key = group_key(options.name);
  if (options.timeout <= Duration::zero()) throw InvalidArgumentError("the timeout of a group is positive");
  const auto existing = find_record(key);
  if (existing && !existing->destroyed)
    throw InvalidArgumentError(fmt::format("there is a group '{}' already", options.name));
  form({options.name, key, chosen(options.backend), options.deterministic, options.timeout, existing,
        options.backend == Backend::kAuto},
       members);
}

void reform(const std::string& name, const std::vector<HandlePtr>& members) {
  const std::string key = group_key(name);
  const auto existing = find_record(key);
  if (!existing || existing->destroyed) throw NotFoundError(fmt::format("there is no group '{}'", name));
  form({name, key, existing->asked, existing->deterministic, Duration(existing->timeout_ns), existing, false}, members);
}

troupe::detail::ObjectPtr broken(const std::string& name) {
  worker::Core& core = worker::require_core();
  const auto epoch = Epochs::instance().founded(core, group_key(name));
  if (!epoch) throw NotFoundError(fmt::format("this process has formed no group '{}'", name));
  troupe::detail::ObjectPtr ref;
  {
    worker::CoreLock lock(core);
    ref = troupe::detail::ObjectPtr::adopt(core.objects().make_owned());
  }
  Epochs::instance().tell_end(epoch, ref);
  return ref;
}

}  // namespace detail

void destroy_group(const std::string& name) {
  worker::Core& core = worker::require_core();
  const std::string key = group_key(name);
  auto record = find_record(key);
  for (bool done = false; !done;) {  // each time round, somebody else has changed it
    if (!record || record->destroyed) throw NotFoundError(fmt::format("there is no group '{}'", name));
    const std::string before = encode(*record);
    record->destroyed = true;
    const std::string after = encode(*record), now = troupe::detail::kv_swap(key, before, after);
    done = now == after;
    if (!done) record = find_record(key);
  }
  Epochs::instance().end(core, key, {record->id, record->epoch});
  (void)ask_all(core, ends_of(key, *record, {core.self()}), kEndTimeout);
}

}  // namespace troupe::collective
