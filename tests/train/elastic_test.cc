// Ranks that are killed, at every place of a step and of a commit, and ranks that come: the run ends where an
// undisturbed one ends. Ranks are forked processes, and they die of SIGKILL.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "apps/train/elastic/elastic.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/tiny.h"

namespace troupe::train {
namespace {

using namespace testing;
using collective::Group;

constexpr std::size_t kInputs = 5000, kClasses = 4, kCount = kClasses * (kInputs + 1);
constexpr std::int64_t kSteps = 12;

/// What a process leaves behind, in memory that it shares with the test.
struct Left {
  std::int64_t steps = -1, error = 0, recoveries = 0;
  struct {
    std::int64_t from, ranks, step, lost;
    char text[200];
  } recovered[6] = {};
  bool stopped = false;
  char message[300] = {};
  std::int64_t warnings = 0;
  char warning[300] = {};
  float parameters[kCount] = {};
};

/// Kills this process when `event` comes for the `count`-th time in a group of this epoch.
struct Death {
  int process = -1;
  Event event = Event::kStepBegins;
  int count = 1;
  std::uint64_t epoch = 1;
};

struct Scene {
  std::vector<std::vector<int>> epochs = {{0}};  // the processes of each epoch's group, by rank
  Zero zero = Zero::k0;
  std::vector<Death> deaths = {};
  ElasticOptions elastic = {};
  int newcomers_after = -1;  // commits of rank 0, until it hears of a newcomer
  bool own_disks = false;    // each process has a folder of its own for checkpoints
  double rate = 1e-2;
};

class Stage {
 public:
  explicit Stage(const Scene& scene) : scene_(scene) {
    for (std::size_t e = 0; e < scene.epochs.size(); ++e) {
      segments_.push_back(make_segment(int(scene.epochs[e].size()), e + 1));
      for (const int process : scene.epochs[e]) processes_ = std::max(processes_, process + 1);
    }
    void* memory = ::mmap(nullptr, sizeof(Left) * std::size_t(processes_), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    left_ = static_cast<Left*>(memory);
    for (int p = 0; p < processes_; ++p) new (left_ + p) Left();
    for (int p = 0; p < processes_; ++p) {
      const int pid = ::fork();
      if (pid == 0) {
        ::alarm(100);
        act(p);
        ::_exit(0);
      }
      pids_.push_back(pid);
    }
    for (const int pid : pids_) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      statuses_.push_back(status);
    }
  }
  ~Stage() { ::munmap(left_, sizeof(Left) * std::size_t(processes_)); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const Left& left(int process) const { return left_[process]; }
  bool killed(int process) const {
    return WIFSIGNALED(statuses_[std::size_t(process)]) && WTERMSIG(statuses_[std::size_t(process)]) == SIGKILL;
  }

 private:
  /// This process's membership of the first epoch after `after` that has it.
  Result<Group> group_after(int process, std::uint64_t after) const {
    for (std::size_t e = after; e < scene_.epochs.size(); ++e) {
      const auto& members = scene_.epochs[e];
      const auto place = std::ranges::find(members, process);
      if (place == members.end()) continue;
      return make_group(segments_[e], int(place - members.begin()));
    }
    return NotFoundError("no further group");
  }

  void act(int process) {
    Left& left = left_[process];
    static const TinyData data(60, kInputs, kClasses);
    LinearModel<float> model(kInputs, kClasses);
    std::uint64_t epoch = 0;
    int seen[16] = {};
    TrainerOptions options{.seed = 3,
                           .targets_per_row = 1,
                           .zero = scene_.zero,
                           .buckets = {.first_bytes = 16 << 10, .bytes = 32 << 10},
                           .optimizer = {.weight_decay = 0.01},
                           .schedule = {.base_rate = scene_.rate, .warmup_steps = 3},
                           .max_norm = 1};
    options.observer = [&](Event event, std::size_t) {
      const int count = ++seen[int(event)];
      for (const Death& death : scene_.deaths)
        if (death.process == process && death.event == event && death.count == count && death.epoch == epoch)
          ::raise(SIGKILL);
    };
    auto trainer = make_trainer<float>(model, data, 12, options);
    ElasticOptions elastic = scene_.elastic;
    elastic.total_steps = elastic.total_steps == 0 ? kSteps : elastic.total_steps;
    elastic.commit_every = 4;
    elastic.regroup = [&](const Group& group) {
      auto next = group_after(process, group.epoch());
      if (next.ok()) epoch = next->epoch(), std::fill(std::begin(seen), std::end(seen), 0);
      return next;
    };
    if (scene_.own_disks) elastic.checkpoints->path /= std::to_string(process);
    elastic.on_warning = [&](const std::string& text) {
      ++left.warnings;
      std::strncpy(left.warning, text.c_str(), sizeof left.warning - 1);
    };
    int commits = 0;
    if (scene_.newcomers_after >= 0) elastic.newcomer = [&] { return ++commits == scene_.newcomers_after; };
    elastic.on_recovery = [&](const Recovery& r) {
      if (left.recoveries == std::int64_t(std::size(left.recovered))) return;  // the counts tell
      auto& out = left.recovered[left.recoveries++];
      out.from = int(r.from), out.ranks = r.ranks, out.step = r.step, out.lost = r.lost_steps;
      std::strncpy(out.text, r.text.c_str(), sizeof out.text - 1);
    };
    Group first = group_after(process, 0).value();
    epoch = first.epoch();
    const auto outcome = ElasticRun<float>(*trainer, elastic).run(first);
    left.error = outcome.ok() ? 0 : std::int64_t(outcome.error().code());
    if (!outcome.ok()) std::strncpy(left.message, outcome.error().what(), sizeof left.message - 1);
    if (outcome.ok()) left.stopped = outcome->stopped;
    left.steps = trainer->steps_done();
    std::ranges::copy(trainer->parameters(), left.parameters);
  }

  Scene scene_;
  int processes_ = 0;
  std::vector<SegmentPtr> segments_;
  Left* left_ = nullptr;
  std::vector<int> pids_, statuses_;
};

std::vector<float> parameters_of(const Left& left) { return {left.parameters, left.parameters + kCount}; }

/// Where a run of one rank ends that nobody disturbs.
const std::vector<float>& undisturbed() {
  static const std::vector<float> parameters = [] {
    const Stage stage({});
    EXPECT_EQ(stage.left(0).steps, kSteps) << stage.left(0).message;
    return parameters_of(stage.left(0));
  }();
  return parameters;
}

/// All survivors finished, agree to the bit, and came to the undisturbed end.
void expect_undisturbed_end(const Stage& stage, const std::vector<int>& survivors, const std::string& what) {
  for (const int p : survivors) {
    const Left& left = stage.left(p);
    ASSERT_EQ(left.error, 0) << what << ": " << left.message;
    ASSERT_EQ(left.steps, kSteps) << what;
    EXPECT_EQ(parameters_of(left), parameters_of(stage.left(survivors.front()))) << what << ": replicas are bit-equal";
    float most = 0;
    for (std::size_t i = 0; i < kCount; ++i) most = std::max(most, std::abs(left.parameters[i] - undisturbed()[i]));
    EXPECT_LT(most, 2e-5f) << what;
  }
}

// EL-2, CO-2: every rank, every place.
void kill_each_rank(int ranks, Zero zero) {
  struct Place {
    Event event;
    int count;
    const char* name;
  };
  // The seventh step; of the commits, that after the fourth step (the first is that of the start), then the next one.
  const int buckets = zero == Zero::k1 && ranks == 3 ? 2 : 3;
  std::vector<Place> places{{Event::kStepBegins, 7, "step begins"},
                            {Event::kReduceIssued, 6 * buckets + 1, "first bucket issued"},
                            {Event::kBackwardEnds, 7, "backward ends"},
                            {Event::kReduced, 7, "reduced"},
                            {Event::kUpdated, 6 * buckets + 1, "one bucket updated"},
                            {Event::kStepEnds, 7, "step ends"},
                            {Event::kCommitBegins, 2, "commit begins"},
                            {Event::kCommitCopied, 3, "commit copied"},
                            {Event::kCommitEnds, 3, "commit ends"}};
  if (zero == Zero::k1)
    places.push_back({Event::kGatherIssued, 6 * buckets + 1, "gather issued"}),
        places.push_back({Event::kCommitSent, 3, "commit sent"});
  for (int victim = 0; victim < ranks; ++victim)
    for (const Place& place : places) {
      std::vector<int> all, survivors;
      for (int p = 0; p < ranks; ++p) {
        all.push_back(p);
        if (p != victim) survivors.push_back(p);
      }
      const std::string what =
          "rank " + std::to_string(victim) + " of " + std::to_string(ranks) + " killed: " + place.name;
      const Stage stage({.epochs = {all, survivors},
                         .zero = zero,
                         .deaths = {{.process = victim, .event = place.event, .count = place.count}},
                         .elastic = {}});
      ASSERT_TRUE(stage.killed(victim)) << what << ", but it was not";
      expect_undisturbed_end(stage, survivors, what);
      for (const int p : survivors) {
        const Left& left = stage.left(p);
        ASSERT_EQ(left.recoveries, 2) << what;
        EXPECT_EQ(left.recovered[1].from, int(Recovery::From::kCommit)) << what;
        EXPECT_GE(left.recovered[1].step, place.event == Event::kCommitBegins ? 0 : 4)
            << what << ": no further back than the last whole commit";
        EXPECT_LE(left.recovered[1].lost, 4) << what;
      }
    }
}

TEST(TrainElastic, AKilledRankOfTwoWithZero0) { kill_each_rank(2, Zero::k0); }
TEST(TrainElastic, AKilledRankOfTwoWithZero1) { kill_each_rank(2, Zero::k1); }
TEST(TrainElastic, AKilledRankOfThreeWithZero0) { kill_each_rank(3, Zero::k0); }
TEST(TrainElastic, AKilledRankOfThreeWithZero1) { kill_each_rank(3, Zero::k1); }

// EL-5, CO-3: the next one dies while the survivors have just formed their group, before, in and right after its first
// commit. The old commit had rank 2's shard with rank 0, and rank 1's with rank 2: until rank 0 has rank 1's shard,
// rank 1 alone has it. That rank 1 has ended its part of the commit does not mean that (what it sent may be under
// way); that a step's reduction is done does, since rank 0 takes part in it only after its own part of the commit.
TEST(TrainElastic, AnotherRankDiesWhileTheGroupIsFormedAgain) {
  for (const Event event : {Event::kCommitBegins, Event::kCommitSent, Event::kCommitEnds, Event::kReduced}) {
    const Stage stage({.epochs = {{0, 1, 2}, {0, 1}, {0}},
                       .zero = Zero::k1,
                       .deaths = {{.process = 2, .event = Event::kStepBegins, .count = 7},
                                  {.process = 1, .event = event, .count = 1, .epoch = 2}},
                       .elastic = {}});
    ASSERT_TRUE(stage.killed(1) && stage.killed(2));
    const Left& left = stage.left(0);
    if (event == Event::kReduced) {
      expect_undisturbed_end(stage, {0}, "second death in the first step after the commit");
    } else if (event != Event::kCommitBegins && left.error == 0) {
      expect_undisturbed_end(stage, {0}, "second death in the commit");  // the shard had come in time
    } else {
      EXPECT_EQ(left.error, std::int64_t(ErrorCode::kObjectLost)) << left.message;
    }
  }
}

// EL-3
TEST(TrainElastic, ShardAndPartnerBothLostGoesBackToTheCheckpointAndSaysSo) {
  const test::TemporaryFolder folder;
  const std::vector<Death> deaths{{.process = 1, .event = Event::kStepBegins, .count = 7},
                                  {.process = 2, .event = Event::kStepBegins, .count = 7}};
  {
    const Stage stage({.epochs = {{0, 1, 2}, {0}},
                       .zero = Zero::k1,
                       .deaths = deaths,
                       .elastic = {.checkpoint_every = 3, .checkpoints = FolderOptions{.path = folder.path()}}});
    expect_undisturbed_end(stage, {0}, "from the checkpoint");
    const Left& left = stage.left(0);
    ASSERT_EQ(left.recoveries, 2);
    EXPECT_EQ(left.recovered[1].from, int(Recovery::From::kCheckpoint));
    EXPECT_EQ(left.recovered[1].step, 6);
    EXPECT_NE(std::string(left.recovered[1].text).find("both lost"), std::string::npos) << left.recovered[1].text;
  }
  {
    const Stage stage({.epochs = {{0, 1, 2}, {0}}, .zero = Zero::k1, .deaths = deaths, .elastic = {}});
    EXPECT_EQ(stage.left(0).error, std::int64_t(ErrorCode::kObjectLost)) << stage.left(0).message;
  }
  {
    const Stage stage({.epochs = {{0, 1, 2}, {0}}, .zero = Zero::k0, .deaths = deaths, .elastic = {}});
    expect_undisturbed_end(stage, {0}, "with ZeRO-0 one rank has everything");
  }
}

// EL-3: the new rank 0 is on a node whose disk has no checkpoint; another survivor's has.
TEST(TrainElastic, WhoHasTheCheckpointOnItsDiskReadsIt) {
  const test::TemporaryFolder folder;
  const Stage stage({.epochs = {{0, 1, 2, 3}, {3, 0}},
                     .zero = Zero::k1,
                     .deaths = {{.process = 1, .event = Event::kStepBegins, .count = 7},
                                {.process = 2, .event = Event::kStepBegins, .count = 7}},
                     .elastic = {.checkpoint_every = 3, .checkpoints = FolderOptions{.path = folder.path()}},
                     .own_disks = true});
  expect_undisturbed_end(stage, {3, 0}, "from the other one's disk");
  for (const int p : {3, 0}) {
    ASSERT_EQ(stage.left(p).recoveries, 2);
    EXPECT_EQ(stage.left(p).recovered[1].from, int(Recovery::From::kCheckpoint));
    EXPECT_EQ(stage.left(p).recovered[1].step, 6);
  }
}

// EL-7: a disk that takes no file costs the checkpoints, not the run; only that the last one is missing is an error.
TEST(TrainElastic, ACheckpointThatCannotBeWrittenIsToldAndTrainingGoesOn) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "no_folder";
  std::fclose(std::fopen(file.c_str(), "w"));
  const Stage stage({.epochs = {{0, 1}},
                     .zero = Zero::k1,
                     .elastic = {.checkpoint_every = 3, .checkpoints = FolderOptions{.path = file / "checkpoints"}}});
  for (const int p : {0, 1}) {
    const Left& left = stage.left(p);
    EXPECT_EQ(left.warnings, 3) << "after steps 3, 6 and 9";
    EXPECT_NE(std::string(left.warning).find("step 9"), std::string::npos) << left.warning;
    EXPECT_EQ(left.steps, kSteps) << left.message;
    EXPECT_NE(left.error, 0) << "the last checkpoint is what the run leaves";
    EXPECT_EQ(parameters_of(left), parameters_of(stage.left(0)));
  }
}

// DR-2: a rank that came late, and is alone before it was given anything, does not begin anew in silence.
TEST(TrainElastic, ALateRankAloneWithoutACheckpointIsALoss) {
  const Stage stage({.epochs = {{0}}, .elastic = {.resume = true}});
  EXPECT_EQ(stage.left(0).error, std::int64_t(ErrorCode::kObjectLost)) << stage.left(0).message;
}

// EL-6: with ZeRO-1 half of the state is gone, but it is the start's, or the checkpoint's.
TEST(TrainElastic, ARankThatDiesInTheFirstCommitTakesNothingWithIt) {
  const test::TemporaryFolder folder;
  int asked = 0;
  const Stage before(
      {.epochs = {{0, 1}},
       .zero = Zero::k1,
       .elastic = {.checkpoints = FolderOptions{.path = folder.path()},
                   .stop = [asked]() mutable { return ++asked == 5; }}});
  ASSERT_TRUE(before.left(0).stopped) << before.left(0).message;
  for (const Zero zero : {Zero::k0, Zero::k1})
    for (const Event event : {Event::kCommitBegins, Event::kCommitCopied, Event::kCommitEnds}) {
      const std::vector<Death> deaths{{.process = 1, .event = event, .count = 1}};
      const Stage begun({.epochs = {{0, 1}, {0}}, .zero = zero, .deaths = deaths, .elastic = {}});
      ASSERT_TRUE(begun.killed(1));
      expect_undisturbed_end(begun, {0}, "begun again");
    }
  const Stage resumed({.epochs = {{0, 1}, {0}},
                       .zero = Zero::k1,
                       .deaths = {{.process = 1, .event = Event::kCommitCopied, .count = 1}},
                       .elastic = {.checkpoints = FolderOptions{.path = folder.path()}, .resume = true}});
  expect_undisturbed_end(resumed, {0}, "resumed again");
  // Rank 1 has what it needs of rank 0 and dies: that one may still be within its first recovery, which counts for
  // nothing then.
  const Left& left = resumed.left(0);
  ASSERT_TRUE(left.recoveries == 1 || left.recoveries == 2) << left.recoveries;
  EXPECT_EQ(left.recovered[left.recoveries - 1].from, int(Recovery::From::kCheckpoint));
  EXPECT_EQ(left.recovered[left.recoveries - 1].step, 5);
  EXPECT_EQ(left.recovered[left.recoveries - 1].ranks, 1);
}

// EL-4
TEST(TrainElastic, ANewcomerIsTakenInAtACommitAndNothingIsDoneTwice) {
  for (Zero zero : {Zero::k0, Zero::k1}) {
    const Stage stage({.epochs = {{0, 1}, {0, 1, 2}}, .zero = zero, .elastic = {}, .newcomers_after = 1});
    expect_undisturbed_end(stage, {0, 1, 2}, "with a newcomer");
    for (int p : {0, 1}) {
      ASSERT_EQ(stage.left(p).recoveries, 2);
      EXPECT_EQ(stage.left(p).recovered[1].step, 4);
      EXPECT_EQ(stage.left(p).recovered[1].lost, 0);
      EXPECT_EQ(stage.left(p).recovered[1].ranks, 3);
    }
    EXPECT_EQ(stage.left(2).recoveries, 1);
    EXPECT_EQ(stage.left(2).recovered[0].from, int(Recovery::From::kCommit)) << "it was given the others' state";
  }
}

// A stop leaves a checkpoint from which the run ends at the same bits; so does one that was resumed with other ranks,
// nearly.
TEST(TrainElastic, StoppedAndResumedItEndsAtTheSameBits) {
  const test::TemporaryFolder folder;
  int asked = 0;
  const Stage whole({.epochs = {{0, 1}}, .zero = Zero::k1, .elastic = {}});
  const Stage stopped(
      {.epochs = {{0, 1}},
       .zero = Zero::k1,
       .elastic = {.checkpoints = FolderOptions{.path = folder.path()},
                   .stop = [asked]() mutable { return ++asked == 5; }}});
  for (int p : {0, 1}) {
    EXPECT_TRUE(stopped.left(p).stopped);
    EXPECT_EQ(stopped.left(p).steps, 5);
  }
  const Stage resumed({.epochs = {{0, 1}},
                       .zero = Zero::k1,
                       .elastic = {.checkpoints = FolderOptions{.path = folder.path()}, .resume = true}});
  EXPECT_EQ(resumed.left(0).recovered[0].from, int(Recovery::From::kCheckpoint));
  EXPECT_EQ(resumed.left(0).recovered[0].step, 5);
  EXPECT_EQ(parameters_of(resumed.left(0)), parameters_of(whole.left(0)));
  EXPECT_EQ(parameters_of(resumed.left(1)), parameters_of(whole.left(0)));
}

TEST(TrainElastic, DivergenceStopsWithACheckpoint) {
  const test::TemporaryFolder folder;
  const Stage stage(
      {.epochs = {{0, 1}},
       .zero = Zero::k1,
       .elastic = {.checkpoints = FolderOptions{.path = folder.path()}},
       .rate = 1e38});
  for (int p : {0, 1}) {
    EXPECT_NE(std::string(stage.left(p).message).find("diverged at step"), std::string::npos) << stage.left(p).message;
    EXPECT_NE(std::string(stage.left(p).message).find("in the checkpoint of step"), std::string::npos)
        << stage.left(p).message;
    EXPECT_LT(stage.left(p).steps, kSteps);
  }
  EXPECT_EQ(CheckpointFolder({.path = folder.path()}).steps(), (std::vector<std::int64_t>{stage.left(0).steps}))
      << "the last state before";
}

TEST(TrainElastic, WithoutANextGroupTheFailureIsReturned) {
  const Stage stage(
      {.epochs = {{0, 1}}, .deaths = {{.process = 1, .event = Event::kReduced, .count = 3}}, .elastic = {}});
  EXPECT_TRUE(stage.killed(1));
  EXPECT_EQ(stage.left(0).error, std::int64_t(ErrorCode::kNotFound))
      << "what the way to the next group said: " << stage.left(0).message;
}

}  // namespace
}  // namespace troupe::train
