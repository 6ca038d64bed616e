#include "apps/rl/policies/any_policy.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/masked_choice.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/q_policy.h"

namespace rl {
namespace {

constexpr std::array kKinds{"actor_critic", "q_network", "squashed_gaussian"};  // by index of the variant
static_assert(kKinds.size() == std::variant_size_v<AnyPolicySpec>);

template <class... Ts> struct Overloaded : Ts... { using Ts::operator()...; };
template <class... Ts> Overloaded(Ts...) -> Overloaded<Ts...>;  // clang before 17 does not deduce it

class ActorCriticPlayer final : public Player {
 public:
  ActorCriticPlayer(const PolicySpec& spec, troupe::kernels::Isa isa)
      : net_(spec.networks, isa),
        encoder_(ObservationEncoder::make(spec.observation_space).value()),
        distribution_(make_distribution<float>(spec.action_space).value()) {}

  void best(std::span<const float> params, const Seen& seen, Rows actions) override {
    evaluate(params, seen.obs);
    distribution_->mode({action_params_, seen.mask}, actions);
  }
  void explore(std::span<const float> params, const Seen& seen, const Exploration&, Generator& generator,
               Rows actions) override {
    evaluate(params, seen.obs);
    log_prob_.resize(seen.obs.rows());
    distribution_->sample({action_params_, seen.mask}, generator, actions, log_prob_);
  }

 private:
  void evaluate(std::span<const float> params, ConstRows obs) {
    net_.evaluate(params, encoder_.encode(obs, encoded_), action_params_, values_);
  }

  ActorCritic<float> net_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<float>> distribution_;
  std::vector<float> encoded_, action_params_, values_, log_prob_;
};

class QPlayer final : public Player {
 public:
  QPlayer(const QNetworkSpec& spec, troupe::kernels::Isa isa) : policy_(spec, isa) {}
  void best(std::span<const float> params, const Seen& seen, Rows actions) override {
    policy_.greedy(params, seen, actions);
  }
  void explore(std::span<const float> params, const Seen& seen, const Exploration& how, Generator& generator,
               Rows actions) override {
    policy_.epsilon_greedy(params, seen, how.epsilon, generator, actions);
  }

 private:
  QPolicy policy_;
};

class SquashedGaussianPlayer final : public Player {
 public:
  SquashedGaussianPlayer(const SquashedGaussianSpec& spec, troupe::kernels::Isa isa) : policy_(spec, isa) {}
  void best(std::span<const float> params, const Seen& seen, Rows actions) override {
    policy_.mode(params, of_numbers(seen), actions);
  }
  void explore(std::span<const float> params, const Seen& seen, const Exploration& how, Generator& generator,
               Rows actions) override {
    policy_.sample(params, of_numbers(seen), generator, actions, how.noise);
  }

 private:
  static ConstRows of_numbers(const Seen& seen) {
    if (!seen.mask.empty()) troupe::InvalidArgumentError("numbers cannot be masked").raise();  // PLR-3
    return seen.obs;
  }

