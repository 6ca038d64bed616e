#include "apps/rl/envs/cartpole_batch.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

namespace rl {
namespace {

detail::CartPoleStep step_for(troupe::kernels::Isa isa) {
  using troupe::kernels::Isa;
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::cartpole_step_avx512() != nullptr)
    return detail::cartpole_step_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && detail::cartpole_step_avx2() != nullptr)
    return detail::cartpole_step_avx2();
  return &detail::cartpole_step_reference;
}

std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

CartPoleBatch::CartPoleBatch(const CartPoleBatchOptions& options)
    : options_(options),
      padded_(rounded_up(options.num_envs, kGroup)),
      state_(4 * padded_),
      obs_(4 * padded_),
      final_obs_(4 * padded_),
      reward_(padded_, 1.0f),
      steps_(padded_),
      terminated_(padded_),
      truncated_(padded_),
      actions_(padded_),
      ended_masks_(rounded_up(padded_ / kGroup, 8)),
      generators_(options.num_envs, Generator(0)) {
  reset(0);
}

void CartPoleBatch::reset(std::uint64_t seed) {
  std::vector<std::uint64_t> seeds(size());
  std::iota(seeds.begin(), seeds.end(), seed);
  reset(seeds);
}

void CartPoleBatch::reset(std::span<const std::uint64_t> seeds) {
  pending_.clear();
  just_reset_.clear();
  std::fill(reward_.begin(), reward_.end(), 1.0f);
  ended_.clear();
  ended_length_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    generators_[i] = Generator(seeds[i]);
    reset_lane(i);
  }
}

void CartPoleBatch::reset_lane(std::size_t index) {
  for (std::size_t field = 0; field < 4; ++field) {
    state_[field * padded_ + index] =
        generators_[index].uniform(-CartPoleConstants::kResetBound, CartPoleConstants::kResetBound);
  }
  steps_[index] = 0;
  observe_lane(index);
}

void CartPoleBatch::observe_lane(std::size_t index) {
  for (std::size_t field = 0; field < 4; ++field) {
    obs_[field * padded_ + index] = static_cast<float>(state_[field * padded_ + index]);
  }
}

void CartPoleBatch::step(std::span<const std::uint8_t> actions) {
  const bool exact_fit = padded_ == size();
  if (!exact_fit) std::copy(actions.begin(), actions.begin() + static_cast<std::ptrdiff_t>(size()), actions_.begin());
  const detail::CartPoleLanes lanes{
      .groups = padded_ / kGroup,
      .x = state_.data(),
      .x_dot = state_.data() + padded_,
      .theta = state_.data() + 2 * padded_,
      .theta_dot = state_.data() + 3 * padded_,
      .obs = {obs_.data(), obs_.data() + padded_, obs_.data() + 2 * padded_, obs_.data() + 3 * padded_},
      .steps = steps_.data(),
      .max_steps = options_.max_episode_steps,
      .actions = exact_fit ? actions.data() : actions_.data(),
      .terminated = terminated_.data(),
      .truncated = truncated_.data(),
      .ended_masks = ended_masks_.data()};
  step_for(options_.isa)(lanes);
  if (!exact_fit) clear_padding();
  finish_pending_resets();
  ended_.clear();
  ended_length_.clear();

  for (std::size_t word = 0; word < ended_masks_.size(); word += 8) {
    std::uint64_t bits;
    std::memcpy(&bits, ended_masks_.data() + word, sizeof bits);
    for (; bits != 0; bits &= bits - 1) {
      const auto lane = static_cast<std::uint32_t>(word * kGroup + static_cast<std::size_t>(std::countr_zero(bits)));
      ended_.push_back(lane);
      ended_length_.push_back(steps_[lane]);
      if (options_.auto_reset == AutoReset::kNextStep) {
        pending_.push_back(lane);
        continue;
      }
      for (std::size_t field = 0; field < 4; ++field) final_obs_[field * padded_ + lane] = obs_[field * padded_ + lane];
      reset_lane(lane);
    }
  }
}

