// The loops in a real cluster, where somebody is late, dead or interrupted: ALG-1, ASL-3, LAC-1, LGR-3, OPL-1, SVR-1,
// SVR-3, SVR-4.
//
// A Ctrl-C comes to a driver once, so each promise has a cluster of its own.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../runtime/check.h"

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/saved_runners.h"
#include "apps/rl/program/program.h"
#include "apps/rl/samples/demonstrations.h"
#include "apps/rl/training/collect.h"

using namespace std::chrono_literals;

namespace {

using namespace rl;

// ------------------------------------------------------------------------------------------------------ saved runners

/// A runner as far as save_runners knows one.
class Runner {
 public:
  explicit Runner(const std::string& answers_when) : file_(answers_when) {}

  std::optional<StateDict> save() {
    if (!file_.empty()) rt::wait_for_file(file_);
    StateDict out;
    out.put_one("steps", std::int64_t{7});
    return out;
  }
  void interrupt(int pid) { ::kill(pid, SIGINT); }

 private:
  std::string file_;
};

using Runners = std::vector<troupe::ActorHandle<Runner>>;

RunConfig two_runners() { return {.num_workers = 2, .num_envs = 1}; }

Runners runners(const std::string& second_answers_when) {
  Runners out;
  out.push_back(troupe::actor<Runner>.remote(std::string()));
  out.push_back(troupe::actor<Runner>.remote(second_answers_when));
  return out;
}

void a_late_runner_is_the_saves_error() {
  const rt::Folder folder;
  const Runners two = runners(folder / "go on");
  AlgorithmState state;
  const troupe::Status saved = save_runners(two_runners(), two, {.deadline = 1s}, state);
  CHECK(!saved.ok() && saved.error().code() == troupe::ErrorCode::kGetTimeout);
  rt::touch(folder / "go on");
  CHECK(save_runners(two_runners(), two, {.deadline = 60s}, state).ok());
  CHECK(state.parts.has("runners/1/steps"));
  CHECK_EQ(state.note, "");
}

void or_all_are_left_out_and_it_is_said() {
  const rt::Folder folder;
  AlgorithmState state;
  CHECK(save_runners(two_runners(), runners(folder / "never"),
                     {.deadline = 1s, .late_runners = LateRunners::kLeaveOut}, state)
            .ok());
  CHECK(state.parts.entries().empty());
  CHECK(state.note.find("did not answer within 1 s") != std::string::npos);
}

void a_dead_runner_is_not_saved() {
  const rt::Folder folder;
  const Runners two = runners(folder / "never");
  troupe::kill(two[1]);
  AlgorithmState state;
  CHECK(save_runners(two_runners(), two, {.deadline = 60s}, state).ok());
  CHECK(state.parts.entries().empty());
}

void a_ctrl_c_is_not_swallowed() {
  const rt::Folder folder;
  const Runners two = runners(folder / "never");
  two[0].cast<&Runner::interrupt>(::getpid());
  AlgorithmState state;
  CHECK_THROWS(troupe::CancelledError, (void)save_runners(two_runners(), two, {.deadline = 60s}, state));
}

// ------------------------------------------------------------------------------------------------- a Ctrl-C in a round

/// Where the learner of a "still-..." algorithm interrupts the driver, and then waits for a file; or it only waits, in
/// its first update, which fails.
enum class Still { kBeforeItIsThere, kInItsUpdate, kFailing };

std::string lets_it_go_on(int driver) {
  return std::filesystem::temp_directory_path() / ("rl_loops_test." + std::to_string(driver));
}

void stand_still(const RunConfig& config, Still where) {
  const int driver = static_cast<int>(config.own.at("driver"));
  if (config.own.at("still") != static_cast<double>(where) || rt::exists(lets_it_go_on(driver))) return;
  if (where != Still::kFailing) ::kill(driver, SIGINT);
  rt::touch(lets_it_go_on(driver) + ".wanted");
  rt::wait_for_file(lets_it_go_on(driver));
  if (where == Still::kFailing) troupe::ObjectLostError("a batch is gone").raise();
}

class StillLearner final : public Learner {
 public:
  StillLearner(RunConfig config, std::unique_ptr<Learner> learner)
      : config_(std::move(config)), learner_(std::move(learner)) {}

  std::span<const float> params() const override { return learner_->params(); }
  UpdateReport update(std::span<const SampleView> batches) override {
    stand_still(config_, Still::kInItsUpdate);
    stand_still(config_, Still::kFailing);
    return learner_->update(batches);
  }
  StateDict save() const override { return learner_->save(); }
  void restore(const StateDict& state) override { learner_->restore(state); }

