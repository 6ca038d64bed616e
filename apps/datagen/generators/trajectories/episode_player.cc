#include "apps/datagen/generators/trajectories/episode_player.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace datagen {
namespace {

void add_row(std::vector<std::byte>& to, rl::ConstRows rows, std::size_t row) {
  const rl::ConstRows one = rows.row(row);
  to.insert(to.end(), one.data(), one.data() + one.bytes());
}

troupe::Status check_fit(const rl::Policy& policy, const rl::MadeEnv& made, const std::string& id) {
  const rl::EnvSpecs& specs = made.specs();
  if (specs.observation_space != rl::observation_space_of(policy.spec))
    return troupe::InvalidArgumentError(
        fmt::format("the policy was trained on {} and sees {}, but {} shows {}", policy.env.id,
                    rl::to_string(rl::observation_space_of(policy.spec)), id, rl::to_string(specs.observation_space)));
  if (specs.action_space != rl::action_space_of(policy.spec))
    return troupe::InvalidArgumentError(
        fmt::format("the policy was trained on {} and acts in {}, but {} takes {}", policy.env.id,
                    rl::to_string(rl::action_space_of(policy.spec)), id, rl::to_string(specs.action_space)));
  if (policy.params.size() != rl::parameter_count_of(policy.spec) || policy.moments.size() < made.moments().size())
    return troupe::InvalidArgumentError("the policy's file does not have all that the policy needs for " + id);
  return {};
}

}  // namespace

troupe::Result<std::unique_ptr<EpisodePlayer>> EpisodePlayer::make(const PlayerSettings& settings) {
  const bool keeps_bounds = settings.policy != nullptr && rl::keeps_bounds(settings.policy->spec);
  auto made = rl::MadeEnv::make(settings.env, {.num_envs = settings.together, .frozen = true,
                                               .clip_action = !keeps_bounds});
  if (!made.ok()) return made.error_ptr();
  for (const rl::Policy* policy : {settings.policy, settings.medium})
    if (policy != nullptr)
      if (troupe::Status fits = check_fit(*policy, *made, settings.env.id); !fits.ok()) return fits.error_ptr();
  if (settings.policy != nullptr) made->sync(settings.policy->moments);
  return std::unique_ptr<EpisodePlayer>(new EpisodePlayer(settings, std::move(*made)));
}

EpisodePlayer::EpisodePlayer(const PlayerSettings& settings, rl::MadeEnv made)
    : settings_(settings),
      made_(std::move(made)),
      step_(made_.env()),
      actions_(made_.specs().action_space, made_.env().size()),
      raw_(specs().observation_space, made_.env().size()),
      wrapped_(&made_.env() != &made_.innermost()),
      log_prob_(made_.env().size()),
      playing_(made_.env().size()) {
  if (settings.policy != nullptr) policy_.emplace(*settings.policy, settings.isa);
  if (settings.medium != nullptr) medium_.emplace(*settings.medium, settings.isa);
}

