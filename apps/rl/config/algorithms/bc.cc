#include "apps/rl/config/algorithms/bc.h"

#include <utility>

#include <fmt/format.h>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

std::vector<Setting> bc_settings(RunConfig& c) {
  BcSettings& b = c.bc;
  return {convolutions_setting(c),
          initial_log_std_setting(c),
          {.name = "demonstrations", .help = "File of episodes to imitate, made by 'rl collect'",
           .value = &b.demonstrations},
          {.name = "data", .help = "Or the folder of a data set: of minari, or of datagen (Minari or Parquet)",
           .value = &b.data},
          {.name = "demonstration_episodes", .help = "The first so many of them; 0: all", .value = &b.episodes,
           .least = 0, .most = most::kEpisodes},
          {.name = "learning_rate", .help = "At the start; falls linearly over total_steps", .value = &b.learning_rate,
           .least = 0},
          {.name = "learning_rate_last", .help = "At total_steps", .value = &b.learning_rate_last, .least = 0},
          {.name = "minibatch", .help = "Samples of one optimizer step", .value = &b.minibatch, .least = 1,
           .most = most::kMinibatch},
          {.name = "updates", .help = "Minibatches between two looks at the run", .value = &b.updates, .least = 1,
           .most = most::kMinibatch},
          {.name = "entropy_coefficient", .help = "Share of the entropy", .value = &b.entropy_coefficient},
          {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &b.max_grad_norm,
           .least = 0},
          {.name = "adam_epsilon", .help = "Of the optimizer", .value = &b.adam_epsilon, .least = 0}};
}

void set_bc_defaults(RunConfig& c) { c.evaluation.every = 0.05; }

/// What was recorded is what environments show, before wrappers.
troupe::Result<AnyPolicySpec> cloned_policy(const RunConfig& c, const EnvSpecs& specs) {
  if (c.env.normalize_observation || c.env.frame_stack > 1)
    return troupe::InvalidArgumentError(
        "demonstrations are what the environment shows: no normalize_observation, no frame_stack");
  return actor_critic_policy(c, specs);
}

}  // namespace

BcOptions bc_options(const RunConfig& c, const PolicySpec& policy) {
  const BcSettings& b = c.bc;
  return {.policy = policy,
          .learning_rate = {.first = b.learning_rate, .last = b.learning_rate_last, .over_steps = c.total_steps},
          .entropy_coefficient = b.entropy_coefficient,
          .optimizer = {.kind = OptimizerKind::kAdam, .epsilon = b.adam_epsilon, .max_grad_norm = b.max_grad_norm},
          .seed = c.seed,
          .gpu = learner_gpu(c)};
}

AlgorithmConfig bc_algorithm() {
  return {.name = "bc",
          .loop = LoopKind::kDataset,
          .learns_on_gpus = true,
          .heeds_masks = true,
          .without = {"num_workers", "num_envs", "horizon", "fault_prefix", "clip_reward", "normalize_reward",
                      "stop_when_solved"},
          .set_defaults = &set_bc_defaults,
          .settings = &bc_settings,
          .policy = &cloned_policy,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<BcLearner>(bc_options(c, std::get<PolicySpec>(policy)));
          }};
}

}  // namespace rl
