// ClassicVectorEnv: the five classic-control tasks, many at once, as a structure of arrays: for rollouts and for speed.
// Its trajectories are those of SyncVectorEnv (sync_vector_env.h) with the same seeds, actions and mode.
//
// What is here is the same for all five: seeds and streams, counts of steps, returns, automatic reset, ends of
// episodes. What a task does in a step is its kernel (lanes.h): `kernels_reference.cc` by the environments of env.h,
// `kernels.inc` in vectors. Episodes begin by the environments of env.h in every version.
//
// One thread at a time. Promises: BE-1 to BE-6 of batch_env.h. A call that raises has changed nothing.
//
//   CVE-1  On Isa::kReference every number is SyncVectorEnv's, bit for bit.
//   CVE-2  In the vector versions one step from the same state differs from the exact one by rounding alone:
//
//            task                   what is theirs                                  state                reward
//            CartPole               sin, cos (1 ulp), products for divisions        1e-14                equal
//            MountainCar            cos (1.5 ulp)                                   3e-16                equal
//            MountainCarContinuous  cos; the rest is rounded to float32 as there    1 ulp of a float32   1e-14
//            Pendulum               sin, cos, the angle that the reward takes       1e-14                1e-13
//            Acrobot                sin, cos, the order of operations, fused ones   1e-12 modulo a turn  equal
//
//          These are bounds; the most that the test sees (204,800 steps, AVX2) is 4.4e-16, 1.1e-16, 0, 3.6e-15,
//          1.8e-15, and 0 for all rewards.
//          Flags are equal unless the state is within this of a limit. An observation is the state's, or its sine and
//          cosine, as float32: 1 ulp of float32. First steps and observations of episodes are as in every other step.
//   CVE-3  A result does not depend on how many environments there are or on the place among them.
//   CVE-4  CartPole's vector versions have no range reduction: the angle before a step is within the failure limit, for
//          a failed pole is reset. set_state refuses angles beyond pi/4.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/classic/lanes.h"
#include "apps/rl/envs/env.h"
#include "apps/rl/envs/env_registry.h"

namespace rl {

namespace detail {
struct ClassicTask;
}

class ClassicVectorEnv final : public BatchEnv {
 public:
  /// `id`: of make_env. The version is the fastest that `options.isa` allows and the processor has.
  static troupe::Result<std::unique_ptr<ClassicVectorEnv>> make(std::string_view id, const BatchEnvOptions& options);

  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return size_; }
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  bool visit(StateVisitor& visitor) override;

  /// The inside of one, as Env::state() has it.
  [[nodiscard]] std::vector<double> state(std::size_t env) const;
  /// kAfterStep: as if one step of the episode were over. InvalidArgumentError: other sizes, and CVE-4.
  troupe::Status set_state(std::size_t env, std::span<const double> state, StateOrigin origin);

 private:
  ClassicVectorEnv(const detail::ClassicTask& task, const BatchEnvOptions& options);

  void refuse_ended() const;
  void refuse_wrong_actions(ConstRows actions) const;
  [[nodiscard]] detail::ClassicLanes lanes_from(std::size_t first);
  void step_groups(ConstRows actions, const StepOut& out);
  void step_rest(ConstRows actions, const StepOut& out);
  void begin_pending(const StepOut& out);
  void collect_ends(const StepOut& out);
  void begin_episode(std::size_t env, float* row);

  [[nodiscard]] std::size_t whole_groups() const { return size_ / detail::kClassicGroup; }

  const detail::ClassicTask& task_;
  AutoReset auto_reset_;
  std::size_t size_, padded_;  // padded_: the arrays' length, a multiple of a group
  EnvSpecs specs_;
  detail::ClassicKernel kernel_;
  bool (*all_below_)(const std::int64_t* numbers, std::size_t count, std::int64_t bound);

  std::vector<double> state_;  // [field][padded_]
  std::vector<double> episode_return_;
  std::vector<std::int32_t> steps_;
  std::vector<std::uint8_t> ended_masks_;  // a byte a group, whole words of them
  std::vector<Generator> generators_;
  std::vector<std::uint8_t> ended_before_;  // an episode ended, and the next has not begun
  std::size_t ended_before_count_ = 0;

  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_;
};

}  // namespace rl
