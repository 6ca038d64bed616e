#include "apps/rl/config/algorithms/impala.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

constexpr double kMostWait = 60e6;  // a minute

std::vector<Setting> impala_settings(RunConfig& c) {
  ImpalaSettings& i = c.impala;
  return {
      learners_setting(c),
      convolutions_setting(c),
      initial_log_std_setting(c),
      {.name = "gamma", .help = "Discount", .value = &i.gamma, .least = 0, .most = 1},
      {.name = "learning_rate", .help = "At the start; falls linearly over total_steps", .value = &i.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At total_steps", .value = &i.learning_rate_last, .least = 0},
      {.name = "value_coefficient", .help = "Share of the value loss", .value = &i.value_coefficient, .least = 0},
      {.name = "entropy_coefficient", .help = "Share of the entropy", .value = &i.entropy_coefficient},
      {.name = "rho_bar", .help = "Most that a ratio counts in V-trace's errors", .value = &i.rho_bar, .least = 0},
      {.name = "c_bar", .help = "Most that a ratio carries errors on", .value = &i.c_bar, .least = 0},
      {.name = "surrogate_clip", .help = "PPO's clip of the ratio (APPO); 0: V-trace's own policy gradient",
       .value = &i.clip, .least = 0},
      {.name = "target_update_interval", .help = "Updates between two copies of the policy that surrogate_clip holds "
                                                 "the ratio to (APPO's target network); 0: the policy that played",
       .value = &i.target_interval, .least = 0, .most = most::kSteps},
      {.name = "optimizer", .help = "RMSprop as TensorFlow's, or Adam", .value = &i.optimizer,
       .choices = {"rmsprop", "adam"}},
      {.name = "optimizer_epsilon", .help = "Of the optimizer", .value = &i.optimizer_epsilon, .least = 0},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &i.max_grad_norm,
       .least = 0},
      {.name = "fragments_per_update", .help = "Fragments of one update", .value = &i.fragments_per_update, .least = 1,
       .most = most::kWorkers},
      {.name = "max_outstanding", .help = "Fragments of a runner that nobody has read, at most; then back-pressure: it "
                                          "waits, and drops none",
       .value = &i.max_outstanding, .least = 1, .most = most::kWorkers},
      {.name = "max_staleness", .help = "Updates after which a fragment is thrown away and counted",
       .value = &i.max_staleness, .least = 0, .most = most::kSteps},
      {.name = "inference_actors", .help = "Actors that choose for many runners at once; 0: each for itself",
       .value = &i.inference_actors, .least = 0, .most = most::kWorkers},
      {.name = "inference_batch", .help = "Observations that are chosen for together; 0: those of all their runners",
       .value = &i.inference_batch, .least = 0, .most = most::kMinibatch},
      {.name = "inference_wait_us", .help = "Microseconds for which a batch waits to fill",
       .value = &i.inference_wait_us, .least = 0, .most = kMostWait}};
}

void set_impala_defaults(RunConfig& c) {
  c.num_workers = 2, c.num_envs = 16, c.horizon = 32;
  c.total_steps = 1'000'000;
}

}  // namespace

ImpalaOptions impala_options(const RunConfig& c, const PolicySpec& policy) {
  const ImpalaSettings& i = c.impala;
  return {.policy = policy,
          .learning_rate = {.first = i.learning_rate, .last = i.learning_rate_last, .over_steps = c.total_steps},
          .value_coefficient = i.value_coefficient,
          .entropy_coefficient = i.entropy_coefficient,
          .clip = i.clip,
          .target_interval = i.target_interval,
          .vtrace = {.rho_bar = i.rho_bar, .c_bar = i.c_bar, .pg_rho_bar = i.rho_bar},
          .optimizer = {.kind = optimizer_kind(i.optimizer),
                        .epsilon = i.optimizer_epsilon,
                        .max_grad_norm = i.max_grad_norm},
          .seed = c.seed,
          .gpu = learner_gpu(c)};
}

AlgorithmConfig impala_algorithm() {
  return {.name = "impala",
          .loop = LoopKind::kAsynchronous,
          .learns_on_gpus = true,
          .heeds_masks = true,
          .set_defaults = &set_impala_defaults,
          .settings = &impala_settings,
          .discount = [](const RunConfig& c) { return DiscountSettings{.gamma = c.impala.gamma}; },
          .policy = &actor_critic_policy,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<ImpalaLearner>(impala_options(c, std::get<PolicySpec>(policy)));
          }};
}

}  // namespace rl
