// Many CartPoles stepped together, as a structure of arrays: for rollouts and for speed.
//
// One thread at a time. Environment i draws its resets from its own generator (seed + i), as Gymnasium's
// SyncVectorEnv does, so the trajectories are those of sync_vector_env.h with the same seed, actions and mode.
//
// CPB-1  On Isa::kReference every state is Gymnasium's, bit for bit (sin and cos of the C library, no contraction).
//        The vector versions keep the order of operations and the exact divisions; only sin and cos are their own,
//        within 1 ulp, so that one step differs by less than 1e-14.
// CPB-2  The angle before a step is within the failure limit, because a failed pole is reset; the vector versions' sin
//        and cos therefore need no range reduction. set_state refuses angles beyond pi/4.
// CPB-3  A result does not depend on num_envs or on the environment's index.
// Automatic reset and flags: BE-2, BE-3, BE-5 of batch_env.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/cartpole.h"
#include "apps/rl/envs/cartpole_lanes.h"
#include "apps/rl/algorithms/rng.h"
#include "kernels/cpu/isa/isa.h"

namespace rl {

struct CartPoleBatchOptions {
  std::size_t num_envs = 1024;
  AutoReset auto_reset = AutoReset::kSameStep;
  int max_episode_steps = CartPoleConstants::kMaxEpisodeSteps;
  troupe::kernels::Isa isa = troupe::kernels::Isa::kReference;
};

class CartPoleBatch {
 public:
  explicit CartPoleBatch(const CartPoleBatchOptions& options);

  /// Environment i with seeds[i]; with one number, seed + i.
  void reset(std::span<const std::uint64_t> seeds);
  void reset(std::uint64_t seed);
  /// One byte an environment: 0 pushes left, anything else right.
  void step(std::span<const std::uint8_t> actions);

  [[nodiscard]] std::size_t size() const { return options_.num_envs; }
  /// Field 0..3 (x, x_dot, theta, theta_dot) of all environments.
  [[nodiscard]] std::span<const float> obs(std::size_t field) const { return lanes_of(obs_, field); }
  [[nodiscard]] std::span<const float> final_obs(std::size_t field) const { return lanes_of(final_obs_, field); }
  [[nodiscard]] std::span<const float> reward() const { return {reward_.data(), size()}; }
  [[nodiscard]] std::span<const std::uint8_t> terminated() const { return {terminated_.data(), size()}; }
  [[nodiscard]] std::span<const std::uint8_t> truncated() const { return {truncated_.data(), size()}; }
  /// Environments that ended in this step, in rising order, and the length (= return) of those episodes.
  [[nodiscard]] std::span<const std::uint32_t> ended() const { return ended_; }
  [[nodiscard]] std::span<const std::int32_t> ended_length() const { return ended_length_; }

  [[nodiscard]] CartPoleState state(std::size_t index) const;
  troupe::Status set_state(std::size_t index, const CartPoleState& state);

 private:
  static constexpr std::size_t kGroup = 8;  // lanes handled together; the arrays are padded to it

  template <class T>
  [[nodiscard]] std::span<const T> lanes_of(const std::vector<T>& all, std::size_t field) const {
    return std::span(all).subspan(field * padded_, size());
  }
  void reset_lane(std::size_t index);
  void observe_lane(std::size_t index);
  void finish_pending_resets();
  void clear_padding();

  CartPoleBatchOptions options_;
  std::size_t padded_;
  std::vector<double> state_;  // [4][padded_]
  std::vector<float> obs_, final_obs_;
  std::vector<float> reward_;
  std::vector<std::int32_t> steps_;
  std::vector<std::uint8_t> terminated_, truncated_, actions_;
  std::vector<std::uint8_t> ended_masks_;  // bit k of byte g: lane 8 g + k ended
  std::vector<std::uint32_t> ended_, pending_, just_reset_;
  std::vector<std::int32_t> ended_length_;
  std::vector<Generator> generators_;
};

/// Environment steps per second with random actions on the calling thread: resets, observations, flags and the
/// drawing of the actions included. Runs for about `seconds`.
[[nodiscard]] double measure_cartpole_steps_per_second(std::size_t num_envs, double seconds, troupe::kernels::Isa isa);

}  // namespace rl
