#include "apps/train/drive.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <troupe/collective.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

#include "apps/train/cuda.h"
#include "apps/train/rank_actor.h"

namespace troupe::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kGroup = "train";
constexpr auto kLook = 100ms;  // between two questions for news, when nothing else happens
constexpr auto kAnswer = 5s;   // of a rank that is asked
constexpr auto kLeave = 20s;   // of all ranks, once one is done or all are asked to stop
constexpr int kReplacementsMax = 100;

struct Member {
  ActorHandle<RankActor> actor;
  ObjectRef<RankSummary> done;  // empty until it was told to run
  std::string node;
  int pid = 0;
};

bool ready(const AnyRef& ref) { return !wait({ref}, {.timeout = Duration::zero()}).ready.empty(); }

bool is_death(ErrorCode code) {
  return code == ErrorCode::kActorDied || code == ErrorCode::kActorUnavailable || code == ErrorCode::kWorkerCrashed ||
         code == ErrorCode::kNodeDied || code == ErrorCode::kOutOfMemory;
}

/// Where the ranks go: one node is filled before the next, this one first. Ranks beyond the CPUs share them.
struct Places {
  std::vector<std::string> nodes;  // one a rank
  double cpus = 1, gpus = 0;       // of each rank
};

/// DR-4. Where ranks can be on this node, its plug-in is asked too: an error here is shorter than one of every rank.
Status check_gpus(int ranks) {
  const double total = cluster_resources()["GPU"];
  const auto here = cuda_table();
  if (total == 0)
    return NotFoundError("--device cuda: there is no GPU in the cluster (--troupe-gpus N tells of those that the system does "
                         "not list); --device cpu trains here" + (here.ok() ? "" : ". " + std::string(here.error().message())));
  if (total < ranks)
    return InvalidArgumentError(fmt::format("--device cuda: {} workers want a GPU each, the cluster has {:g}: --workers {:g}",
                                            ranks, total, total));
  for (const NodeRow& row : nodes({.filter = {{"node_id", runtime_context().node_id}}}))
    if (row.resources.contains("GPU") && !here.ok())
      return NotFoundError("--device cuda: " + std::string(here.error().message()));
  return {};
}

Places places_for(int ranks, Device device) {
  const double total = cluster_resources()["CPU"];
  Places out{.nodes = {},
             .cpus = total >= ranks ? 1 : std::max(0.001, std::floor(total / ranks * 1000) / 1000),
             .gpus = device == Device::kCuda ? 1.0 : 0.0};
  const std::string here = runtime_context().node_id;
  std::vector<NodeRow> rows = nodes({.filter = {{"state", "ALIVE"}}});
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const NodeRow& a, const NodeRow& b) { return (a.node_id == here) > (b.node_id == here); });
  for (const NodeRow& row : rows) {
    const auto free = [&](const char* what) {
      const auto found = row.available.find(what);
      return found == row.available.end() ? 0 : found->second;
    };
    int room = static_cast<int>(free("CPU") / out.cpus + 1e-6);
    if (out.gpus > 0) room = std::min(room, static_cast<int>(free("GPU") / out.gpus));
    for (int i = 0; i < room && static_cast<int>(out.nodes.size()) < ranks; ++i) out.nodes.push_back(row.node_id);
  }
  out.nodes.resize(static_cast<std::size_t>(ranks), here);
  return out;
}

class Drive {
 public:
  Drive(const AppCommand& command, RunReport& report)
      : command_(command), report_(report), places_(places_for(run_of(command.job).workers, run_of(command.job).device)) {
    if (places_.cpus < 1)
      report_.note(fmt::format("{} ranks share {:g} CPUs", places_.nodes.size(), cluster_resources()["CPU"]));
    for (const std::string& node : places_.nodes) members_.push_back(create(node));
    collective::create_group(handles(), {.name = kGroup, .deterministic = true});
    epoch_ = 1;
    broken_ = collective::broken(kGroup);
    for (Member& member : members_) start(member, {.group = kGroup, .resume = run_of(command_.job).resume});
    introduce(members_);
  }

