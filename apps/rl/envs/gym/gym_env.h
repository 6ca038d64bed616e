// GymEnv: k environments of Gymnasium, stepped by one Python process: what make_batch_env gives for
// "gym:LunarLander-v3".
//
//   make_batch_env("gym:ALE/Pong-v5", {.num_envs = 4, .kwargs = {{"frameskip", 4}}, .gym = {.gym_import = "ale_py"}})
//
// Observations, actions and results cross by shared memory, one doorbell a batch each way (host_memory.h). The Python
// side (gym_host.py) calls gymnasium.make(id, **kwargs) k times and steps them one after the other, as SyncVectorEnv
// does, with its three modes of automatic reset.
//
//   ready --send()--> stepping --receive(): answered--> ready
//                        |            threw: that environment was made anew in place (a Fault)
//                        +-- dead, or late: TERM, grace, KILL, back-off, new process (a Fault for each open episode)
//                        |                                              +--> ready
//                        +-- more restarts than GymOptions::restarts allows --> broken: every call throws that error
//
// One thread at a time, any; cancel() from any thread. No actor, no runtime: whoever wants two processes at work at a
// time owns two of them and calls send() of one before receive() of the other.
//
// Promises BE-1 to BE-7 of batch_env.h, with these words on them: reset() gives the seed to env.reset(seed=...), later
// episodes of that environment go on in its own stream; an environment that was made anew begins with a seed that was
// derived from its own and used never before. Its state cannot be saved: who resumes training begins new episodes.
//
// Invariants
//   GYM-1  Every call returns or throws within its deadline, plus what restarts take: each at most `grace` twice,
//          `back_off_most` and `start_deadline` twice, and as many as `restarts` allows (RIN-1, RIN-2).
//   GYM-2  Nothing that the process says or writes is trusted: a foreign or older hello, spaces that change, results
//          that cannot be are typed errors or faults, and never undefined behaviour.
//   GYM-3  No step of an episode that was broken off is counted twice or as another one's: a new process begins with
//          new memory. When the process fails in reset_one, the next step is not made: it shows the faults of the
//          others, and all rows begin anew.
//   GYM-4  make() fails with a type: NotFoundError (no such program, unknown id), RuntimeEnvError (Python lacks
//          numpy, gymnasium, what the environment needs, or the import failed), InvalidArgumentError (its arguments,
//          its spaces), WorkerCrashedError, DeadlineExceededError; the last two with the end of what was printed.
//   GYM-5  An exception in an environment's step costs that episode only, and no restart; one in the first step of an
//          episode, or in a reset, ends the process, which counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/gym/host_memory.h"
#include "apps/rl/envs/gym/host_process.h"
#include "apps/rl/envs/gym/short_spin.h"

namespace rl {

class GymEnv final : public BatchEnv {
 public:
  /// `id`: Gymnasium's, without the prefix.
  static troupe::Result<std::unique_ptr<GymEnv>> make(std::string_view id, const BatchEnvOptions& options);

  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return options_.num_envs; }
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }
  /// Of ale-py's games.
  [[nodiscard]] std::span<const std::int32_t> lives() const override {
    return has_lives_ ? memory_.array<const std::int32_t>(memory_.layout().lives) : std::span<const std::int32_t>();
  }

  /// The two halves of step(). Nothing else is called between them.
  void send(ConstRows actions);
  void receive(const StepOut& out);

  /// The call under way and all later ones throw CancelledError. Any thread.
  void cancel();

  /// Gymnasium's, NumPy's and Python's versions, by their names.
  [[nodiscard]] const boost::json::object& versions() const { return versions_; }
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }
  [[nodiscard]] int pid() const { return process_ ? process_->pid() : -1; }

 private:
  using Time = HostProcess::Time;
  struct Episode {
    std::uint64_t seed = 0;   // as it was given
    std::uint32_t lives = 0;  // how often it was made anew
    double sum = 0;
    std::int64_t steps = 0;
    bool ended = false;       // and not begun anew
  };

  GymEnv(std::string_view id, const BatchEnvOptions& options);
  troupe::Status start();
  [[nodiscard]] troupe::ErrorPtr start_failed(HostProcess::Heard heard);
  [[nodiscard]] boost::json::object setup() const;
  troupe::Status take_hello(std::string_view text);
  troupe::Status send_layout(Time deadline);

  void check_actions(ConstRows actions) const;
  void check_usable() const;
  HostProcess::Heard call(HostCommand command, std::chrono::milliseconds deadline);
  void begin_call(HostCommand command);
  HostProcess::Heard wait_for_answer(Time deadline);
  [[nodiscard]] bool results_make_sense();
  void take_results(const StepOut& out);
  void broke_off(std::size_t env, FaultKind kind, std::string what);
  void process_failed(HostProcess::Heard heard, std::chrono::milliseconds deadline);
  void show_restart(const StepOut& out) const;
  void restart(std::string why);
  [[nodiscard]] bool begin_after_restart();
  void wait_before_restart();
  [[nodiscard]] std::uint64_t next_seed(Episode& episode) const;
  [[nodiscard]] troupe::ErrorPtr error_with_tail(std::string message) const;
  [[noreturn]] void raise_cancelled();

  std::string gym_id_;
  BatchEnvOptions options_;
  EnvSpecs specs_;
  boost::json::object versions_;
  bool has_lives_ = false;
  bool has_specs_ = false, was_reset_ = false;
  OwnedFd cancel_fd_;
  HostMemory memory_;
  std::unique_ptr<HostProcess> process_;  // below its memory and descriptors: ends first
  RestartCounter counter_;
  std::uint64_t restarts_ = 0, asked_ = 0;
  Time deadline_{};
  ShortSpin spin_;
  std::vector<std::string> last_words_;  // of the process that ended last
  troupe::ErrorPtr broken_;

  std::vector<Episode> episodes_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  std::vector<Fault> faults_, owed_;
  bool restart_to_show_ = false;
};

}  // namespace rl