std::vector<Episode> EpisodePlayer::play(std::span<const EpisodeTask> tasks, Behaviour behaviour) {
  std::vector<Episode> out(tasks.size());
  std::vector<std::size_t> left(tasks.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::string why;
  for (int attempt = 0; !left.empty(); ++attempt) {  // EPL-2
    if (attempt == kMostFaults)
      troupe::RuntimeEnvError(fmt::format("{}: the episode of sample {} (seed {}) broke off {} times, last: {}",
                                          settings_.env.id, tasks[left.front()].sample,
                                          tasks[left.front()].env_seed, attempt, why))
          .raise();
    std::vector<std::size_t> broken;
    for (std::size_t begin = 0; begin < left.size(); begin += together()) {
      const std::size_t count = std::min(together(), left.size() - begin);
      std::vector<EpisodeTask> some;
      std::vector<Episode> episodes(count);
      for (std::size_t i = 0; i < count; ++i) some.push_back(tasks[left[begin + i]]);
      std::vector<std::size_t> broken_here;
      play_some(some, behaviour, episodes, broken_here, why);
      for (const std::size_t i : broken_here) broken.push_back(left[begin + i]);
      for (std::size_t i = 0; i < count; ++i) out[left[begin + i]] = std::move(episodes[i]);
    }
    left = std::move(broken);
  }
  return out;
}

void EpisodePlayer::play_some(std::span<const EpisodeTask> tasks, Behaviour behaviour, std::span<Episode> episodes,
                              std::vector<std::size_t>& broken, std::string& why) {
  rl::BatchEnv& env = made_.env();
  std::vector<std::uint64_t> seeds(env.size(), tasks.front().env_seed);  // those without a task play what nobody sees
  draws_.assign(env.size(), rl::Generator(0));
  std::ranges::fill(playing_, std::uint8_t{0});
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    seeds[i] = tasks[i].env_seed, draws_[i] = rl::Generator(tasks[i].action_seed);
    playing_[i] = 1;
  }
  env.reset(seeds);
  env.observe(step_.obs.view());
  for (std::size_t left = tasks.size(); left > 0;) {
    begin_step(episodes);
    act(behaviour);
    const rl::ConstRows actions = std::as_const(actions_).view();
    for (std::size_t i = 0; i < episodes.size(); ++i) {
      if (playing_[i] == 0) continue;
      add_row(episodes[i].action, actions, i);
      episodes[i].log_prob.push_back(log_prob_[i]);
    }
    env.step(actions, step_.out());
    for (const rl::Fault& fault : env.faults())
      if (fault.env < playing_.size() && playing_[fault.env] != 0) {
        playing_[fault.env] = 0, --left;
        broken.push_back(fault.env);
        why = fmt::format("{} {}", rl::name_of(fault.kind), fault.what);
      }
    end_step(episodes);
    for (const std::uint32_t ended : env.ends().env)
      if (playing_[ended] != 0) playing_[ended] = 0, --left;
  }
}

void EpisodePlayer::begin_step(std::span<Episode> episodes) {
  if (wrapped_) made_.innermost().observe(raw_.view());
  const rl::ConstRows shown = wrapped_ ? std::as_const(raw_).view() : std::as_const(step_.obs).view();
  for (std::size_t i = 0; i < episodes.size(); ++i)
    if (playing_[i] != 0) add_row(episodes[i].obs, shown, i);
}

void EpisodePlayer::act(Behaviour behaviour) {
  constexpr float kUnsaid = std::numeric_limits<float>::quiet_NaN();
  const rl::ConstRows obs = std::as_const(step_.obs).view();
  switch (behaviour) {
    case Behaviour::kExpert:
    case Behaviour::kMedium:
      (behaviour == Behaviour::kExpert ? policy_ : medium_).value().best(obs, actions_.view());
      std::ranges::fill(log_prob_, kUnsaid);
      return;
    case Behaviour::kSample: return policy_.value().sample(obs, draws_, actions_.view(), log_prob_);
    case Behaviour::kEpsilon:
      policy_.value().best(obs, actions_.view());
      return now_and_then_any(specs().action_space, settings_.epsilon, draws_, actions_.view(), log_prob_);
    case Behaviour::kRandom: return any_actions(specs().action_space, draws_, actions_.view(), log_prob_);
  }
}

void EpisodePlayer::end_step(std::span<Episode> episodes) {
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    if (playing_[i] == 0) continue;
    episodes[i].reward.push_back(step_.reward[i]);
    episodes[i].terminated.push_back(step_.terminated[i] != 0 ? 1 : 0);
    episodes[i].truncated.push_back(step_.truncated[i] != 0 ? 1 : 0);
  }
  const rl::EpisodeEnds ends = made_.innermost().ends();  // EPL-3
  for (std::size_t k = 0; k < ends.env.size(); ++k) {
    const std::uint32_t i = ends.env[k];
    if (i < episodes.size() && playing_[i] != 0) add_row(episodes[i].final_obs, ends.final_obs, k);
  }
}

}  // namespace datagen
