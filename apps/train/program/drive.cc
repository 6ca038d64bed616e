#include "apps/train/program/drive.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <troupe/collective.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

#include "apps/train/program/heartbeat.h"
#include "apps/train/program/muster.h"
#include "apps/train/program/placement.h"
#include "apps/train/program/rank_actor.h"

namespace troupe::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kGroup = "train";
constexpr auto kLook = 100ms;  // between two looks for news, when nothing else happens
constexpr auto kAnswer = 5s;   // of a rank that is asked while others wait
constexpr auto kLeave = 20s;   // of all ranks, once one is done or all are asked to stop
constexpr int kReplacementsMax = 100;

struct Member {
  ActorHandle<RankActor> actor;
  ObjectRef<RankSummary> done;  // empty until it was told to run
  std::string node;
  int pid = 0;
  ObjectRef<int> beat = {};     // the answer that is waited for
  Heartbeat heart;
};

bool ready(const AnyRef& ref) { return !wait({ref}, {.timeout = Duration::zero()}).ready.empty(); }

bool is_death(ErrorCode code) {
  return code == ErrorCode::kActorDied || code == ErrorCode::kActorUnavailable || code == ErrorCode::kWorkerCrashed ||
         code == ErrorCode::kNodeDied || code == ErrorCode::kOutOfMemory;
}

/// Why a group was not formed, and which of its ranks are to blame, as far as it is known.
struct Unformed {
  std::string why;
  std::vector<int> ranks;
  bool late = false;  // they did not answer in time
};

enum class Pulse : std::uint8_t { kSilent, kAnswered, kKilled };

class Drive {
 public:
  Drive(const AppCommand& command, RunReport& report)
      : command_(command),
        report_(report),
        placement_(place_ranks(run_of(command.job).workers, run_of(command.job).device)) {
    if (placement_.cpus < 1)
      report_.note(fmt::format("{} ranks share {:g} CPUs", placement_.nodes.size(), cluster_resources()["CPU"]));
    for (const std::string& node : placement_.nodes) newcomers_.push_back(create(node));
  }

  RunEnd run() {
    RunEnd end;
    try {
      form();
      loop(Clock::time_point::max());
      last_news(seconds(settings().heartbeat_timeout));
      if (error_.empty() && command_.sample.tokens > 0 && winner_)
        end.sample = get(winner_->actor.call<&RankActor::sample>(command_.sample));
    } catch (const CancelledError&) {
      end.interrupted = ending_ = true;  // waits work again during the grace that the runtime gives
      for (const Member& member : members_) member.actor.cast<&RankActor::stop>();
      if (epoch_ > 0) {  // else there is nothing to tell
        loop(Clock::now() + kLeave);  // ends at once where they had come to their end before
        last_news(kAnswer);
      }
    }
    end.error = error_;
    end.seconds = elapsed();
    return end;
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

 private:
  const RunSettings& settings() const { return run_of(command_.job); }

  Member create(const std::string& node) {
    return {.actor = actor<RankActor>
                         .options({.resources = {.cpus = placement_.cpus, .gpus = placement_.gpus},
                                   .threads = 2,
                                   .scheduling = NodeAffinity{.node_id = node, .soft = true}})
                         .remote(command_.job),
            .done = {},
            .node = node,
            .heart = Heartbeat(seconds(settings().heartbeat_timeout), Clock::now())};
  }

  void introduce() {
    for (Member& member : members_)
      if (member.pid == 0) introduce(member, ask(member.actor.call<&RankActor::pid>()));
  }
  void introduce(Member& member, std::optional<int> pid) {
    if (!pid) return;  // when it answers: look_at
    const auto device = ask(member.actor.call<&RankActor::device>());
    report_.note(fmt::format("rank {}: process {}{}", &member - members_.data(), member.pid = *pid,
                             device && !device->empty() ? " on " + *device : ""));
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
      kill_frozen();
      if (!broken_) form();  // it was interrupted
      else if (ready(broken_)) mend();
      else welcome();
    }
    if (error_.empty()) error_ = "the ranks did not come to an end in time; the last checkpoint holds";
  }

  void wait_for_something() {
    std::vector<AnyRef> refs;
    if (broken_) refs.push_back(broken_);
    for (const Member& member : members_)
      if (!ready(member.done)) refs.push_back(member.done);
    if (!refs.empty()) (void)wait(refs, {.timeout = kLook});
  }

