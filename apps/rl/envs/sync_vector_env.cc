#include "apps/rl/envs/sync_vector_env.h"

#include <utility>

#include <fmt/format.h>

namespace rl {

EnvSpecs specs_of(const EnvSpec& spec) {
  Box obs{.dtype = DType::kFloat32, .shape = {spec.obs_size}, .low = {}, .high = {}};
  obs.low.assign(spec.obs_low.begin(), spec.obs_low.begin() + static_cast<std::ptrdiff_t>(spec.obs_size));
  obs.high.assign(spec.obs_high.begin(), spec.obs_high.begin() + static_cast<std::ptrdiff_t>(spec.obs_size));
  Space action = Discrete{.n = spec.num_actions};
  if (spec.num_actions == 0) {
    const double limit = spec.action_limit;
    action = Box{.dtype = DType::kFloat32, .shape = {1}, .low = {-limit}, .high = {limit}};
  }
  return {.id = std::string(spec.id),
          .observation_space = std::move(obs),
          .action_space = std::move(action),
          .max_episode_steps = spec.max_episode_steps,
          .reward_threshold = spec.reward_threshold};
}

/// BE-6
void detail::EnvSlot::check(ConstRows actions, std::size_t row) const {
  const EnvSpec& spec = env_->spec();
  if (spec.num_actions == 0) static_cast<void>(actions.as<float>());
  else check_choice(actions.as<std::int64_t>()[row], spec.num_actions, row, spec.id);
}

Action detail::EnvSlot::action_of(ConstRows actions, std::size_t row) const {
  if (env_->spec().num_actions == 0)
    return {.value = static_cast<double>(actions.as<float>()[row]), .type = ActionType::kFloat32};
  return {.value = static_cast<double>(actions.as<std::int64_t>()[row]), .type = ActionType::kDiscrete};
}

troupe::Result<std::unique_ptr<SyncVectorEnv>> SyncVectorEnv::make(std::string_view id,
                                                                   const BatchEnvOptions& options) {
  std::vector<std::unique_ptr<Env>> envs;
  for (std::size_t i = 0; i < options.num_envs; ++i) {
    auto env = make_env(id);
    if (!env.ok()) return env.error_ptr();
    envs.push_back(std::move(*env));
  }
  return make(std::move(envs), options);
}

troupe::Result<std::unique_ptr<SyncVectorEnv>> SyncVectorEnv::make(std::vector<std::unique_ptr<Env>> envs,
                                                                   const BatchEnvOptions& options) {
  if (envs.empty()) return troupe::InvalidArgumentError("at least one environment is needed");
  std::vector<detail::EnvSlot> slots;
  for (std::unique_ptr<Env>& env : envs) slots.emplace_back(std::move(env));
  EnvSpecs specs = specs_of(slots.front().env().spec());
  if (options.max_episode_steps) specs.max_episode_steps = options.max_episode_steps;
  return std::unique_ptr<SyncVectorEnv>(new SyncVectorEnv(std::move(slots), std::move(specs), options.auto_reset));
}

}  // namespace rl
