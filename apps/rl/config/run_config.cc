#include "apps/rl/config/run_config.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/config/algorithms/shared_settings.h"

namespace rl {
namespace {

std::vector<Setting> common_settings(RunConfig& c) {
  std::vector<Setting> out{{.name = "algo", .help = "Algorithm", .value = &c.algo, .choices = algorithm_names()}};
  for (Setting& setting : settings_of(c.env)) out.push_back(std::move(setting));
  NetworkSettings& n = c.network;
  EvaluationSettings& e = c.evaluation;
  const std::vector<Setting> more{
      {.name = "seed", .help = "Seed of environments, networks and exploration", .value = &c.seed},
      {.name = "num_workers", .help = "Rollout actors", .value = &c.num_workers, .least = 1, .most = most::kWorkers},
      {.name = "num_envs", .help = "Environments of each rollout actor", .value = &c.num_envs, .least = 1,
       .most = most::kEnvs},
      {.name = "horizon", .help = "Steps of each environment between updates", .value = &c.horizon, .least = 1,
       .most = most::kHorizon},
      {.name = "total_steps", .help = "Environment steps at most, rounded up to whole rollouts",
       .value = &c.total_steps, .least = 1, .most = most::kSteps},
      {.name = "stop_when_solved", .help = "Stops when the mean return of 100 episodes reaches the threshold",
       .value = &c.stop_when_solved},
      {.name = "fault_prefix", .help = "Good steps of an episode that an environment's fault broke off: learned from, "
                                       "or not",
       .value = &c.fault_prefix, .choices = {"bootstrap", "drop"}},
      {.name = "device", .help = "Of the learners' networks; cuda: each learner on a GPU of its own (not run on a GPU "
                                 "yet)", .value = &c.device,
       .choices = {"cpu", "cuda"}},
      {.name = "evaluate_every", .help = "Plays a copy without exploration after this share of total_steps; 0: never",
       .value = &e.every, .least = 0, .most = 1},
      {.name = "evaluation_episodes", .help = "Of each copy", .value = &e.episodes, .least = 1,
       .most = most::kEpisodes},
      {.name = "evaluation_threshold", .help = "Mean return of the gate; auto: the environment's",
       .value = &e.threshold},
      {.name = "stop_at_gate", .help = "Stops when a copy has passed the gate twice", .value = &e.stop},
      {.name = "hidden", .help = "Units of each hidden layer", .value = &n.hidden, .least = 1, .most = most::kUnits},
      {.name = "activation", .help = "Of hidden layers", .value = &n.activation, .choices = {"tanh", "relu"}}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

const AlgorithmConfig& algorithm_of(const RunConfig& config) { return *algorithm_config(config.algo).value(); }

std::vector<Setting> own_settings(const AlgorithmConfig& algorithm, RunConfig& config) {
  return algorithm.settings ? algorithm.settings(config) : std::vector<Setting>();
}

}  // namespace

DiscountSettings RunConfig::discount() const {
  const AlgorithmConfig& algorithm = algorithm_of(*this);
  return algorithm.discount ? algorithm.discount(*this) : DiscountSettings{};
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> out;
  for (const AlgorithmConfig* one : algorithm_configs()) out.push_back(one->name);
  return out;
}

troupe::Result<RunConfig> defaults_of(const std::string& algo) {
  const auto found = algorithm_config(algo);
  if (!found.ok()) return found.error_ptr();
  RunConfig out;
  out.algo = algo;
  if ((*found)->set_defaults) (*found)->set_defaults(out);
  return out;
}

std::vector<Setting> settings_of(RunConfig& c) {
  const AlgorithmConfig& algorithm = algorithm_of(c);
  std::vector<Setting> out = common_settings(c);
  std::erase_if(out, [&](const Setting& setting) {
    return std::ranges::find(algorithm.without, setting.name) != algorithm.without.end();
  });
  for (Setting& setting : own_settings(algorithm, c)) out.push_back(std::move(setting));
  return out;
}

std::string settings_text(const RunConfig& config) {
  constexpr std::size_t kColumns = 100;
  RunConfig read = config;
  std::string out = "settings:";
  std::size_t column = out.size();
  for (const Setting& setting : settings_of(read)) {
    const std::string text = text_of(setting);
    if (text.empty()) continue;
    const std::string entry = fmt::format("{}={}", setting.name, text);
    const bool fits = column + 1 + entry.size() <= kColumns;
    out += (fits ? " " : "\n  ") + entry;
    column = (fits ? column + 1 : 2) + entry.size();
  }
  return out + "\n";
}

troupe::Status check_device(const RunConfig& config) {
  if (config.device == "cpu" || algorithm_of(config).learns_on_gpus) return {};
  return troupe::InvalidArgumentError(
      fmt::format("device {}: the learner of {} calculates on the CPU only", config.device, config.algo));
}

troupe::Result<RunConfig> config_from(const boost::json::object& given) {
  std::string algo = RunConfig{}.algo;
  if (const boost::json::value* named = given.if_contains("algo"); named != nullptr && named->is_string())
    algo = named->as_string();
  auto out = defaults_of(algo);
  if (!out.ok()) return out.error_ptr();
  const std::vector<Setting> settings = settings_of(*out);
  for (const auto& [name, value] : given) {
    if (std::ranges::find(settings, name, &Setting::name) != settings.end()) continue;
    const std::vector<std::string>& without = algorithm_of(*out).without;
    if (std::ranges::find(without, std::string(name)) != without.end())
      return troupe::InvalidArgumentError(fmt::format("'{}' means nothing to {}", std::string_view(name), algo));
    for (const AlgorithmConfig* other : algorithm_configs()) {
      RunConfig with;
      const std::vector<Setting> theirs = own_settings(*other, with);
      if (std::ranges::find(theirs, name, &Setting::name) != theirs.end())
        return troupe::InvalidArgumentError(fmt::format("'{}' is a setting of {}, not of {}", std::string_view(name),
                                                        other->name, algo));
    }
  }
  if (troupe::Status status = assign_all(settings, given); !status.ok()) return status.error_ptr();
  if (troupe::Status device = check_device(*out); !device.ok()) return device.error_ptr();
  return out;
}

troupe::Result<Task> task_of(const RunConfig& config) {
  const AlgorithmConfig& algorithm = algorithm_of(config);
  const auto made = MadeEnv::make(config.env, {.num_envs = 1, .gamma = config.discount().gamma,
                                               .clip_action = algorithm.clips_actions,
                                               .masks = true});
  if (!made.ok()) return made.error_ptr();
  if (made->specs().masks_actions && made->mask_width() == 0)
    return troupe::InvalidArgumentError(fmt::format("{} masks actions of {}, and {} cannot heed that: only choices can "
                                                    "be masked",
                                                    config.env.id, to_string(made->specs().action_space), config.algo));
  if (made->specs().masks_actions && !algorithm.heeds_masks)
    return troupe::InvalidArgumentError(
        fmt::format("{} masks actions, and {} does not heed that", config.env.id, config.algo));
  auto policy = algorithm.policy(config, made->specs());
  if (!policy.ok())
    return troupe::InvalidArgumentError(fmt::format("{} on {}: {}", config.algo, config.env.id,
                                                    policy.error().message()));
  return Task{.specs = made->specs(), .policy = std::move(*policy), .moments = made->moments()};
}

std::unique_ptr<Learner> make_learner(const RunConfig& config, const AnyPolicySpec& policy) {
  return algorithm_of(config).learner(config, policy);
}

std::size_t learned_numbers(const RunConfig& config, const AnyPolicySpec& policy) {
  const AlgorithmConfig& algorithm = algorithm_of(config);
  return parameter_count_of(policy) + (algorithm.more_numbers ? algorithm.more_numbers(config, policy) : 0);
}

}  // namespace rl