  /// Asked of rank 0 without waiting for it: one that is frozen delays nothing here.
  void news() {
    if (members_.empty()) return;
    const ActorHandle<RankActor>& first = members_.front().actor;
    if (news_ && news_of_ == first.id()) {
      if (!ready(news_)) return;
      take(Duration::zero());
    }
    ask_for_news();
  }
  /// What was asked for before, and what has come since. Each may take as long as a rank may be silent.
  void last_news(Duration limit) {
    if (members_.empty()) return;
    if (!news_ || news_of_ != members_.front().actor.id()) ask_for_news();
    bool heard = take(limit);
    if (heard) {
      ask_for_news();
      heard = take(limit);
    }
    if (!heard && error_.empty())
      report_.note("rank 0 did not answer any more: what it had to tell of the last steps is missing");
  }
  void ask_for_news() {
    news_of_ = members_.front().actor.id();
    news_ = members_.front().actor.call<&RankActor::news>();
  }
  /// Each answer is read once: what it tells is not told again.
  bool take(Duration timeout) {
    const Result<News> told = try_get(news_, {.timeout = timeout});
    if (!told.ok() && told.error().code() == ErrorCode::kCancelled) throw CancelledError(told.error().message());
    news_ = {};
    if (!told.ok()) return false;  // it died, or hangs: the group's failure will tell
    report_.add(*told, elapsed());
    parted_ = std::max(parted_, told->parted_epoch);
    return true;
  }

  void kill_frozen() {
    for (Member& member : members_) look_at(member);
  }
  /// DR-5. Its death is what the group fails of, like any other; a dead one answers with its error.
  Pulse look_at(Member& member) {
    if (!member.beat) {
      member.beat = member.actor.call<&RankActor::pid>();
      member.heart = Heartbeat(seconds(settings().heartbeat_timeout), Clock::now());
      return Pulse::kSilent;
    }
    const bool answered = ready(member.beat);
    member.heart.look(Clock::now(), answered);
    if (answered) {
      const ObjectRef<int> beat = std::exchange(member.beat, member.actor.call<&RankActor::pid>());
      if (member.pid == 0) introduce(member, ask(beat));
      return Pulse::kAnswered;
    }
    if (!member.heart.frozen()) return Pulse::kSilent;
    report_.note(fmt::format("the rank of process {} has not answered for {:g} s: it is taken for frozen", member.pid,
                             settings().heartbeat_timeout));
    kill(member.actor);
    member.beat = {};
    return Pulse::kKilled;
  }

  /// Of ranks that did not take their places in time: returns when each has answered, or is taken for frozen.
  void await_answers(const std::vector<int>& ranks) {
    std::set<int> silent(ranks.begin(), ranks.end());
    for (const int r : silent) members_[static_cast<std::size_t>(r)].beat = {};  // one from before says nothing
    for (;;) {
      std::erase_if(silent, [&](int r) { return look_at(members_[static_cast<std::size_t>(r)]) != Pulse::kSilent; });
      if (silent.empty()) return;
      std::vector<AnyRef> beats;
      for (const int r : silent) beats.push_back(members_[static_cast<std::size_t>(r)].beat);
      (void)wait(beats, {.timeout = kLook});
    }
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
    // its ranks are those of members_ as they are now
    const collective::BrokenGroup failure = get(std::exchange(broken_, {}));
    std::set<int> lost(failure.missing_ranks.begin(), failure.missing_ranks.end());
    for (std::size_t r = 0; r < members_.size(); ++r)  // one that came to its end is not lost: over() sees it
      if (ready(members_[r].done) && !try_get(members_[r].done).ok()) lost.insert(static_cast<int>(r));
    lose(lost, failure.reason);
    form();
  }