 private:
  RunConfig config_;
  std::unique_ptr<Learner> learner_;
};

/// As `name`, but for its learner.
AlgorithmConfig still(const std::string& name) {
  AlgorithmConfig out = *algorithm_config(name).value();
  out.name = "still-" + name;
  out.set_defaults = [set = out.set_defaults](RunConfig& config) {
    if (set) set(config);
    config.own = {{"driver", ::getpid()}, {"still", static_cast<double>(Still::kBeforeItIsThere)}};
  };
  out.learner = [make = out.learner](const RunConfig& config, const AnyPolicySpec& policy) {
    stand_still(config, Still::kBeforeItIsThere);
    return std::make_unique<StillLearner>(config, make(config, policy));
  };
  return out;
}

/// By which a driver and its learner meet.
struct Files {
  Files() { remove(); }
  ~Files() { remove(); }
  Files(const Files&) = delete;
  static void remove() {
    for (const char* end : {"", ".wanted"}) std::filesystem::remove(lets_it_go_on(::getpid()) + end);
  }
};

/// An algorithm of the loop that is tried, whose rounds are short.
struct Tried {
  Tried(const std::string& name, Still where) : config(defaults_of("still-" + name).value()) {
    config.own["still"] = static_cast<double>(where);
    config.num_workers = 1, config.num_envs = 1, config.horizon = 16;
    config.replay.learning_starts = 0, config.replay.updates = 1;
    if (name == "bc") config.bc.demonstrations = demonstrations();
    algorithm = make_algorithm(config, task_of(config).value(), std::nullopt);
  }

  std::string demonstrations() const {
    RunConfig of_player = defaults_of("ppo").value();
    const Task task = task_of(of_player).value();
    const std::unique_ptr<Learner> learner = make_learner(of_player, task.policy);
    const Policy player{.env = of_player.env,
                        .spec = task.policy,
                        .moments = task.moments,
                        .params = {learner->params().begin(), learner->params().end()}};
    save_demonstrations(folder / "demonstrations", collect(player, {.episodes = 3}).value()).value();
    return folder / "demonstrations";
  }

