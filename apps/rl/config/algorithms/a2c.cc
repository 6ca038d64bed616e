#include "apps/rl/config/algorithms/a2c.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

std::vector<Setting> a2c_settings(RunConfig& c) {
  A2cSettings& a = c.a2c;
  return {
      convolutions_setting(c),
      initial_log_std_setting(c),
      {.name = "gamma", .help = "Discount", .value = &a.gamma, .least = 0, .most = 1},
      {.name = "gae_lambda", .help = "Lambda of generalized advantage estimation", .value = &a.gae_lambda, .least = 0,
       .most = 1},
      {.name = "learning_rate", .help = "At the start; falls linearly over total_steps", .value = &a.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At total_steps", .value = &a.learning_rate_last, .least = 0},
      {.name = "value_coefficient", .help = "Share of the value loss", .value = &a.value_coefficient, .least = 0},
      {.name = "entropy_coefficient", .help = "Share of the entropy", .value = &a.entropy_coefficient},
      {.name = "normalize_advantage", .help = "To mean 0 and deviation 1 in each update",
       .value = &a.normalize_advantage},
      {.name = "optimizer", .help = "RMSprop as TensorFlow's, or Adam", .value = &a.optimizer,
       .choices = {"rmsprop", "adam"}},
      {.name = "optimizer_epsilon", .help = "Of the optimizer", .value = &a.optimizer_epsilon, .least = 0},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &a.max_grad_norm,
       .least = 0}};
}

// Stable-Baselines3's own, 8 environments of 5 steps each.
void set_a2c_defaults(RunConfig& c) {
  c.num_workers = 1, c.num_envs = 8, c.horizon = 5;
}

}  // namespace

A2cOptions a2c_options(const RunConfig& c, const PolicySpec& policy) {
  const A2cSettings& a = c.a2c;
  return {.policy = policy,
          .learning_rate = {.first = a.learning_rate, .last = a.learning_rate_last, .over_steps = c.total_steps},
          .value_coefficient = a.value_coefficient,
          .entropy_coefficient = a.entropy_coefficient,
          .normalize_advantage = a.normalize_advantage,
          .optimizer = {.kind = optimizer_kind(a.optimizer),
                        .epsilon = a.optimizer_epsilon,
                        .max_grad_norm = a.max_grad_norm},
          .seed = c.seed,
          .gpu = learner_gpu(c)};
}

AlgorithmConfig a2c_algorithm() {
  return {.name = "a2c",
          .loop = LoopKind::kOnPolicy,
          .learns_on_gpus = true,
          .heeds_masks = true,
          .set_defaults = &set_a2c_defaults,
          .settings = &a2c_settings,
          .discount =
              [](const RunConfig& c) {
                return DiscountSettings{.gamma = c.a2c.gamma, .gae_lambda = c.a2c.gae_lambda};
              },
          .policy = &actor_critic_policy,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<A2cLearner>(a2c_options(c, std::get<PolicySpec>(policy)));
          }};
}

}  // namespace rl
