#include "apps/rl/config/env_setup.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/named_program.h"
#include "apps/common/precise_json.h"
#include "apps/rl/envs/wrappers/atari.h"
#include "apps/rl/envs/wrappers/check_finite.h"
#include "apps/rl/envs/wrappers/concat_env.h"
#include "apps/rl/envs/wrappers/frame_stack.h"
#include "apps/rl/envs/wrappers/image.h"
#include "apps/rl/envs/wrappers/same_step_reset.h"
#include "apps/rl/envs/wrappers/simple.h"

namespace rl {
namespace {

constexpr double kMostEpisodeSteps = 1e9, kMostFrames = 64, kMostSeconds = 86'400, kMostRestarts = 1e6;

troupe::Result<boost::json::object> parsed(const std::string& kwargs) {
  boost::system::error_code failed;
  const boost::json::value value = apps::parse_json(kwargs, failed);
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
          {.name = "rescale_action", .help = "Actions within [-1, 1], stretched to the environment's bounds; for Box "
                                             "actions of float32",
           .value = &setup.rescale_action},
          {.name = "frame_stack", .help = "Observations shown together, oldest first", .value = &setup.frame_stack,
           .least = 1, .most = kMostFrames},
          {.name = "atari", .help = "Frames of a game as usual: no-op start, fire, the greatest of 2 of 4, a life an "
                                    "episode, grey, 84 x 84",
           .value = &setup.atari},
          {.name = "python", .help = "Of gym: environments: the interpreter", .value = &setup.python,
           .program = true},
          {.name = "gym_import", .help = "Of gym: environments: MODULE[:CALL] that registers them, as ale_py",
           .value = &setup.gym_import},
          {.name = "step_deadline", .help = "Of gym: environments: seconds for a step of all of a process",
           .value = &setup.step_deadline, .least = 0.001, .most = kMostSeconds},
          {.name = "env_restarts", .help = "Of gym: environments: restarts of a process within a minute, at most",
           .value = &setup.env_restarts, .least = 0, .most = kMostRestarts}};
}

troupe::Status check_programs(const EnvSetup& setup) {
  return apps::check_named_program(
      setup.python, "It is the Python of its environment: if it is trusted, let it and its folders be your own");
}

bool typed_modules(const EnvSetup& setup, const boost::json::object& typed) {
  if (typed.contains("env")) return setup.gym_import.empty() || typed.contains("gym_import");
  // gym:MODULE:NAME of a file would be found there as well.
  const std::size_t gym = setup.id.find("gym:");
  const bool names_module = gym != std::string::npos && setup.id.find(':', gym + 4) != std::string::npos;
  return typed.contains("gym_import") && !names_module;
}

namespace {

/// What is inside `*env` goes into a wrapper that `make` gives for it.
template <class Make>
troupe::Status put_into(std::unique_ptr<BatchEnv>& env, Make make) {
  auto wrapped = make(std::move(env));
  if (!wrapped.ok()) return wrapped.error_ptr();
  env = std::move(*wrapped);
  return {};
}

/// One game alone, as Stable-Baselines3's AtariWrapper has it. `lives`: a life that is lost ends the episode.
troupe::Result<std::unique_ptr<BatchEnv>> atari_game(const std::string& id, BatchEnvOptions options, bool lives) {
  options.num_envs = 1, options.auto_reset = AutoReset::kDisabled;
  auto made = make_batch_env(id, options);
  if (!made.ok()) return made.error_ptr();
  std::unique_ptr<BatchEnv> env = std::move(*made);
  using Env = std::unique_ptr<BatchEnv>;
  troupe::Status status = put_into(env, [](Env inner) { return NoopReset::make(std::move(inner)); });
  if (status.ok()) status = put_into(env, [](Env inner) { return MaxAndSkip::make(std::move(inner)); });
  if (status.ok() && lives && !env->lives().empty())
    status = put_into(env, [](Env inner) { return EpisodicLife::make(std::move(inner)); });
  if (status.ok() && env->specs().fires)
    status = put_into(env, [](Env inner) { return FireReset::make(std::move(inner)); });
  if (status.ok()) status = put_into(env, [](Env inner) { return Grayscale::make(std::move(inner)); });
  if (status.ok()) status = put_into(env, [](Env inner) { return Resize::make(std::move(inner), {}); });
  if (!status.ok()) return status.error_ptr();
  return env;
}

troupe::Result<std::unique_ptr<BatchEnv>> atari_games(const EnvSetup& setup, const BatchEnvOptions& options,
                                                      bool lives) {
  std::vector<std::unique_ptr<BatchEnv>> games;
  for (std::size_t i = 0; i < options.num_envs; ++i) {
    auto game = atari_game(setup.id, options, lives);
    if (!game.ok()) return game.error_ptr();
    games.push_back(std::move(*game));
  }
  auto together = ConcatEnv::make(std::move(games));
  if (!together.ok()) return together.error_ptr();
  return std::unique_ptr<BatchEnv>(std::make_unique<SameStepReset>(std::move(*together)));
}

/// The first place of an action where this row allows nothing; none: it allows something everywhere.
std::optional<std::size_t> place_without_choice(const Space& space, std::span<const std::uint8_t> row) {
  const auto nothing = [](std::span<const std::uint8_t> choices) {
    return std::ranges::all_of(choices, [](std::uint8_t one) { return one == 0; });
  };
  const auto* many = std::get_if<MultiDiscrete>(&space);
  if (many == nullptr) return nothing(row) ? std::optional<std::size_t>(0) : std::nullopt;
  for (std::size_t place = 0, first = 0; place < many->nvec.size(); ++place) {
    const auto n = static_cast<std::size_t>(many->nvec[place]);
    if (nothing(row.subspan(first, n))) return place;
    first += n;
  }
  return std::nullopt;
}

}  // namespace

troupe::Result<MadeEnv> MadeEnv::make(const EnvSetup& setup, const Use& use) {
  auto kwargs = parsed(setup.kwargs);
  if (!kwargs.ok()) return kwargs.error_ptr();
  BatchEnvOptions options{.num_envs = use.num_envs, .auto_reset = AutoReset::kSameStep, .kwargs = std::move(*kwargs)};
  if (setup.max_episode_steps > 0) options.max_episode_steps = static_cast<int>(setup.max_episode_steps);
  options.leave_out_faults = use.frozen;
  options.gym.python = setup.python, options.gym.gym_import = setup.gym_import;
  options.gym.working_folder = setup.working_folder;
  options.gym.step_deadline = std::chrono::milliseconds(std::llround(setup.step_deadline * 1000));
  options.gym.restarts.most = setup.env_restarts;
  auto made = setup.atari ? atari_games(setup, options, !use.frozen) : make_batch_env(setup.id, options);
  if (!made.ok()) return made.error_ptr();
  MadeEnv out;
  out.env_ = std::move(*made);
  out.innermost_ = out.env_.get();
  out.env_ = std::make_unique<CheckFinite>(std::move(out.env_));
  out.mask_width_ = mask_width_of(out.specs());
  if (out.specs().masks_actions && !use.masks)
    return troupe::InvalidArgumentError(
        fmt::format("{} masks actions, and nothing here heeds that: it would be played wrongly", setup.id));
  troupe::Status status;
  // What `wrapped` holds takes the place of what it is around.
  const auto put = [&](auto wrapped) {
    if (!wrapped.ok()) return status = wrapped.error_ptr(), false;
    out.env_ = std::move(*wrapped);
    return true;
  };
  if (setup.rescale_action && !put(RescaleAction::make(std::move(out.env_)))) return status.error_ptr();
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

std::span<const std::uint8_t> MadeEnv::checked_mask() {
  const std::span<const std::uint8_t> mask = env_->action_mask();
  const std::int64_t step = steps_seen_++;
  if (mask.size() != env_->size() * mask_width_)
    troupe::InvalidArgumentError(
        fmt::format("{} shows an action mask of {} bytes; by its specs it has {} for each of {} environments",
                    specs().id, mask.size(), mask_width_, env_->size()))
        .raise();
  if (mask_width_ == 0) return {};
  for (std::size_t i = 0; i < env_->size(); ++i)
    if (const auto place = place_without_choice(specs().action_space, mask.subspan(i * mask_width_, mask_width_)))
      troupe::InvalidArgumentError(
          fmt::format("environment {} of {} allows no action at step {}: its mask is 0 for all choices of place {}", i,
                      specs().id, step, *place))
          .raise();
  return mask;
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
