#include "apps/rl/training/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/rl/envs/env.h"

namespace rl {
namespace {

double play(Env& env, std::uint64_t seed, const Policy& policy, ActorCritic<float>& net) {
  Generator generator(seed);
  env.reset(generator);
  std::vector<float> obs(env.spec().obs_size), logits, values;
  double total = 0;
  for (int step = 0; step < env.spec().max_episode_steps; ++step) {
    env.observe(obs);
    net.evaluate(policy.params, obs, logits, values);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const StepOutcome outcome = env.step({.value = static_cast<double>(best)});
    total += outcome.reward;
    if (outcome.terminated) break;
  }
  return total;
}

}  // namespace

troupe::Result<Evaluation> evaluate(const Policy& policy, const EvaluateOptions& options) {
  auto env = make_env(policy.env_id);
  if (!env.ok()) return env.error_ptr();
  const EnvSpec& spec = (*env)->spec();
  if (spec.obs_size != policy.shape.policy.inputs ||
      static_cast<std::size_t>(spec.num_actions) != policy.shape.policy.outputs ||
      spec.obs_size != policy.shape.value.inputs || policy.shape.value.outputs != 1) {
    return troupe::InvalidArgumentError("the policy's network does not fit " + policy.env_id);
  }
  ActorCritic<float> net(policy.shape, troupe::kernels::best_isa());
  Evaluation out;
  for (std::size_t i = 0; i < options.episodes; ++i) out.returns.push_back(play(**env, options.seed + i, policy, net));
  const auto count = static_cast<double>(std::max<std::size_t>(out.returns.size(), 1));
  out.mean = std::accumulate(out.returns.begin(), out.returns.end(), 0.0) / count;
  double squares = 0;
  for (double r : out.returns) squares += (r - out.mean) * (r - out.mean);
  out.deviation = std::sqrt(squares / count);
  return out;
}

}  // namespace rl