// BE-3: these lanes ended in the call before. What the step just computed for them is thrown away.
void CartPoleBatch::finish_pending_resets() {
  for (std::uint32_t lane : just_reset_) reward_[lane] = 1.0f;
  just_reset_.swap(pending_);
  pending_.clear();
  for (std::uint32_t lane : just_reset_) {
    reset_lane(lane);
    reward_[lane] = 0;
    terminated_[lane] = truncated_[lane] = 0;
    ended_masks_[lane / kGroup] &= static_cast<std::uint8_t>(~(1u << lane % kGroup));
  }
}

void CartPoleBatch::clear_padding() {
  for (std::size_t lane = size(); lane < padded_; ++lane) {
    for (std::size_t field = 0; field < 4; ++field) state_[field * padded_ + lane] = 0;
    steps_[lane] = 0;
  }
  const unsigned used = size() % kGroup;
  ended_masks_[size() / kGroup] &= static_cast<std::uint8_t>((1u << used) - 1);
}

CartPoleState CartPoleBatch::state(std::size_t index) const {
  return {state_[index], state_[padded_ + index], state_[2 * padded_ + index], state_[3 * padded_ + index]};
}

troupe::Status CartPoleBatch::set_state(std::size_t index, const CartPoleState& state) {
  if (!(std::abs(state.theta) <= std::numbers::pi / 4))
    return troupe::InvalidArgumentError("a pole's angle must be within pi/4");
  const double values[4] = {state.x, state.x_dot, state.theta, state.theta_dot};
  for (std::size_t field = 0; field < 4; ++field) state_[field * padded_ + index] = values[field];
  observe_lane(index);
  return {};
}

double measure_cartpole_steps_per_second(std::size_t num_envs, double seconds, troupe::kernels::Isa isa) {
  CartPoleBatch batch({.num_envs = num_envs, .isa = isa});
  batch.reset(1);
  Generator random(2);
  std::vector<std::uint8_t> actions(rounded_up(num_envs, 64));
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  std::uint64_t steps = 0;
  while (elapsed < seconds) {
    for (int round = 0; round < 64; ++round) {
      for (std::size_t at = 0; at < num_envs; at += 64) {
        const std::uint64_t bits = random.next_uint64();
        for (std::size_t byte = 0; byte < 8; ++byte) {
          const std::uint64_t spread = ((bits >> 8 * byte & 0xff) * 0x0101010101010101u) & 0x8040201008040201u;
          std::memcpy(actions.data() + at + 8 * byte, &spread, sizeof spread);
        }
      }
      batch.step({actions.data(), num_envs});
    }
    steps += 64 * num_envs;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return static_cast<double>(steps) / elapsed;
}

namespace detail {

void cartpole_step_reference(const CartPoleLanes& l) {
  for (std::size_t group = 0; group < l.groups; ++group) {
    unsigned ended = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const std::size_t i = 8 * group + k;
      const CartPoleState before{l.x[i], l.x_dot[i], l.theta[i], l.theta_dot[i]};
      const CartPoleState after =
          cartpole_advance(before, l.actions[i] != 0, std::sin(before.theta), std::cos(before.theta));
      l.x[i] = after.x, l.x_dot[i] = after.x_dot, l.theta[i] = after.theta, l.theta_dot[i] = after.theta_dot;
      l.obs[0][i] = static_cast<float>(after.x), l.obs[1][i] = static_cast<float>(after.x_dot);
      l.obs[2][i] = static_cast<float>(after.theta), l.obs[3][i] = static_cast<float>(after.theta_dot);
      l.terminated[i] = cartpole_failed(after);
      l.truncated[i] = ++l.steps[i] >= l.max_steps;
      ended |= static_cast<unsigned>(l.terminated[i] | l.truncated[i]) << k;
    }
    l.ended_masks[group] = static_cast<std::uint8_t>(ended);
  }
}

}  // namespace detail
}  // namespace rl
