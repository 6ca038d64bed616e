#include "apps/rl/envs/vector_env.h"

#include <utility>

namespace rl {

troupe::Result<VectorEnv> VectorEnv::make(std::string_view id, const VectorEnvOptions& options) {
  if (options.num_envs == 0) return troupe::InvalidArgumentError("a vector environment needs at least one environment");
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < options.num_envs; ++i) {
    auto env = make_env(id);
    if (!env.ok()) return env.error_ptr();
    slots.push_back({.env = std::move(*env), .generator = Generator(0)});
  }
  return VectorEnv(std::move(slots), options);
}

VectorEnv::VectorEnv(std::vector<Slot> slots, const VectorEnvOptions& options)
    : slots_(std::move(slots)),
      auto_reset_(options.auto_reset),
      max_episode_steps_(options.max_episode_steps.value_or(slots_.front().env->spec().max_episode_steps)),
      obs_size_(slots_.front().env->spec().obs_size) {
  const std::size_t n = slots_.size();
  out_ = {.obs = std::vector<float>(n * obs_size_),
          .reward = std::vector<double>(n),
          .terminated = std::vector<std::uint8_t>(n),
          .truncated = std::vector<std::uint8_t>(n),
          .is_reset = std::vector<std::uint8_t>(n),
          .final_obs = std::vector<float>(n * obs_size_),
          .episode_return = std::vector<double>(n),
          .episode_length = std::vector<std::int64_t>(n)};
}

std::span<float> VectorEnv::obs_row(std::vector<float>& rows, std::size_t index) const {
  return std::span(rows).subspan(index * obs_size_, obs_size_);
}

void VectorEnv::reset(std::uint64_t seed) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].generator = Generator(seed + i);
    reset_slot(i);
  }
}

void VectorEnv::reset_slot(std::size_t index) {
  Slot& slot = slots_[index];
  slot.env->reset(slot.generator);
  slot.steps = 0;
  slot.episode_return = 0;
  slot.ended = false;
  slot.env->observe(obs_row(out_.obs, index));
}

const VectorStep& VectorEnv::step(std::span<const Action> actions) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    out_.is_reset[i] = slots_[i].ended;  // only kNextStep leaves a slot ended
    if (slots_[i].ended) {
      reset_slot(i);
      out_.reward[i] = 0;
      out_.terminated[i] = out_.truncated[i] = 0;
    } else {
      step_slot(i, actions[i]);
    }
  }
  return out_;
}

void VectorEnv::step_slot(std::size_t index, Action action) {
  Slot& slot = slots_[index];
  const StepOutcome outcome = slot.env->step(action);
  ++slot.steps;
  slot.episode_return += outcome.reward;
  out_.reward[index] = outcome.reward;
  out_.terminated[index] = outcome.terminated;
  out_.truncated[index] = slot.steps >= max_episode_steps_;
  if (!outcome.terminated && out_.truncated[index] == 0) {
    slot.env->observe(obs_row(out_.obs, index));
    return;
  }
  out_.episode_return[index] = slot.episode_return;
  out_.episode_length[index] = slot.steps;
  if (auto_reset_ == AutoReset::kSameStep) {
    slot.env->observe(obs_row(out_.final_obs, index));
    reset_slot(index);
  } else {
    slot.env->observe(obs_row(out_.obs, index));
    slot.ended = true;
  }
}

}  // namespace rl
