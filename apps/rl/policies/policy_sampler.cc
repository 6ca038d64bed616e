#include "apps/rl/policies/policy_sampler.h"

namespace rl {
namespace {

const PolicySpec& checked_for_sampling(const PolicySpec& spec) {
  check_policy(spec).value();
  return spec;
}

}  // namespace

PolicySampler::PolicySampler(const PolicySpec& spec, std::uint64_t seed, troupe::kernels::Isa isa)
    : net_(checked_for_sampling(spec).networks, isa),
      encoder_(ObservationEncoder::make(spec.observation_space).value()),
      distribution_(make_distribution<float>(spec.action_space).value()),
      generator_(seed) {}

void PolicySampler::choose(std::span<const float> params, const Seen& seen, Rows actions, std::span<float> log_prob) {
  net_.evaluate(params, encoder_.encode(seen.obs, encoded_), action_params_, values_);
  distribution_->sample({action_params_, seen.mask}, generator_, actions, log_prob);
}

}  // namespace rl
