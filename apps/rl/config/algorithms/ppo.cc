#include "apps/rl/config/algorithms/ppo.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

std::vector<Setting> ppo_settings(RunConfig& c) {
  PpoSettings& p = c.ppo;
  return {
      learners_setting(c),
      convolutions_setting(c),
      initial_log_std_setting(c),
      {.name = "gamma", .help = "Discount", .value = &p.gamma, .least = 0, .most = 1},
      {.name = "gae_lambda", .help = "Lambda of generalized advantage estimation", .value = &p.gae_lambda, .least = 0,
       .most = 1},
      {.name = "epochs", .help = "Passes over each batch", .value = &p.epochs, .least = 1, .most = most::kEpochs},
      {.name = "minibatch", .help = "Samples of one optimizer step", .value = &p.minibatch, .least = 1,
       .most = most::kMinibatch},
      {.name = "learning_rate", .help = "At the start; falls linearly over total_steps", .value = &p.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At total_steps", .value = &p.learning_rate_last, .least = 0},
      {.name = "clip", .help = "Clip range of the probability ratio at the start", .value = &p.clip, .least = 0},
      {.name = "clip_last", .help = "At total_steps", .value = &p.clip_last, .least = 0},
      {.name = "value_coefficient", .help = "Share of the value loss", .value = &p.value_coefficient, .least = 0},
      {.name = "entropy_coefficient", .help = "Share of the entropy", .value = &p.entropy_coefficient},
      {.name = "value_clipping", .help = "Clips the value loss by the clip range", .value = &p.value_clipping},
      {.name = "target_kl", .help = "Ends an update at 1.5 times this divergence; 0: never", .value = &p.target_kl,
       .least = 0},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &p.max_grad_norm,
       .least = 0},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &p.adam_epsilon, .least = 0}};
}

}  // namespace

PpoOptions ppo_options(const RunConfig& config, const PolicySpec& policy) {
  const PpoSettings& p = config.ppo;
  PpoOptions out;
  out.policy = policy;
  out.epochs = static_cast<int>(p.epochs);
  out.minibatch = p.minibatch;
  out.learning_rate = {.first = p.learning_rate, .last = p.learning_rate_last, .over_steps = config.total_steps};
  out.clip = {.first = p.clip, .last = p.clip_last, .over_steps = config.total_steps};
  out.value_coefficient = p.value_coefficient;
  out.entropy_coefficient = p.entropy_coefficient;
  out.value_loss = p.value_clipping ? ValueLoss::kHalfClipped : ValueLoss::kFullUnclipped;
  out.target_kl = p.target_kl;
  out.max_grad_norm = p.max_grad_norm;
  out.adam_epsilon = p.adam_epsilon;
  out.seed = config.seed;
  out.gpu = learner_gpu(config);
  return out;
}

AlgorithmConfig ppo_algorithm() {
  return {.name = "ppo",
          .loop = LoopKind::kOnPolicy,
          .learns_on_gpus = true,
          .heeds_masks = true,
          .settings = &ppo_settings,
          .discount =
              [](const RunConfig& c) {
                return DiscountSettings{.gamma = c.ppo.gamma, .gae_lambda = c.ppo.gae_lambda};
              },
          .policy = &actor_critic_policy,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<PpoLearner>(ppo_options(c, std::get<PolicySpec>(policy)));
          }};
}

}  // namespace rl