  SquashedGaussian policy_;
};

void add_network(const std::string& prefix, const NetworkSpec& network, std::size_t begin,
                 std::vector<PolicyPart>& out) {
  std::size_t convolution = 0, channels = network.convolutions.empty() ? 0 : network.input[2];
  for (const LayerPlace& layer : layers_of(network)) {
    std::vector<std::size_t> shape{layer.out, layer.in};
    if (convolution < network.convolutions.size()) {
      const std::size_t kernel = network.convolutions[convolution++].kernel;
      shape = {layer.out, kernel, kernel, channels};
      channels = layer.out;
    }
    out.push_back({fmt::format("{}/{}/weight", prefix, layer.name), shape, begin + layer.weights,
                   layer.out * layer.in});
    out.push_back({fmt::format("{}/{}/bias", prefix, layer.name), {layer.out}, begin + layer.biases, layer.out});
  }
}

std::vector<PolicyPart> parts_of_actor_critic(const ActorCriticSpec& spec) {
  std::vector<PolicyPart> out;
  std::size_t at = 0;
  const auto add = [&](const char* name, const NetworkSpec& network) {
    add_network(name, network, at, out);
    at += network.parameter_count();
  };
  if (spec.trunk) add("trunk", *spec.trunk);
  add("policy", spec.policy), add("value", spec.value);
  if (spec.log_stds != 0) out.push_back({"log_std", {spec.log_stds}, at, spec.log_stds});
  return out;
}

}  // namespace

const Space& observation_space_of(const AnyPolicySpec& spec) {
  return std::visit([](const auto& one) -> const Space& { return one.observation_space; }, spec);
}

const Space& action_space_of(const AnyPolicySpec& spec) {
  return std::visit([](const auto& one) -> const Space& { return one.action_space; }, spec);
}

bool keeps_bounds(const AnyPolicySpec& spec) { return std::holds_alternative<SquashedGaussianSpec>(spec); }

std::size_t parameter_count_of(const AnyPolicySpec& spec) {
  return std::visit(Overloaded{[](const PolicySpec& one) { return one.networks.parameter_count(); },
                               [](const auto& one) { return one.network.parameter_count(); }},
                    spec);
}

troupe::Status check_policy(const AnyPolicySpec& spec) {
  return std::visit(Overloaded{[](const PolicySpec& one) { return check_policy(one); },
                               [](const QNetworkSpec& one) { return check_q_network(one); },
                               [](const SquashedGaussianSpec& one) { return check_squashed_gaussian(one); }},
                    spec);
}

boost::json::value to_json(const AnyPolicySpec& spec) {
  boost::json::value out = std::visit([](const auto& one) { return to_json(one); }, spec);
  out.as_object()["kind"] = kKinds.at(spec.index());
  return out;
}

troupe::Result<AnyPolicySpec> any_policy_from_json(const boost::json::value& json) {
  const auto wrapped = [](auto result) -> troupe::Result<AnyPolicySpec> {
    if (!result.ok()) return result.error_ptr();
    return AnyPolicySpec(std::move(*result));
  };
  const boost::json::object* object = json.if_object();
  const boost::json::value* kind = object == nullptr ? nullptr : object->if_contains("kind");
  if (kind == nullptr || !kind->is_string()) return troupe::InvalidArgumentError("a policy without a kind");
  const std::string_view name = kind->as_string();
  if (name == kKinds[0]) return wrapped(policy_from_json(json));
  if (name == kKinds[1]) return wrapped(q_network_from_json(json));
  if (name == kKinds[2]) return wrapped(squashed_gaussian_from_json(json));
  return troupe::InvalidArgumentError(fmt::format("no kind of policy is '{}'", name));
}

std::vector<PolicyPart> parts_of(const AnyPolicySpec& spec) {
  std::vector<PolicyPart> out;
  std::visit(Overloaded{[&](const PolicySpec& one) { out = parts_of_actor_critic(one.networks); },
                        [&](const QNetworkSpec& one) { add_network("q", one.network, 0, out); },
                        [&](const SquashedGaussianSpec& one) {
                          add_network("actor", one.network, 0, out);
                          const std::size_t deviations = deviation_count(one.network);
                          if (deviations != 0)
                            out.push_back({"actor/log_std", {one.dimensions(), one.network.hidden.back()},
                                           one.network.parameter_count() - deviations, deviations});
                        }},
             spec);
  return out;
}

std::unique_ptr<Player> make_player(const AnyPolicySpec& spec, troupe::kernels::Isa isa) {
  check_policy(spec).value();
  using Made = std::unique_ptr<Player>;
  return std::visit(
      Overloaded{[isa](const PolicySpec& one) -> Made { return std::make_unique<ActorCriticPlayer>(one, isa); },
                 [isa](const QNetworkSpec& one) -> Made { return std::make_unique<QPlayer>(one, isa); },
                 [isa](const SquashedGaussianSpec& one) -> Made {
                   return std::make_unique<SquashedGaussianPlayer>(one, isa);
                 }},
      spec);
}

void random_actions(const Space& action_space, Generator& generator, Rows actions,
                    std::span<const std::uint8_t> mask) {
  std::span<const std::uint8_t> left = mask;  // of the places to come
  const auto choose = [&](std::int64_t n) {
    const auto allowed = left.first(left.empty() ? 0 : static_cast<std::size_t>(n));
    left = left.subspan(allowed.size());
    return draw_choice(n, allowed, generator);
  };
  std::visit(Overloaded{[&](const Discrete& space) {
                          for (std::int64_t& one : actions.as<std::int64_t>()) one = space.start + choose(space.n);
                        },
                        [&](const MultiDiscrete& space) {
                          const std::span<std::int64_t> out = actions.as<std::int64_t>();
                          for (std::size_t i = 0; i < out.size(); ++i) {
                            const std::size_t place = i % space.nvec.size();
                            out[i] = (space.start.empty() ? 0 : space.start[place]) + choose(space.nvec[place]);
                          }
                        },
                        [&](const Box& box) {
                          if (!mask.empty()) troupe::InvalidArgumentError("numbers cannot be masked").raise();
                          const std::span<float> out = actions.as<float>();
                          for (std::size_t i = 0; i < out.size(); ++i) {
                            const std::size_t place = i % actions.width();
                            const double low = box.low_of(place), high = box.high_of(place);
                            if (!std::isfinite(low) || !std::isfinite(high))
                              troupe::InvalidArgumentError("no action is as likely as another in a Box without bounds")
                                  .raise();
                            out[i] = static_cast<float>(generator.uniform(low, high));
                          }
                        }},
             action_space);
}

}  // namespace rl
