// Groups of actors: how a member finds its group and takes its place. Forming: forming.cc.
//
//   group() looks into the table of this process (epochs.h), once into the key-value table, and then waits for the word
//   of the founder; so a rank in the middle of a long method finds the next epoch, and nobody asks again and again.
//
// Invariants
//   GA-2  A member takes its rank once an epoch; an actor that was restarted must be taken into the next epoch: in this
//         one it gets a group that has failed, and so do the others.
// Thread rule: any thread of a driver or worker.
#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "collective/group/epochs.h"
#include "collective/group/formation.h"
#include "collective/group/forming.h"
#include "collective/hier/communicator.h"
#include "collective/nccl/own_gpu.h"
#include "collective/group/rank_net.h"
#include "collective/shm/communicator.h"
#include "collective/tcp/communicator.h"
#include "core/base/thread.h"
#include "core/exec/fibers.h"
#include "core/process/core.h"
#include "core/executor/hosted_actor.h"
#include "core/runtime/waits.h"
#include <troupe/collective.h>
#include <troupe/troupe.h>

namespace troupe::collective {
namespace {

/// The runtime, as a waiting operation sees it.
class RuntimeEnvironment final : public Environment {
 public:
  explicit RuntimeEnvironment(worker::Core& core) : core_(core) {}
  bool on_fiber() override { return exec::on_fiber(); }
  std::unique_ptr<Suspension> suspension() override {
    return exec::on_fiber() ? std::make_unique<Fiber>(core_) : nullptr;
  }
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

/// The port is there before any process of the program is asked for a word.
struct PortRegistration {
  PortRegistration() { worker::set_group_port(Epochs::instance()); }
} const port_registration;

/// How a rank takes its place, and how that place is made a thing of the past.
struct Entrance {
  std::unique_ptr<Communicator> communicator;
  std::function<void(std::uint64_t next)> supersede;
};

Entrance by_memory(std::shared_ptr<ShmSegment> segment, int rank) {
  return {std::make_unique<ShmCommunicator>(segment, rank),
          [segment](std::uint64_t next) { segment->supersede(next); }};
}

Entrance by_sockets(std::shared_ptr<TcpLinks> links, TcpOptions options) {
  return {std::make_unique<TcpCommunicator>(links, std::move(options)), [links](std::uint64_t) { links->supersede(); }};
}

/// A place in a group that has failed before this rank came.
Entrance failed_place(const GroupRecord& record, int rank, const Failure& failure) {
  auto links = TcpLinks::create({rank, int(record.members.size()), record.epoch});
  links->fail(failure);
  return by_sockets(std::move(links), {});
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

TcpOptions tcp_options(worker::Core& core, const GroupRecord& record, int rank) {
  const std::string host = host_of(record.members[std::size_t(rank)].data_address);
  TcpOptions options{.deterministic = record.deterministic,
                     .key = number_of(secret_of(record.secret).value(), "splits"),
                     .connect = connect_by_daemons(core)};
  // Only how long to spin hangs on it.
  options.ranks_here = int(std::ranges::count_if(
      record.members, [&](const GroupMember& member) { return host_of(member.data_address) == host; }));
  return options;
}

/// The memory of this rank's node, opened through the process that made it (decision 007).
Result<std::shared_ptr<ShmSegment>> open_memory(const GroupRecord& record, const std::string& node) {
  const auto memory = std::ranges::find(record.memories, node, &NodeMemory::node);
  if (memory == record.memories.end()) return InvalidArgumentError("the group has no memory on node " + node);
  return ShmSegment::attach_from(memory->pid, memory->fd, memory_key(record, node));
}

/// A number for the node of each rank.
std::vector<int> node_numbers(const GroupRecord& record) {
  std::vector<std::string> seen;
  std::vector<int> numbers;
  for (const GroupMember& member : record.members) {
    auto found = std::ranges::find(seen, member.node);
    if (found == seen.end()) found = seen.insert(found, member.node);
    numbers.push_back(int(found - seen.begin()));
  }
  return numbers;
}

/// Memory within the node, where it has other ranks, and sockets between nodes.
Entrance by_both(worker::Core& core, const GroupRecord& record, int rank, std::shared_ptr<TcpLinks> links) {
  const std::string& node = record.members[std::size_t(rank)].node;
  std::shared_ptr<ShmSegment> segment;
  std::unique_ptr<ShmCommunicator> inside;
  if (std::ranges::find(record.memories, node, &NodeMemory::node) != record.memories.end()) {
    auto opened = open_memory(record, node);
    if (!opened.ok()) {
      const auto lowest = std::ranges::find(record.members, node, &GroupMember::node) - record.members.begin();
      links->fail(failure_of_attaching(opened.error_ptr(), int(lowest)));
      return by_sockets(std::move(links), {});
    }
    segment = *std::move(opened);
    const auto place = std::count_if(record.members.begin(), record.members.begin() + rank,
                                     [&](const GroupMember& member) { return member.node == node; });
    inside = std::make_unique<ShmCommunicator>(segment, int(place));
  }
  auto across = std::make_unique<TcpCommunicator>(links, tcp_options(core, record, rank));
  return {std::make_unique<HierCommunicator>(node_numbers(record), std::move(inside), std::move(across)),
          [links, segment](std::uint64_t next) {
            links->supersede();
            if (segment) segment->supersede(next);
          }};
}

Entrance enter(worker::Core& core, const Epochs::Admission& admission, Clock::time_point deadline) {
  const GroupRecord& record = admission.epoch->record;
  const GroupMember& self = record.members[std::size_t(admission.rank)];
  if (admission.kind == Epochs::Admission::Kind::kRestarted)
    return failed_place(record, admission.rank, restarted(record, admission.rank));
  if (record.backend == Backend::kShm) {
    auto segment = open_memory(record, self.node);
    if (!segment.ok()) return failed_place(record, admission.rank, failure_of_attaching(segment.error_ptr(), 0));
    Epochs::instance().opened(admission.epoch, *segment);
    return by_memory(*std::move(segment), admission.rank);
  }
  if (Status dialled = dial_lower_ranks(*admission.links, deadline); !dialled.ok())
    admission.links->fail(failure_of(dialled.error()));
  return record.backend == Backend::kHier ? by_both(core, record, admission.rank, admission.links)
                                          : by_sockets(admission.links, tcp_options(core, record, admission.rank));
}

/// What cuts off a fiber, for a thread that works for it.
class Relay final : public Environment {
 public:
  bool on_fiber() override { return false; }
  std::unique_ptr<Suspension> suspension() override { return nullptr; }
  void check() override { if (cut_.load(std::memory_order_acquire)) std::rethrow_exception(why_); }
  void cut(std::exception_ptr why) {
    why_ = std::move(why);
    cut_.store(true, std::memory_order_release);
  }

 private:
  std::exception_ptr why_;
  std::atomic<bool> cut_{false};
};

/// Ranks wait for each other in it, and CUDA's start takes its time: a fiber is suspended meanwhile, as other calls of
/// its actor may be what the other ranks wait for.
void off_the_fiber(Environment& environment, const std::function<void(Environment&)>& work) {
  const auto suspension = environment.suspension();
  if (!suspension) return work(environment);
  Relay relay;
  std::atomic<bool> done{false};
  std::exception_ptr failed;
  std::thread thread = start_thread([&] {
    try {
      work(relay);
    } catch (...) {
      failed = std::current_exception();
    }
    done.store(true, std::memory_order_release);
    suspension->notify();
  });
  try {
    while (!done.load(std::memory_order_acquire)) (void)suspension->wait(Clock::time_point::max());
  } catch (...) {  // the thread sees it at its next look
    relay.cut(std::current_exception());
  }
  thread.join();
  if (failed) std::rethrow_exception(failed);
}

/// NCCL, where it was asked for or every member holds a GPU: what this rank has entered are the control links. Asked
/// for, whatever is missing on any rank is thrown on all of them.
void enter_nccl(worker::Core& core, const Epochs::Admission& admission, Entrance& entrance, Environment& environment,
                Clock::time_point deadline) {
  const GroupRecord& record = admission.epoch->record;
  if (record.asked != Backend::kNccl && !nccl_beside(record.members, record.asked)) return;
  try {
    off_the_fiber(environment, [&](Environment& here) {
      Patience patience(deadline == Clock::time_point::max()
                            ? kForever
                            : std::max<Duration>(Duration::zero(), deadline - Clock::now()),
                        &here);
      const NcclScope scope = record.asked == Backend::kNccl ? NcclScope::kEverything : NcclScope::kDeviceMemory;
      entrance.communicator = over_own_gpu(std::move(entrance.communicator), admission.epoch->name, scope, patience);
    });
  } catch (const CollectiveError& error) {
    Epochs::instance().report(core, *admission.epoch, {error.reason(), error.message(), error.missing_ranks()});
    throw;
  }
}

Group enter_group(worker::Core& core, const Epochs::Admission& admission, Clock::time_point deadline) {
  Epochs& epochs = Epochs::instance();
  try {
    epochs.ask_after(core, *admission.epoch);
    Entrance entrance = enter(core, admission, deadline);
    detail::MemberOptions options{.group = admission.epoch->name,
                                  .timeout = Duration(admission.epoch->record.timeout_ns),
                                  .environment = std::make_shared<RuntimeEnvironment>(core)};
    enter_nccl(core, admission, entrance, *options.environment, deadline);
    options.on_failed = [&core, weak = std::weak_ptr(admission.epoch)](const Failure& failure) {
      if (const auto epoch = weak.lock()) Epochs::instance().report(core, *epoch, failure);
    };
    auto member = std::make_shared<detail::Member>(std::move(entrance.communicator), std::move(options));
    epochs.enter(admission.epoch, admission.rank, {admission.restarts, member, std::move(entrance.supersede)});
    if (const auto failure = member->communicator().failure()) epochs.report(core, *admission.epoch, *failure);
    return Group(member);
  } catch (...) {
    epochs.give_up(admission.epoch, admission.rank);
    throw;
  }
}

}  // namespace

Group group(const std::string& name, LookupOptions options) {
  worker::Core& core = worker::require_core();
  // a whole RuntimeContext costs more than a small operation
  const worker::CallContext* context = worker::current_context();
  if (!context || !context->actor) throw InvalidArgumentError("group() is for actors: a group's members are actors");
  Epochs& epochs = Epochs::instance();
  const std::string key = group_key(name);
  const Epochs::Seeker seeker{to_string(context->actor->id()), context->attempt, options.after_epoch};
  if (Epochs::Admission known = epochs.admit(core, key, seeker); known.kind == Epochs::Admission::Kind::kUse)
    return Group(known.member);
  else if (known.kind == Epochs::Admission::Kind::kEnter)
    return enter_group(core, known, exec::deadline_after(options.timeout));

  const auto deadline = exec::deadline_after(options.timeout);
  exec::Waiter waiter(core);
  worker::WaitScope scope(core, waiter);
  const Epochs::Listener listener(epochs, waiter);
  const std::optional<GroupRecord> record = find_record(key);  // a process that is younger than the epoch was not told
  if (record && record->destroyed && record->epoch > options.after_epoch)
    throw NotFoundError(fmt::format("the group '{}' was destroyed", name));
  if (record) epochs.learn(core, key, *record);
  for (;;) {
    {
      worker::CoreLock lock(core);
      scope.check();
    }
    const Epochs::Admission admission = epochs.admit(core, key, seeker);
    switch (admission.kind) {
      case Epochs::Admission::Kind::kUse: return Group(admission.member);
      case Epochs::Admission::Kind::kEnter:
      case Epochs::Admission::Kind::kRestarted: return enter_group(core, admission, deadline);
      case Epochs::Admission::Kind::kForeign:
        throw InvalidArgumentError(fmt::format("this actor is not a member of the group '{}' (epoch {})", name,
                                               admission.epoch->record.epoch));
      case Epochs::Admission::Kind::kWait: break;
    }
    if (!scope.wait(deadline) && exec::Deadline::clock::now() >= deadline)
      throw CollectiveError::from(
          {.reason = Reason::kTimeout, .group = name, .epoch = options.after_epoch, .operation = "group"},
          admission.epoch ? "the group was not formed again in time" : "there is no such group");
  }
}

}  // namespace troupe::collective
