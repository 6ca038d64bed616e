#include "apps/rl/config/env_setup.h"

#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/rl/envs/wrappers/frame_stack.h"
#include "apps/rl/envs/wrappers/simple.h"

namespace rl {
namespace {

constexpr double kMostEpisodeSteps = 1e9, kMostFrames = 64;

troupe::Result<boost::json::object> parsed(const std::string& kwargs) {
  boost::system::error_code failed;
  const boost::json::value value = boost::json::parse(kwargs, failed);
  if (failed || !value.is_object())
    return troupe::InvalidArgumentError(fmt::format("env_kwargs is a JSON object, not '{}'", kwargs));
  return value.as_object();
}

}  // namespace

std::vector<Setting> settings_of(EnvSetup& setup) {
  return {{.name = "env", .help = "Environment; 'rl list' shows them", .value = &setup.id},
          {.name = "env_kwargs", .help = "Arguments of the environment, a JSON object", .value = &setup.kwargs},
          {.name = "max_episode_steps", .help = "Time limit of an episode; 0: the environment's own",
           .value = &setup.max_episode_steps, .least = 0, .most = kMostEpisodeSteps},
          {.name = "normalize_observation", .help = "Observations to mean 0 and variance 1, by running moments",
           .value = &setup.normalize_observation},
          {.name = "normalize_reward", .help = "Rewards divided by the deviation of the discounted return",
           .value = &setup.normalize_reward},
          {.name = "clip_reward", .help = "Rewards within this much of 0; 0: as they are", .value = &setup.clip_reward,
           .least = 0},
          {.name = "frame_stack", .help = "Observations shown together, oldest first", .value = &setup.frame_stack,
           .least = 1, .most = kMostFrames}};
}

troupe::Result<MadeEnv> MadeEnv::make(const EnvSetup& setup, const Use& use) {
  auto kwargs = parsed(setup.kwargs);
  if (!kwargs.ok()) return kwargs.error_ptr();
  BatchEnvOptions options{.num_envs = use.num_envs, .auto_reset = AutoReset::kSameStep, .kwargs = std::move(*kwargs)};
  if (setup.max_episode_steps > 0) options.max_episode_steps = static_cast<int>(setup.max_episode_steps);
  auto made = make_batch_env(setup.id, options);
  if (!made.ok()) return made.error_ptr();
  MadeEnv out;
  out.env_ = std::move(*made);
  out.innermost_ = out.env_.get();
  troupe::Status status;
  // What `wrapped` holds takes the place of what it is around.
  const auto put = [&](auto wrapped) {
    if (!wrapped.ok()) return status = wrapped.error_ptr(), false;
    out.env_ = std::move(*wrapped);
    return true;
  };
  if (use.clip_action && std::holds_alternative<Box>(out.specs().action_space) &&
      !put(ClipAction::make(std::move(out.env_))))
    return status.error_ptr();
  if (setup.clip_reward > 0 && !use.frozen &&
      !put(ClipReward::make(std::move(out.env_), -setup.clip_reward, setup.clip_reward)))
    return status.error_ptr();
  SharedMoments* returns = nullptr;
  if (setup.normalize_reward && !use.frozen) {
    auto wrapped = std::make_unique<NormalizeReward>(std::move(out.env_), NormalizeOptions{.gamma = use.gamma});
    returns = &wrapped->moments();
    out.env_ = std::move(wrapped);
  }
  if (setup.frame_stack > 1 && !put(FrameStack::make(std::move(out.env_), setup.frame_stack)))
    return status.error_ptr();
  if (setup.normalize_observation) {
    auto wrapped = NormalizeObservation::make(std::move(out.env_), {.frozen = use.frozen});
    if (!wrapped.ok()) return wrapped.error_ptr();
    out.shared_.push_back(&(*wrapped)->moments());
    out.env_ = std::move(*wrapped);
  }
  if (returns != nullptr) out.shared_.push_back(returns);
  return out;
}

Moments MadeEnv::take_deltas() {
  Moments out;
  for (SharedMoments* one : shared_) out.push_back(one->take_delta());
  return out;
}

void MadeEnv::sync(const Moments& moments) {
  // Evaluation knows those of observations alone, which come first.
  if (moments.size() < shared_.size())
    troupe::InvalidArgumentError(fmt::format("{} moments where {} are wanted", moments.size(), shared_.size())).raise();
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    if (moments[i].columns() != shared_[i]->base().columns())
      troupe::InvalidArgumentError("moments of another environment").raise();
    shared_[i]->sync(moments[i]);
  }
}

Moments MadeEnv::moments() const {
  Moments out;
  for (const SharedMoments* one : shared_) out.push_back(one->base());
  return out;
}

void merge(Moments& into, const Moments& delta) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i].merge(delta.at(i));
}

}  // namespace rl
