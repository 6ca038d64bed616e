// Groups of actors: the binding of groups to the runtime.
//
//   founder (create_group, reform)                          member (group)
//     waits until all actors are constructed                  reads the record, finds its rank by its actor id
//     makes the shared memory, holds its descriptor           opens the memory through the founder's process
//     writes the record to the key-value table                takes its place
//     monitors every actor: a final death fails the group     watches the others' processes while it waits
//
// So a member needs no message to join: a rank in the middle of a long method finds the next epoch by looking it up. All
// members are on the founder's node.
//
// Invariants
//   GA-1  A record is replaced only by one of a larger epoch; the memory of the older epoch is failed (kStale) after that.
//   GA-2  A member takes its rank once an epoch; an actor that was restarted must be taken into the next epoch.
// Thread rule: any thread of a driver or worker.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/member.h"
#include "collective/registry.h"
#include "collective/shm_communicator.h"
#include "core/exec/fibers.h"
#include "core/worker/actor_clients.h"
#include "core/worker/core.h"
#include "core/worker/waits.h"
#include <troupe/collective.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

namespace troupe::collective {
namespace {

using troupe::detail::HandlePtr;

constexpr auto kReadyTimeout = std::chrono::seconds(60);  // of all actors' constructors
constexpr auto kLookMax = std::chrono::milliseconds(20);  // between two looks for a record that is not there yet

/// The runtime, as a waiting operation sees it.
class RuntimeEnvironment final : public Environment {
 public:
  explicit RuntimeEnvironment(worker::Core& core) : core_(core) {}
  bool on_fiber() override { return exec::on_fiber(); }
  std::unique_ptr<Suspension> suspension() override { return exec::on_fiber() ? std::make_unique<Fiber>(core_) : nullptr; }
  void check() override {
    if (!worker::current_context()) return;  // a thread of the library's own
    exec::Waiter waiter(core_);
    worker::WaitScope scope(core_, waiter);
    worker::CoreLock lock(core_);
    scope.check();
  }

 private:
  class Fiber final : public Suspension {
   public:
    explicit Fiber(worker::Core& core) : core_(core), waiter_(core), scope_(core, waiter_) {}
    void notify() noexcept override { waiter_.notify(); }
    bool wait(Clock::time_point deadline) override {
      {
        worker::CoreLock lock(core_);
        scope_.check();
      }
      return scope_.wait(deadline);
    }

