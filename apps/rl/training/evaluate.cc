#include "apps/rl/training/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"

namespace rl {
namespace {

/// Every environment plays one episode after the other, all with seeds of their own.
class Player {
 public:
  Player(const Policy& policy, MadeEnv made)
      : policy_(policy),
        made_(std::move(made)),
        net_(policy.spec.networks, troupe::kernels::best_isa()),
        encoder_(ObservationEncoder::make(policy.spec.observation_space).value()),
        distribution_(make_distribution<float>(policy.spec.action_space).value()),
        step_(made_.env()),
        actions_(policy.spec.action_space, 1) {}

  double play(std::uint64_t seed) {
    made_.env().reset(std::span(&seed, 1));
    made_.env().observe(step_.obs.view());
    for (;;) {
      const ConstRows seen = std::as_const(step_.obs).view();
      net_.evaluate(policy_.params, encoder_.encode(seen, encoded_), action_params_, values_);
      distribution_->mode({action_params_}, actions_.view());
      made_.env().step(std::as_const(actions_).view(), step_.out());
      if (const EpisodeEnds ends = made_.env().ends(); !ends.env.empty()) return ends.returns[0];
    }
  }

 private:
  const Policy& policy_;
  MadeEnv made_;
  ActorCritic<float> net_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<float>> distribution_;
  StepBuffers step_;
  OwnedRows actions_;
  std::vector<float> encoded_, action_params_, values_;
};

}  // namespace

troupe::Result<Evaluation> evaluate(const Policy& policy, const EvaluateOptions& options) {
  auto made = MadeEnv::make(policy.env, {.num_envs = 1, .frozen = true});
  if (!made.ok()) return made.error_ptr();
  const EnvSpecs& specs = made->specs();
  if (troupe::Status checked = check_policy(policy.spec); !checked.ok()) return checked.error_ptr();
  if (specs.observation_space != policy.spec.observation_space || specs.action_space != policy.spec.action_space ||
      policy.params.size() != policy.spec.networks.parameter_count() || policy.moments.size() < made->moments().size())
    return troupe::InvalidArgumentError("the policy's network does not fit " + policy.env.id);
  made->sync(policy.moments);
  Player player(policy, std::move(*made));
  Evaluation out;
  for (std::size_t i = 0; i < options.episodes; ++i) out.returns.push_back(player.play(options.seed + i));
  const auto count = static_cast<double>(std::max<std::size_t>(out.returns.size(), 1));
  out.mean = std::accumulate(out.returns.begin(), out.returns.end(), 0.0) / count;
  double squares = 0;
  for (double r : out.returns) squares += (r - out.mean) * (r - out.mean);
  out.deviation = std::sqrt(squares / count);
  return out;
}

}  // namespace rl