  /// These ranks are out of it; for each a new one is made.
  void lose(const std::set<int>& lost, const std::string& why) {
    for (const int r : lost) kill(members_[static_cast<std::size_t>(r)].actor);  // waits: a Ctrl-C finds all in place
    std::vector<Member> left;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      Member& member = members_[r];
      if (!lost.contains(static_cast<int>(r))) {
        left.push_back(std::move(member));
        continue;
      }
      report_.note(fmt::format("lost the rank of process {}: {}", member.pid, why));
      replace(member, why);
    }
    if (lost.empty()) count_failure(why);
    members_ = std::move(left);
    if (!members_.empty()) return;
    if (newcomers_.empty()) throw Error("all ranks are lost, and no others can be made: " + why);
    if (trained() && settings().checkpoints.empty())
      throw Error("all ranks are lost, and there is no --checkpoint to go back to: " + why);
  }

  void replace(const Member& member, const std::string& why) {
    if (replacements_ < kReplacementsMax) newcomers_.push_back(create(member.node));
    count_failure(why);
  }
  void count_failure(const std::string& why) {
    if (++replacements_ > kReplacementsMax && members_.empty()) throw Error("the ranks fail again and again: " + why);
    if (replacements_ > 2 * kReplacementsMax) throw Error("the group fails again and again: " + why);
  }

  /// Has a rank told that it began? Then there is a state that a newcomer cannot make.
  bool trained() const { return !report_.log().recoveries.empty(); }
  /// A group that was formed may have written a checkpoint before anything was heard of it (DR-2).
  bool may_have_saved() const { return epoch_ > 0 && !settings().checkpoints.empty(); }

  /// Replacements that are ready are announced to rank 0, and taken in when it has left the group for them.
  void welcome() {
    std::vector<Member> there;
    for (Member& member : std::exchange(newcomers_, {})) {
      if (!ready(member.actor.ready())) {
        there.push_back(std::move(member));
        continue;
      }
      const auto constructed = try_get(member.actor.ready());
      if (constructed.ok()) there.push_back(std::move(member));
      else if (is_death(constructed.error().code())) replace(member, constructed.error().what());
      else
        report_.note(
            fmt::format("a replacement cannot begin, the run goes on without it: {}", constructed.error().what()));
    }
    for (Member& member : there) newcomers_.push_back(std::move(member));
    if (parted_ == epoch_) return take_in();  // the others wait, for whoever is left
    const auto are_ready =
        std::ranges::count_if(newcomers_, [](const Member& member) { return ready(member.actor.ready()); });
    if (!muster_.look(Clock::now(), static_cast<std::size_t>(are_ready), newcomers_.size())) return;
    if (announced_ == epoch_) return;
    announced_ = epoch_;
    members_.front().actor.cast<&RankActor::announce_newcomer>(epoch_);
  }

  void take_in() {
    std::vector<Member> later;
    for (Member& member : std::exchange(newcomers_, {}))
      (ready(member.actor.ready()) ? members_ : later).push_back(std::move(member));
    newcomers_ = std::move(later);
    form();
  }

  /// The next epoch of the group, of the members; where none is left, of the newcomers (DR-2). Whoever dies, or
  /// freezes, while it is formed is left out, as often as it happens (DR-6).
  void form() {
    for (;;) {
      if (members_.empty()) members_ = std::exchange(newcomers_, {});
      const std::optional<Unformed> failure = attempt();
      if (!failure) break;
      if (ending_ || !failure->late || failure->ranks.empty()) {  // ending: the grace is shorter than their patience
        lose(lost_of(*failure), failure->why);
        continue;
      }
      report_.note(fmt::format("the group is formed again: {}", failure->why));
      count_failure(failure->why);
      await_answers(failure->ranks);
    }
    introduce();
  }

  /// None: it is formed, and all its ranks run.
  std::optional<Unformed> attempt() {
    broken_ = {};
    for (Member& member : members_)
      if (!member.done) start(member);
    Unformed out;
    try {
      if (epoch_ == 0)
        collective::create_group(handles(),
                                 {.name = kGroup, .timeout = seconds(settings().step_timeout), .deterministic = true});
      else collective::reform(kGroup, handles());
      ++epoch_;
      broken_ = collective::broken(kGroup);
      return std::nullopt;
    } catch (const CollectiveError& error) {
      out = {error.message(), error.missing_ranks(), error.reason() == collective::Reason::kTimeout};
    } catch (const Error& error) {
      if (!is_death(error.code())) throw;
      out = {error.message(), {}};
    }
    learn_epoch();
    return out;
  }

  /// A formation that failed late has used up an epoch, which its ranks have seen.
  void learn_epoch() {
    try {
      const ObjectRef<collective::BrokenGroup> newest = collective::broken(kGroup);
      if (ready(newest)) epoch_ = std::max(epoch_, get(newest).epoch);
    } catch (const NotFoundError&) {  // there was none yet
    }
  }

  void start(Member& member) {
    member.done = member.actor.call<&RankActor::run>(
        RunOrder{.group = kGroup, .after_epoch = epoch_, .resume = settings().resume || trained() || may_have_saved()});
  }

  /// The ranks that the failure names; where it names none, those that are dead.
  std::set<int> lost_of(const Unformed& failure) {
    std::set<int> lost(failure.ranks.begin(), failure.ranks.end());
    if (!lost.empty()) return lost;
    std::vector<ObjectRef<int>> beats;
    std::vector<AnyRef> refs;
    for (const Member& member : members_) {
      beats.push_back(member.actor.call<&RankActor::pid>());
      refs.push_back(beats.back());
    }
    (void)wait(refs, {.num_returns = refs.size(), .timeout = kAnswer});
    for (std::size_t r = 0; r < beats.size(); ++r) {
      if (!ready(beats[r])) continue;
      const auto beat = try_get(beats[r]);
      if (!beat.ok() && is_death(beat.error().code())) lost.insert(static_cast<int>(r));
    }
    return lost;
  }

  const AppCommand& command_;
  RunReport& report_;
  Placement placement_;
  Clock::time_point started_ = Clock::now();
  std::vector<Member> members_, newcomers_;  // members_: by rank
  Muster muster_;
  std::optional<Member> winner_;
  ObjectRef<collective::BrokenGroup> broken_;  // of the group that runs; empty while there is none
  ObjectRef<News> news_;  // asked for, and not read yet
  std::string news_of_;  // the actor that news_ comes from
  std::uint64_t epoch_ = 0, parted_ = 0, announced_ = 0;
  int replacements_ = 0;
  bool ending_ = false;  // DR-3
  std::string error_;
};

}  // namespace

int drive(const AppCommand& asked) {
  AppCommand command = asked;
  keep_schedule(run_of(command.job));
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