   private:
    worker::Core& core_;
    exec::Waiter waiter_;
    worker::WaitScope scope_;
  };
  worker::Core& core_;
};

/// This process's groups. Those it founded: their memory lives as long as the group. Those it is a member of, by actor.
struct Groups {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<ShmSegment>> founded;                                        // by record key
  std::map<std::pair<std::string, std::string>, std::shared_ptr<detail::Member>> members;            // by actor and record key
  std::vector<std::thread> watchers;                                                                 // of broken(): each ends with its epoch or the runtime
};
Groups& groups() {
  static Groups& instance = *new Groups;  // threads of user code may outlive main
  return instance;
}

std::string key_of(const std::string& name) {
  if (name.empty()) throw InvalidArgumentError("a group needs a name");
  return record_key(runtime_context().job_id, name);
}

std::optional<GroupRecord> find_record(const std::string& key) {
  const std::optional<std::string> text = kv::get(key);
  if (!text) return std::nullopt;
  return decode_record(*text).value();
}

/// All constructors are done; the first error passes through as it is.
void await_ready(const std::string& name, const std::vector<HandlePtr>& members) {
  std::vector<ObjectRef<void>> ready;
  for (const HandlePtr& member : members) ready.push_back(troupe::detail::make_ref<void>(troupe::detail::actor_ready(member)));
  try {
    troupe::get(ready, {.timeout = kReadyTimeout});
  } catch (const GetTimeoutError&) {
    std::vector<int> missing;
    for (std::size_t r = 0; r < ready.size(); ++r)
      if (!try_get(ready[r], {.timeout = Duration::zero()}).ok()) missing.push_back(int(r));
    throw CollectiveError::from({.reason = Reason::kTimeout, .group = name, .operation = "create_group", .missing_ranks = missing}, "some actors were not constructed in time");
  }
}

void check_places(const std::vector<std::string>& ids) {
  const std::string here = runtime_context().node_id;
  for (std::size_t r = 0; r < ids.size(); ++r)
    for (const ActorRow& row : list_actors({.filter = {{"actor_id", ids[r]}}}))
      if (!row.node_id.empty() && row.node_id != here)
        throw InvalidArgumentError(fmt::format("rank {} (actor {}) is on node {}, the caller on node {}: groups in shared memory are on one node", r, ids[r], row.node_id, here));
}

std::vector<std::string> ids_of(const std::vector<HandlePtr>& members) {
  if (members.empty()) throw InvalidArgumentError("a group without members");
  std::vector<std::string> ids;
  for (const HandlePtr& member : members) {
    if (!member) throw InvalidArgumentError("an empty actor handle");
    ids.push_back(troupe::detail::handle_id(member));
  }
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size()) throw InvalidArgumentError("an actor is twice among the members of a group");
  return ids;
}

/// Makes an epoch and shows it: the record first, then the end of the epoch before (GA-1).
void form(const std::string& name, const std::string& key, std::uint64_t epoch, Duration timeout, const std::vector<HandlePtr>& members) {
  const std::vector<std::string> ids = ids_of(members);
  await_ready(name, members);
  check_places(ids);
  std::random_device random;
  GroupRecord record{.epoch = epoch, .timeout_ns = timeout.count(), .founder_pid = ::getpid(), .key = std::uint64_t(random()) << 32 | random(), .members = ids};
  std::shared_ptr<ShmSegment> segment = ShmSegment::create({.ranks = int(ids.size()), .epoch = epoch, .key = record.key}).value();
  record.founder_fd = segment->fd();
  kv::put(key, encode(record));
  std::shared_ptr<ShmSegment> old;
  {
    std::lock_guard lock(groups().mutex);
    old = std::exchange(groups().founded[key], segment);
  }
  if (old) old->supersede(epoch);
  for (std::size_t r = 0; r < members.size(); ++r) {
    const auto death = troupe::detail::make_ref<ActorDeath>(troupe::detail::monitor_actor(members[r]));
    on_ready(death, [weak = std::weak_ptr(segment), rank = int(r), id = ids[r]](Result<ActorDeath>&& died) {
      const auto segment = weak.lock();
      if (!segment || !died.ok()) return;
      segment->fail({Reason::kDied, fmt::format("rank {} (actor {}) died: {}", rank, id, died->message), {rank}});
    });
  }
}

}  // namespace

namespace detail {

void create_group(const std::vector<HandlePtr>& members, const GroupOptions& options) {
  const std::string key = key_of(options.name);
  if (options.backend != Backend::kAuto && options.backend != Backend::kShm) throw InvalidArgumentError("this backend is not there: use kAuto or kShm");
  if (options.timeout <= Duration::zero()) throw InvalidArgumentError("the timeout of a group is positive");
  const auto existing = find_record(key);
  if (existing && !existing->destroyed) throw InvalidArgumentError(fmt::format("there is a group '{}' already", options.name));
  form(options.name, key, existing ? existing->epoch + 1 : 1, options.timeout, members);
}

void reform(const std::string& name, const std::vector<HandlePtr>& members) {
  const std::string key = key_of(name);
  const auto existing = find_record(key);
  if (!existing || existing->destroyed) throw NotFoundError(fmt::format("there is no group '{}'", name));
  form(name, key, existing->epoch + 1, Duration(existing->timeout_ns), members);
}

troupe::detail::ObjectPtr broken(const std::string& name) {
  const std::string key = key_of(name);
  std::shared_ptr<ShmSegment> segment;
  {
    std::lock_guard lock(groups().mutex);
    if (const auto found = groups().founded.find(key); found != groups().founded.end()) segment = found->second;
  }
  if (!segment) throw NotFoundError(fmt::format("this process has formed no group '{}'", name));
  worker::Core& core = worker::require_core();
  troupe::detail::ObjectPtr ref;
  {
    worker::CoreLock lock(core);
    ref = troupe::detail::ObjectPtr::adopt(core.objects().make_owned());
  }
  // The failure is a word in shared memory: a thread waits for it, and looks now and then whether the runtime ends.
  std::thread watcher([&core, ref, segment] {
    while (!segment->await_failure(std::chrono::milliseconds(100)))
      if (core.shutting_down()) return;
    const Failure failure = segment->failure();
    troupe::detail::Value value = troupe::detail::encode_value(BrokenGroup{segment->epoch(), fmt::format("{}: {}", reason_name(failure.reason), failure.text), failure.missing_ranks});
    worker::CoreLock lock(core);
    if (!core.shutting_down()) core.objects().complete(worker::entry_of(ref), std::move(value));
  });
  std::lock_guard lock(groups().mutex);
  groups().watchers.push_back(std::move(watcher));
  return ref;
}

}  // namespace detail