  Files files;
  rt::Folder folder;
  RunConfig config;
  std::unique_ptr<Algorithm> algorithm;
};

/// The interrupt comes in the first round that learns.
void until_interrupted(Algorithm& algorithm) {
  CHECK_THROWS(troupe::CancelledError, {
    for (int round = 0; round < 10; ++round) (void)algorithm.round();
  });
}

void a_round_that_a_ctrl_c_left_open_has_begun(const std::string& name) {
  Tried tried(name, Still::kInItsUpdate);
  CHECK(!tried.algorithm->begun());
  until_interrupted(*tried.algorithm);
  CHECK(tried.algorithm->begun());
  rt::touch(lets_it_go_on(::getpid()));
  CHECK(tried.algorithm->round().update.has_value());
  CHECK(!tried.algorithm->begun());
}

void no_round_has_begun_before_the_learner_is_there(const std::string& name) {
  Tried tried(name, Still::kBeforeItIsThere);
  until_interrupted(*tried.algorithm);
  CHECK(!tried.algorithm->begun());
  rt::touch(lets_it_go_on(::getpid()));
  CHECK(tried.algorithm->save({.deadline = 60s}).ok());
}

/// The program learns nothing more after it: what it saves is what it began with.
void a_run_ends_without_a_round_then() {
  const Files files;
  const rt::Folder folder;
  const std::string file = lets_it_go_on(::getpid()), out = folder / "out";
  // Long after the program has heard of the signal. Nothing shows when it has: it only waits for the learner, to save.
  std::thread releases([&] {
    CHECK(rt::eventually([&] { return rt::exists(file + ".wanted"); }));
    std::this_thread::sleep_for(3s);
    rt::touch(file);
  });
  std::vector<std::string> words{"rl", "train", "--algo", "still-ppo", "--steps", "64", "--out", out};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  CHECK_EQ(run_program(Program::kRl, arguments), 130);
  releases.join();
  CHECK(rt::exists(out + "/checkpoint.bin"));
  CHECK(rt::read(out + "/result.json").find("\"steps\":0,") != std::string::npos);
}

// ------------------------------------------------------------------------------------------------------------- a death

std::vector<int> pids_of(const std::string& class_name) {
  std::vector<int> out;
  for (const troupe::ActorRow& row : troupe::list_actors({.filter = {{"state", "ALIVE"}}}))
    if (row.class_name.find(class_name) != std::string::npos) out.push_back(row.pid);
  return out;
}

/// A Ctrl-C comes while the loop, whose update has failed, looks which shards are there: one is dead, and the other one
/// does not answer. Which of them it asks first is not known here.
void a_dead_shard_is_left_out_in_spite_of_a_ctrl_c(std::size_t dead) {
  const Files files;
  RunConfig config = defaults_of("still-dqn").value();
  config.own["still"] = static_cast<double>(Still::kFailing);
  config.num_workers = 2, config.num_envs = 1, config.horizon = 16;
  config.replay.learning_starts = 0, config.replay.updates = 1, config.replay.shards = 2;
  const auto algorithm = make_algorithm(config, task_of(config).value(), std::nullopt);
  std::vector<int> shards;
  CHECK(rt::eventually([&] { return (shards = pids_of("ReplayActor")).size() == 2; }));
  const int frozen = shards.at(1 - dead);
  std::thread other([&] {
    const std::string file = lets_it_go_on(::getpid());
    CHECK(rt::eventually([&] { return rt::exists(file + ".wanted"); }));
    CHECK(::kill(shards.at(dead), SIGKILL) == 0 && rt::freeze(frozen));
    rt::touch(file);
    std::this_thread::sleep_for(2s);  // nothing shows when the loop waits for the frozen one
    ::kill(::getpid(), SIGINT);
  });
  CHECK_THROWS(troupe::CancelledError, (void)algorithm->round());
  other.join();
  CHECK(algorithm->begun());
  ::kill(frozen, SIGCONT);
  CHECK(algorithm->round().update.has_value());
  CHECK(!algorithm->begun());
}

/// Fewer fragments are under way than an update has: some have to be played with parameters that only the dead one had.
void the_learners_death_ends_an_asynchronous_loop(std::uint64_t inference_actors) {
  RunConfig config = defaults_of("impala").value();
  config.num_workers = 1, config.num_envs = 1, config.horizon = 4;
  config.impala.fragments_per_update = 8, config.impala.inference_actors = inference_actors;
  const auto algorithm = make_algorithm(config, task_of(config).value(), std::nullopt);
  (void)algorithm->round();
  for (const int pid : pids_of("LearnerActor")) ::kill(pid, SIGKILL);
  CHECK_THROWS(troupe::Error, for (;;) (void)algorithm->round());
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* name : {"ppo", "impala", "dqn", "ars", "bc"}) register_algorithm(still(name));
  const std::vector<rt::Promise> promises{
      {"SVR-3 a late runner is the save's error", &a_late_runner_is_the_saves_error},
      {"SVR-3 or all are left out, and it is said", &or_all_are_left_out_and_it_is_said},
      {"SVR-1 a dead runner is not saved, nor are the others", &a_dead_runner_is_not_saved},
      {"SVR-4 a Ctrl-C while runners are asked is not swallowed", &a_ctrl_c_is_not_swallowed},
      {"ALG-1 what a Ctrl-C left open has begun: ppo", [] { a_round_that_a_ctrl_c_left_open_has_begun("ppo"); }},
      {"ALG-1 what a Ctrl-C left open has begun: impala", [] { a_round_that_a_ctrl_c_left_open_has_begun("impala"); }},
      {"ALG-1 what a Ctrl-C left open has begun: dqn", [] { a_round_that_a_ctrl_c_left_open_has_begun("dqn"); }},
      {"ALG-1 what a Ctrl-C left open has begun: ars", [] { a_round_that_a_ctrl_c_left_open_has_begun("ars"); }},
      {"ALG-1 what a Ctrl-C left open has begun: bc", [] { a_round_that_a_ctrl_c_left_open_has_begun("bc"); }},
      {"LGR-3 none before the learner is there: ppo", [] { no_round_has_begun_before_the_learner_is_there("ppo"); }},
      {"LGR-3 none before the learner is there: impala",
       [] { no_round_has_begun_before_the_learner_is_there("impala"); }},
      {"LGR-3 none before the learner is there: dqn", [] { no_round_has_begun_before_the_learner_is_there("dqn"); }},
      {"LGR-3 none before the learner is there: ars", [] { no_round_has_begun_before_the_learner_is_there("ars"); }},
      {"LGR-3 and the run ends without one", &a_run_ends_without_a_round_then},
      {"OPL-1 ALG-1 a dead shard is left out in spite of a Ctrl-C",
       [] { a_dead_shard_is_left_out_in_spite_of_a_ctrl_c(0); }},
      {"OPL-1 ALG-1 or the other one", [] { a_dead_shard_is_left_out_in_spite_of_a_ctrl_c(1); }},
      {"LAC-1 ASL-3 a learner's death ends the loop", [] { the_learners_death_ends_an_asynchronous_loop(0); }},
      {"LAC-1 ASL-3 and with inference actors",
       [] { the_learners_death_ends_an_asynchronous_loop(1); }}};
  for (const rt::Promise& promise : promises)
    (void)rt::main(argc, argv, {.cpus = 2, .shutdown_grace = 60s}, {promise});
  return rt::failures == 0 ? 0 : 1;
}
