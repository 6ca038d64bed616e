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
  std::vector<Slot> slots;
  for (std::unique_ptr<Env>& env : envs) slots.push_back({.env = std::move(env), .generator = Generator(0)});
  return std::unique_ptr<SyncVectorEnv>(new SyncVectorEnv(std::move(slots), options));
}

SyncVectorEnv::SyncVectorEnv(std::vector<Slot> slots, const BatchEnvOptions& options)
    : slots_(std::move(slots)), auto_reset_(options.auto_reset), specs_(specs_of(slots_.front().env->spec())) {
  if (options.max_episode_steps) specs_.max_episode_steps = options.max_episode_steps;
  max_episode_steps_ = *specs_.max_episode_steps;
  final_obs_ = OwnedRows(specs_.observation_space, slots_.size());
}

void SyncVectorEnv::reset(std::span<const std::uint64_t> seeds) {
  if (seeds.size() != slots_.size())
    troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), slots_.size())).raise();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].generator = Generator(seeds[i]);
    begin_episode(slots_[i]);
  }
  ended_.clear(), returns_.clear(), lengths_.clear(), faults_.clear();
}

void SyncVectorEnv::reset_one(std::size_t env) { begin_episode(slots_.at(env)); }

void SyncVectorEnv::begin_episode(Slot& slot) {
  slot.env->reset(slot.generator);
  slot.steps = 0;
  slot.episode_return = 0;
  slot.ended = false;
}

void SyncVectorEnv::observe(Rows obs) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].env->observe(obs.row(i).as<float>());
}

/// BE-6
Action SyncVectorEnv::action_of(ConstRows actions, std::size_t index) const {
  const int choices = slots_[index].env->spec().num_actions;
  if (choices == 0) return {.value = static_cast<double>(actions.as<float>()[index]), .type = ActionType::kFloat32};
  const std::int64_t choice = actions.as<std::int64_t>()[index];
  if (choice < 0 || choice >= choices)
    troupe::InvalidArgumentError(
        fmt::format("environment {} of {}: action {} is not in {}", index, specs_.id, choice,
                    to_string(specs_.action_space)))
        .raise();
  return {.value = static_cast<double>(choice), .type = ActionType::kDiscrete};
}

void SyncVectorEnv::step(ConstRows actions, const StepOut& out) {
  ended_.clear(), returns_.clear(), lengths_.clear(), faults_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    out.is_reset[i] = 0;
    if (!slot.ended) {
      step_slot(i, action_of(actions, i), out);
      continue;
    }
    if (auto_reset_ == AutoReset::kDisabled)
      troupe::InvalidArgumentError(fmt::format("environment {} of {} has ended: reset it", i, specs_.id)).raise();
    begin_episode(slot);  // BE-3
    out.is_reset[i] = 1;
    out.reward[i] = 0;
    out.terminated[i] = out.truncated[i] = 0;
    slot.env->observe(out.obs.row(i).as<float>());
  }
}

void SyncVectorEnv::step_slot(std::size_t index, Action action, const StepOut& out) {
  Slot& slot = slots_[index];
  StepOutcome outcome{};
  try {
    outcome = slot.env->step(action);
  } catch (const std::exception& error) {
    if (slot.steps == 0) throw;  // SVE-1
    return broke_off(index, error.what(), out);
  }
  ++slot.steps;
  slot.episode_return += outcome.reward;
  out.reward[index] = outcome.reward;
  out.terminated[index] = outcome.terminated;
  out.truncated[index] = slot.steps >= max_episode_steps_;
  if (outcome.terminated || out.truncated[index] != 0) episode_ended(index);
  slot.env->observe(out.obs.row(index).as<float>());
}

/// BE-7. Its generator goes on: the next episode is none that it has had.
void SyncVectorEnv::broke_off(std::size_t index, std::string what, const StepOut& out) {
  Slot& slot = slots_[index];
  faults_.push_back({.env = static_cast<std::uint32_t>(index),
                     .kind = FaultKind::kThrew,
                     .partial_return = slot.episode_return,
                     .length = slot.steps,
                     .what = std::move(what)});
  begin_episode(slot);
  out.reward[index] = 0;
  out.terminated[index] = out.truncated[index] = 0;
  out.is_reset[index] = 1;
  slot.env->observe(out.obs.row(index).as<float>());
}

void SyncVectorEnv::episode_ended(std::size_t index) {
  Slot& slot = slots_[index];
  ended_.push_back(static_cast<std::uint32_t>(index));
  returns_.push_back(slot.episode_return);
  lengths_.push_back(slot.steps);
  if (auto_reset_ != AutoReset::kSameStep) {
    slot.ended = true;
    return;
  }
  slot.env->observe(final_obs_.view().row(ended_.size() - 1).as<float>());  // BE-2
  begin_episode(slot);
}

EpisodeEnds SyncVectorEnv::ends() const {
  const std::size_t kept = auto_reset_ == AutoReset::kSameStep ? ended_.size() : 0;
  return {ended_, returns_, lengths_, final_obs_.view().slice(0, kept)};
}

}  // namespace rl