  RunEnd run() {
    RunEnd end;
    try {
      loop(Clock::time_point::max());
    } catch (const CancelledError&) {
      end.interrupted = true;  // waits work again during the grace that the runtime gives
      for (const Member& member : members_) member.actor.cast<&RankActor::stop>();
      loop(Clock::now() + kLeave);
    }
    news();
    end.error = error_;
    if (end.error.empty() && !end.interrupted && command_.sample.tokens > 0 && winner_)
      end.sample = get(winner_->actor.call<&RankActor::sample>(command_.sample));
    end.seconds = elapsed();
    return end;
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

 private:
  Member create(const std::string& node) {
    return {.actor = actor<RankActor>
                         .options({.resources = {.cpus = places_.cpus, .gpus = places_.gpus},
                                   .threads = 2,
                                   .scheduling = NodeAffinity{.node_id = node, .soft = true}})
                         .remote(command_.job),
            .done = {},
            .node = node};
  }

  void start(Member& member, const RunOrder& order) { member.done = member.actor.call<&RankActor::run>(order); }

  void introduce(std::vector<Member>& members) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      if (members[r].pid != 0) continue;
      const auto pid = ask(members[r].actor.call<&RankActor::pid>());
      if (!pid) continue;
      const auto device = ask(members[r].actor.call<&RankActor::device>());
      report_.note(fmt::format("rank {}: process {}{}", r, members[r].pid = *pid,
                               device && !device->empty() ? " on " + *device : ""));
    }
  }

  std::vector<ActorHandle<RankActor>> handles() const {
    std::vector<ActorHandle<RankActor>> out;
    for (const Member& member : members_) out.push_back(member.actor);
    return out;
  }

  /// An answer within its deadline, or none; Ctrl-C gets through.
  template <class T>
  std::optional<T> ask(const ObjectRef<T>& ref) {
    auto answer = try_get(ref, {.timeout = kAnswer});
    if (answer.ok()) return std::move(*answer);
    if (answer.error().code() == ErrorCode::kCancelled) throw CancelledError(answer.error().message());
    return std::nullopt;
  }

  void loop(Clock::time_point until) {
    while (Clock::now() < until) {
      wait_for_something();
      news();
      if (over()) return;
      if (ready(broken_)) mend();
      else welcome();
    }
    if (error_.empty()) error_ = "the ranks did not come to an end in time; the last checkpoint holds";
  }

  void wait_for_something() {
    std::vector<AnyRef> refs{broken_};
    for (const Member& member : members_)
      if (!ready(member.done)) refs.push_back(member.done);
    (void)wait(refs, {.timeout = kLook});
  }

  void news() {
    if (members_.empty()) return;
    const auto told = ask(members_.front().actor.call<&RankActor::news>());
    if (!told) return;  // it died, or hangs: the group's failure will tell
    report_.add(*told, elapsed());
    parted_ = told->parted_epoch;
  }

  /// A rank that came to its end ends the run: none leaves before all may.
  bool over() {
    for (const Member& member : members_) {
      if (!ready(member.done)) continue;
      const auto summary = try_get(member.done);
      if (!summary.ok()) {
        if (is_death(summary.error().code())) continue;  // mend() sees to it
        error_ = summary.error().what();
        return true;
      }
      error_ = summary->error;
      if (error_.empty()) {
        winner_ = member;
        std::vector<AnyRef> all;
        for (const Member& other : members_) all.push_back(other.done);
        (void)wait(all, {.num_returns = all.size(), .timeout = kLeave});
      }
      return true;
    }
    return false;
  }

  /// The group broke: without the lost ranks it goes on at once, their replacements come at a commit (DR-1).
  void mend() {
    const collective::BrokenGroup failure = get(broken_);
    std::vector<Member> left, lost;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const bool named = std::ranges::find(failure.missing_ranks, static_cast<int>(r)) != failure.missing_ranks.end();
      (named || ready(members_[r].done) ? lost : left).push_back(members_[r]);
    }
    for (const Member& member : lost) {
      kill(member.actor);
      report_.note(fmt::format("lost the rank of process {}: {}", member.pid, failure.reason));
      if (++replacements_ <= kReplacementsMax) newcomers_.push_back(create(member.node));
    }
    if (lost.empty() && ++replacements_ > kReplacementsMax) throw Error("the group fails again and again: " + failure.reason);
    members_ = std::move(left);
    if (members_.empty()) {
      if (run_of(command_.job).checkpoints.empty() || newcomers_.empty())
        throw Error("all ranks are lost, and there is no --checkpoint to go back to: " + failure.reason);
      form(true);  // DR-2
    } else {
      form(false);
    }
  }

  /// Replacements that are ready are announced to rank 0, and taken in when it has left the group for them.
  void welcome() {
    std::erase_if(newcomers_, [&](const Member& member) {
      return ready(member.actor.ready()) && !try_get(member.actor.ready()).ok();
    });
    if (newcomers_.empty()) return;
    if (!std::ranges::all_of(newcomers_, [](const Member& member) { return ready(member.actor.ready()); })) return;
    if (parted_ == epoch_) return form(true);
    if (announced_ == epoch_) return;
    announced_ = epoch_;
    members_.front().actor.cast<&RankActor::announce>(true);
  }

  /// The next epoch of the group: of the members, and the newcomers with them or not.
  void form(bool with_newcomers) {
    if (with_newcomers) {
      const bool alone = members_.empty();
      for (Member& member : newcomers_) {
        start(member, {.group = kGroup, .after_epoch = epoch_, .resume = alone});
        members_.push_back(std::move(member));
      }
      newcomers_.clear();
    }
    collective::reform(kGroup, handles());
    ++epoch_;
    broken_ = collective::broken(kGroup);
    if (with_newcomers) introduce(members_);
  }

  const AppCommand& command_;
  RunReport& report_;
  Places places_;
  Clock::time_point started_ = Clock::now();
  std::vector<Member> members_, newcomers_;  // members_: by rank
  std::optional<Member> winner_;
  ObjectRef<collective::BrokenGroup> broken_;
  std::uint64_t epoch_ = 0, parted_ = 0, announced_ = 0;
  int replacements_ = 0;
  std::string error_;
};

}  // namespace

int drive(const AppCommand& command) {
  check_command(command).value();
  const int workers = run_of(command.job).workers;
  if (run_of(command.job).device == Device::kCuda) check_gpus(workers).value();
  RunFacts facts;
  {
    JobSettings here = command.job;
    run_of(here).device = Device::kCpu;  // the GPUs are the ranks'
    const auto job = make_job(here);     // bad input is found here, before anything is started
    facts = facts_of(command.program, command.job, *job.value(), workers);
  }
  remove_checkpoints(command);
  RunReport report(std::move(facts), ::isatty(STDERR_FILENO) != 0);
  Drive drive(command, report);
  return finish(command, report, drive.run());
}

}  // namespace troupe::train