void destroy_group(const std::string& name) {
  const std::string key = key_of(name);
  auto record = find_record(key);
  if (!record || record->destroyed) throw NotFoundError(fmt::format("there is no group '{}'", name));
  record->destroyed = true;
  kv::put(key, encode(*record));
  std::shared_ptr<ShmSegment> segment;
  {
    std::lock_guard lock(groups().mutex);
    segment = std::exchange(groups().founded[key], nullptr);
    groups().founded.erase(key);
  }
  if (!segment) segment = ShmSegment::attach_from(record->founder_pid, record->founder_fd, record->key).value();
  segment->supersede(ShmSegment::kDestroyed);
}

Group group(const std::string& name, LookupOptions options) {
  const RuntimeContext context = runtime_context();
  if (context.actor_id.empty()) throw InvalidArgumentError("group() is for actors: a group's members are actors");
  const std::string key = key_of(name);
  const std::pair place{context.actor_id, key};
  {
    std::lock_guard lock(groups().mutex);
    if (const auto found = groups().members.find(place); found != groups().members.end()) {
      Communicator& known = found->second->communicator();
      if (!known.stale() && known.epoch() > options.after_epoch) return Group(found->second);
      if (known.stale()) groups().members.erase(found);
    }
  }
  const auto deadline = exec::deadline_after(options.timeout);
  Duration pause = std::chrono::milliseconds(1);
  for (;; pause = std::min<Duration>(pause * 2, kLookMax)) {
    const auto record = find_record(key);
    if (record && record->destroyed && record->epoch > options.after_epoch) throw NotFoundError(fmt::format("the group '{}' was destroyed", name));
    if (record && !record->destroyed && record->epoch > options.after_epoch) {
      const auto found = std::ranges::find(record->members, context.actor_id);
      if (found == record->members.end()) throw InvalidArgumentError(fmt::format("this actor is not a member of the group '{}' (epoch {})", name, record->epoch));
      const int rank = int(found - record->members.begin());
      auto segment = ShmSegment::attach_from(record->founder_pid, record->founder_fd, record->key);
      if (segment.ok()) {
        std::lock_guard lock(groups().mutex);
        if (const auto other = groups().members.find(place); other != groups().members.end() && other->second->communicator().epoch() == record->epoch) return Group(other->second);
        if ((*segment)->lines(rank).pid.load() != 0) {  // GA-2
          (*segment)->fail({Reason::kDied, fmt::format("rank {} was restarted", rank), {rank}});
        }
        auto member = std::make_shared<detail::Member>(std::make_unique<ShmCommunicator>(*segment, rank),
                                                       detail::MemberOptions{.group = name, .timeout = Duration(record->timeout_ns), .environment = std::make_shared<RuntimeEnvironment>(worker::require_core())});
        groups().members[place] = member;
        return Group(member);
      }
      // Formed again meanwhile, or the founder is gone: the record tells.
    }
    if (exec::Deadline::clock::now() >= deadline)
      throw CollectiveError::from({.reason = Reason::kTimeout, .group = name, .epoch = options.after_epoch, .operation = "group"},
                                  record ? "the group was not formed again in time, or its founder is gone" : "there is no such group");
    troupe::sleep_for(pause);
  }
}

}  // namespace troupe::collective
