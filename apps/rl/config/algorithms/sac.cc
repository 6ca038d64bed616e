#include "apps/rl/config/algorithms/sac.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

std::vector<Setting> sac_settings(RunConfig& c) {
  SacSettings& s = c.sac;
  std::vector<Setting> out = replay_settings(c);
  const std::vector<Setting> more{
      learners_setting(c),
      {.name = "learning_rate", .help = "At the start; falls linearly over all updates", .value = &s.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At the last update", .value = &s.learning_rate_last, .least = 0},
      {.name = "target_tau", .help = "Share of the critics in their targets' steps", .value = &s.tau, .least = 0,
       .most = 1},
      {.name = "target_interval", .help = "Updates between those of the targets", .value = &s.target_interval,
       .least = 1, .most = most::kSteps},
      {.name = "temperature", .help = "Weight of the entropy; auto: learned", .value = &s.temperature, .least = 0},
      {.name = "first_temperature", .help = "Of a learned one", .value = &s.first_temperature, .least = 0},
      {.name = "target_entropy", .help = "auto: minus the numbers of an action", .value = &s.target_entropy},
      {.name = "noise", .help = "Of exploration: the policy's own, colored in place of it, added to its actions, or of "
                                "what its last layer sees (gSDE)",
       .value = &s.noise, .choices = {"white", "colored", "ornstein-uhlenbeck", "gsde"}},
      {.name = "noise_beta", .help = "Of colored noise: 0 white, 1 pink, 2 red", .value = &s.noise_beta, .least = 0,
       .most = 4},
      {.name = "noise_sigma", .help = "Of an Ornstein-Uhlenbeck process", .value = &s.noise_sigma, .least = 0},
      {.name = "noise_interval", .help = "Steps for which gSDE's matrix stays; 0: whole episodes",
       .value = &s.noise_interval, .least = 0, .most = most::kSteps},
      {.name = "gsde_log_std", .help = "Logarithm of the first deviations of gSDE's matrix", .value = &s.gsde_log_std,
       .least = -20, .most = 2},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &s.adam_epsilon, .least = 0}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Stable-Baselines3's own.
void set_sac_defaults(RunConfig& c) {
  c.env.id = "Pendulum-v1";
  c.num_workers = 1, c.num_envs = 1, c.horizon = 1;
  c.total_steps = 20'000;
  c.network = {.hidden = {256, 256}, .activation = "relu"};
  c.replay = {.capacity = 1'000'000, .learning_starts = 100, .minibatch = 256};
}

troupe::Result<AnyPolicySpec> squashed_policy_of(const RunConfig& c, const EnvSpecs& specs) {
  auto made = squashed_gaussian_for(specs.observation_space, specs.action_space,
                                    {.hidden = c.network.hidden,
                                     .activation = activation_of(c.network),
                                     .gsde_first_log_std = c.sac.noise == "gsde" ? std::optional(c.sac.gsde_log_std)
                                                                                 : std::nullopt});
  if (!made.ok()) return made.error_ptr();
  return AnyPolicySpec(std::move(*made));
}

/// The critics and their targets.
std::size_t critics_numbers(const RunConfig& c, const AnyPolicySpec& policy) {
  const NetworkSpec& actor = std::get<SquashedGaussianSpec>(policy).network;
  return 2 * sac_networks(actor, c.network.hidden, activation_of(c.network)).critic.parameter_count();
}

}  // namespace

SacOptions sac_options(const RunConfig& c, const SquashedGaussianSpec& policy) {
  return {.policy = policy,
          .critic_hidden = c.network.hidden,
          .critic_activation = activation_of(c.network),
          .learning_rate = over_updates(c, c.sac.learning_rate, c.sac.learning_rate_last),
          .temperature = {.fixed = c.sac.temperature,
                          .first = c.sac.first_temperature,
                          .target_entropy = c.sac.target_entropy},
          .tau = c.sac.tau,
          .target_interval = c.sac.target_interval,
          .adam_epsilon = c.sac.adam_epsilon,
          .seed = c.seed,
          .gpu = learner_gpu(c)};
}

AlgorithmConfig sac_algorithm() {
  return {.name = "sac",
          .loop = LoopKind::kOffPolicy,
          .learns_on_gpus = true,
          .clips_actions = false,
          .set_defaults = &set_sac_defaults,
          .settings = &sac_settings,
          .discount = [](const RunConfig& c) { return DiscountSettings{.gamma = c.replay.gamma}; },
          .policy = &squashed_policy_of,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<SacLearner>(sac_options(c, std::get<SquashedGaussianSpec>(policy)));
          },
          .more_numbers = &critics_numbers};
}

}  // namespace rl
