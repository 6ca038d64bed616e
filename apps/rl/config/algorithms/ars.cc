#include "apps/rl/config/algorithms/ars.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"

namespace rl {
namespace {

std::vector<Setting> ars_settings(RunConfig& c) {
  ArsSettings& a = c.ars;
  return {convolutions_setting(c),
          {.name = "directions", .help = "That are tried in each update, two episodes each", .value = &a.directions,
           .least = 1, .most = most::kHorizon},
          {.name = "top_directions", .help = "Of them, so many count: those with the highest returns; 0: all",
           .value = &a.top, .least = 0, .most = most::kHorizon},
          {.name = "perturbation", .help = "Deviation of the parameters that are tried", .value = &a.deviation,
           .least = 0},
          {.name = "learning_rate", .help = "Step along the directions, over the deviation of the returns",
           .value = &a.learning_rate, .least = 0}};
}

// Stable-Baselines3-contrib's own; a policy without hidden layers, as in the paper.
void set_ars_defaults(RunConfig& c) {
  c.num_workers = 2;
  c.total_steps = 200'000;
  c.network = {.hidden = {}};
  c.ars = {.top = 0};
}

}  // namespace

ArsOptions ars_options(const RunConfig& c, const PolicySpec& policy) {
  return {.policy = policy,
          .learning_rate = c.ars.learning_rate,
          .directions = c.ars.directions,
          .top = c.ars.top == 0 ? c.ars.directions : c.ars.top,
          .seed = c.seed};
}

AlgorithmConfig ars_algorithm() {
  return {.name = "ars",
          .loop = LoopKind::kSearch,
          .heeds_masks = true,
          .without = {"num_envs", "horizon", "fault_prefix", "clip_reward", "normalize_reward"},
          .set_defaults = &set_ars_defaults,
          .settings = &ars_settings,
          .policy = &actor_critic_policy,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<ArsLearner>(ars_options(c, std::get<PolicySpec>(policy)));
          }};
}

}  // namespace rl
