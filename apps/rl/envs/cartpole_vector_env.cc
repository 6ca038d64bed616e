#include "apps/rl/envs/cartpole_vector_env.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/rl/envs/sync_vector_env.h"

namespace rl {
namespace {

constexpr std::size_t kObsSize = 4;

CartPoleBatchOptions batch_options(const BatchEnvOptions& options) {
  return {.num_envs = options.num_envs,
          .auto_reset = options.auto_reset,
          .max_episode_steps = options.max_episode_steps.value_or(CartPoleConstants::kMaxEpisodeSteps),
          .isa = options.isa};
}

}  // namespace

troupe::Result<std::unique_ptr<CartPoleVectorEnv>> CartPoleVectorEnv::make(const BatchEnvOptions& options) {
  if (options.num_envs == 0) return troupe::InvalidArgumentError("at least one environment is needed");
  if (options.auto_reset == AutoReset::kDisabled)
    return troupe::InvalidArgumentError("CartPole in batches resets itself; SyncVectorEnv need not");
  return std::unique_ptr<CartPoleVectorEnv>(new CartPoleVectorEnv(options));
}

CartPoleVectorEnv::CartPoleVectorEnv(const BatchEnvOptions& options)
    : auto_reset_(options.auto_reset),
      specs_(specs_of(CartPole::kSpec)),
      batch_(batch_options(options)),
      pushes_(options.num_envs),
      ended_before_(options.num_envs),
      final_obs_(specs_.observation_space, options.num_envs) {
  if (options.max_episode_steps) specs_.max_episode_steps = options.max_episode_steps;
}

void CartPoleVectorEnv::reset(std::span<const std::uint64_t> seeds) {
  if (seeds.size() != size())
    troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), size())).raise();
  batch_.reset(seeds);
  std::fill(ended_before_.begin(), ended_before_.end(), std::uint8_t{0});
  returns_.clear(), lengths_.clear();
}

void CartPoleVectorEnv::reset_one(std::size_t) {
  troupe::InvalidArgumentError("CartPole in batches resets itself").raise();
}

void CartPoleVectorEnv::observe(Rows obs) const {
  const std::span<float> rows = obs.as<float>();
  for (std::size_t field = 0; field < kObsSize; ++field) {
    const std::span<const float> column = batch_.obs(field);
    for (std::size_t i = 0; i < column.size(); ++i) rows[i * kObsSize + field] = column[i];
  }
}

void CartPoleVectorEnv::step(ConstRows actions, const StepOut& out) {
  const std::span<const std::int64_t> choices = actions.as<std::int64_t>();
  for (std::size_t i = 0; i < size(); ++i) {
    pushes_[i] = static_cast<std::uint8_t>(choices[i]);
    if ((choices[i] & ~std::int64_t{1}) == 0 || ended_before_[i] != 0) continue;
    troupe::InvalidArgumentError(
        fmt::format("environment {} of {}: action {} is not in Discrete(2)", i, specs_.id, choices[i]))
        .raise();  // BE-6
  }
  batch_.step(pushes_);
  observe(out.obs);
  std::copy(batch_.reward().begin(), batch_.reward().end(), out.reward.begin());
  std::copy(batch_.terminated().begin(), batch_.terminated().end(), out.terminated.begin());
  std::copy(batch_.truncated().begin(), batch_.truncated().end(), out.truncated.begin());
  std::copy(ended_before_.begin(), ended_before_.end(), out.is_reset.begin());

  std::fill(ended_before_.begin(), ended_before_.end(), std::uint8_t{0});
  returns_.assign(batch_.ended_length().begin(), batch_.ended_length().end());  // each step's reward is 1
  lengths_.assign(batch_.ended_length().begin(), batch_.ended_length().end());
  const std::span<float> last = final_obs_.as<float>();
  for (std::size_t k = 0; k < batch_.ended().size(); ++k) {
    const std::uint32_t lane = batch_.ended()[k];
    if (auto_reset_ == AutoReset::kNextStep) ended_before_[lane] = 1;
    else
      for (std::size_t field = 0; field < kObsSize; ++field) last[k * kObsSize + field] = batch_.final_obs(field)[lane];
  }
}

EpisodeEnds CartPoleVectorEnv::ends() const {
  const std::size_t kept = auto_reset_ == AutoReset::kSameStep ? returns_.size() : 0;
  return {batch_.ended(), returns_, lengths_, final_obs_.view().slice(0, kept)};
}

}  // namespace rl
