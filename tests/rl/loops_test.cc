// The loops in a real cluster, where somebody is late, dead or interrupted: SVR-1, SVR-3, SVR-4.
//
// A Ctrl-C comes to a driver once, so each promise has a cluster of its own.
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "../runtime/check.h"

#include "apps/rl/config/run_config.h"
#include "apps/rl/loops/saved_runners.h"

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

}  // namespace

int main(int argc, char** argv) {
  const std::vector<rt::Promise> promises{
      {"SVR-3 a late runner is the save's error", &a_late_runner_is_the_saves_error},
      {"SVR-3 or all are left out, and it is said", &or_all_are_left_out_and_it_is_said},
      {"SVR-1 a dead runner is not saved, nor are the others", &a_dead_runner_is_not_saved},
      {"SVR-4 a Ctrl-C while runners are asked is not swallowed", &a_ctrl_c_is_not_swallowed}};
  for (const rt::Promise& promise : promises) (void)rt::main(argc, argv, {.cpus = 2}, {promise});
  return rt::failures == 0 ? 0 : 1;
}
