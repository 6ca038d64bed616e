#include "apps/rl/config/run_config.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "apps/common/nearest_name.h"

namespace rl {
namespace {

constexpr double kMostWorkers = 1024, kMostEnvs = 65536, kMostHorizon = 65536, kMostUnits = 1 << 20,
                 kMostSteps = 0x1p52, kMostEpochs = 1000, kMostMinibatch = 1 << 24, kMostNStep = 1000,
                 kMostCapacity = 0x1p31, kMostEpisodes = 1'000'000;

/// "16x3x1,32x3x2".
troupe::Result<std::vector<Convolution>> convolutions_of(const std::string& text) {
  std::vector<Convolution> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    Convolution c;
    int used = 0;
    if (std::sscanf(one.c_str(), "%zux%zux%zu%n", &c.filters, &c.kernel, &c.stride, &used) != 3 ||
        static_cast<std::size_t>(used) != one.size())
      return troupe::InvalidArgumentError(
          fmt::format("convolutions are FILTERSxKERNELxSTRIDE, one after the other, not '{}'", one));
    out.push_back(c);
    at = comma + 1;
  }
  return out;
}

std::vector<Setting> common_settings(RunConfig& c) {
  std::vector<Setting> out{{.name = "algo", .help = "Algorithm", .value = &c.algo, .choices = algorithm_names()}};
  for (Setting& setting : settings_of(c.env)) out.push_back(std::move(setting));
  NetworkSettings& n = c.network;
  EvaluationSettings& e = c.evaluation;
  const std::vector<Setting> more{
      {.name = "seed", .help = "Seed of environments, networks and exploration", .value = &c.seed},
      {.name = "num_workers", .help = "Rollout actors", .value = &c.num_workers, .least = 1, .most = kMostWorkers},
      {.name = "num_envs", .help = "Environments of each rollout actor", .value = &c.num_envs, .least = 1,
       .most = kMostEnvs},
      {.name = "horizon", .help = "Steps of each environment between updates", .value = &c.horizon, .least = 1,
       .most = kMostHorizon},
      {.name = "total_steps", .help = "Environment steps at most, rounded up to whole rollouts",
       .value = &c.total_steps, .least = 1, .most = kMostSteps},
      {.name = "stop_when_solved", .help = "Stops when the mean return of 100 episodes reaches the threshold",
       .value = &c.stop_when_solved},
      {.name = "evaluate_every", .help = "Plays a copy without exploration after this share of total_steps; 0: never",
       .value = &e.every, .least = 0, .most = 1},
      {.name = "evaluation_episodes", .help = "Of each copy", .value = &e.episodes, .least = 1, .most = kMostEpisodes},
      {.name = "evaluation_threshold", .help = "Mean return of the gate; auto: the environment's",
       .value = &e.threshold},
      {.name = "stop_at_gate", .help = "Stops when a copy has passed the gate twice", .value = &e.stop},
      {.name = "hidden", .help = "Units of each hidden layer", .value = &n.hidden, .least = 1, .most = kMostUnits},
      {.name = "activation", .help = "Of hidden layers", .value = &n.activation, .choices = {"tanh", "relu"}}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Setting convolutions_setting(RunConfig& c) {
  return {.name = "convolutions", .help = "Before the hidden layers, of images: FILTERSxKERNELxSTRIDE,...",
          .value = &c.network.convolutions};
}

Setting initial_log_std_setting(RunConfig& c) {
  return {.name = "initial_log_std", .help = "Logarithm of the first deviation, where actions are numbers",
          .value = &c.network.initial_log_std, .least = -20, .most = 2};
}

std::vector<Setting> ppo_settings(RunConfig& c) {
  PpoSettings& p = c.ppo;
  return {
      convolutions_setting(c),
      initial_log_std_setting(c),
      {.name = "gamma", .help = "Discount", .value = &p.gamma, .least = 0, .most = 1},
      {.name = "gae_lambda", .help = "Lambda of generalized advantage estimation", .value = &p.gae_lambda, .least = 0,
       .most = 1},
      {.name = "epochs", .help = "Passes over each batch", .value = &p.epochs, .least = 1, .most = kMostEpochs},
      {.name = "minibatch", .help = "Samples of one optimizer step", .value = &p.minibatch, .least = 1,
       .most = kMostMinibatch},
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

std::vector<Setting> impala_settings(RunConfig& c) {
  ImpalaSettings& i = c.impala;
  return {
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
      {.name = "optimizer", .help = "RMSprop as TensorFlow's, or Adam", .value = &i.optimizer,
       .choices = {"rmsprop", "adam"}},
      {.name = "optimizer_epsilon", .help = "Of the optimizer", .value = &i.optimizer_epsilon, .least = 0},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &i.max_grad_norm,
       .least = 0},
      {.name = "fragments_per_update", .help = "Fragments of one update", .value = &i.fragments_per_update, .least = 1,
       .most = kMostWorkers},
      {.name = "max_outstanding", .help = "Fragments of a runner that nobody has read", .value = &i.max_outstanding,
       .least = 1, .most = kMostWorkers},
      {.name = "max_staleness", .help = "Updates after which a fragment is thrown away", .value = &i.max_staleness,
       .least = 0, .most = kMostSteps}};
}

std::vector<Setting> replay_settings(RunConfig& c) {
  ReplaySettings& r = c.replay;
  return {
      {.name = "gamma", .help = "Discount", .value = &r.gamma, .least = 0, .most = 1},
      {.name = "n_step", .help = "Rewards of a transition before it bootstraps", .value = &r.n_step, .least = 1,
       .most = kMostNStep},
      {.name = "replay_capacity", .help = "Transitions that are kept, in all shards", .value = &r.capacity, .least = 1,
       .most = kMostCapacity},
      {.name = "replay_shards", .help = "Replay actors", .value = &r.shards, .least = 1, .most = kMostWorkers},
      {.name = "prioritized_replay", .help = "Draws by the errors of the last time", .value = &r.prioritized},
      {.name = "priority_alpha", .help = "How much errors count: 0 not at all", .value = &r.priority_alpha, .least = 0},
      {.name = "priority_beta", .help = "Correction of the bias at the start; 1 at total_steps",
       .value = &r.priority_beta, .least = 0, .most = 1},
      {.name = "learning_starts", .help = "Steps by any actions, before the first update",
       .value = &r.learning_starts, .least = 0, .most = kMostSteps},
      {.name = "minibatch", .help = "Transitions of one update", .value = &r.minibatch, .least = 1,
       .most = kMostMinibatch},
      {.name = "updates", .help = "After every horizon; 0: one for each step played", .value = &r.updates, .least = 0,
       .most = kMostMinibatch},
      {.name = "keep_faulted", .help = "Bootstraps the good part of an episode that faulted, instead of dropping it",
       .value = &r.keep_faulted}};
}

std::vector<Setting> dqn_settings(RunConfig& c) {
  DqnSettings& d = c.dqn;
  std::vector<Setting> out = replay_settings(c);
  const std::vector<Setting> more{
      convolutions_setting(c),
      {.name = "learning_rate", .help = "At the start; falls linearly over all updates", .value = &d.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At the last update", .value = &d.learning_rate_last, .least = 0},
      {.name = "double_q", .help = "Chooses by the online network and values by the target", .value = &d.double_q},
      {.name = "dueling", .help = "Heads for the value and the advantages", .value = &d.dueling},
      {.name = "target_interval", .help = "Updates between those of the target", .value = &d.target_interval,
       .least = 1, .most = kMostSteps},
      {.name = "target_tau", .help = "Share of the online network; 1: a copy", .value = &d.target_tau, .least = 0,
       .most = 1},
      {.name = "epsilon", .help = "Share of any actions at the start", .value = &d.epsilon, .least = 0, .most = 1},
      {.name = "epsilon_last", .help = "At the end of its fall", .value = &d.epsilon_last, .least = 0, .most = 1},
      {.name = "epsilon_share", .help = "Share of total_steps over which it falls", .value = &d.epsilon_share,
       .least = 0, .most = 1},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &d.max_grad_norm,
       .least = 0},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &d.adam_epsilon, .least = 0}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::vector<Setting> sac_settings(RunConfig& c) {
  SacSettings& s = c.sac;
  std::vector<Setting> out = replay_settings(c);
  const std::vector<Setting> more{
      {.name = "learning_rate", .help = "At the start; falls linearly over all updates", .value = &s.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At the last update", .value = &s.learning_rate_last, .least = 0},
      {.name = "target_tau", .help = "Share of the critics in their targets' steps", .value = &s.tau, .least = 0,
       .most = 1},
      {.name = "target_interval", .help = "Updates between those of the targets", .value = &s.target_interval,
       .least = 1, .most = kMostSteps},
      {.name = "temperature", .help = "Weight of the entropy; auto: learned", .value = &s.temperature, .least = 0},
      {.name = "first_temperature", .help = "Of a learned one", .value = &s.first_temperature, .least = 0},
      {.name = "target_entropy", .help = "auto: minus the numbers of an action", .value = &s.target_entropy},
      {.name = "noise", .help = "Of exploration: the policy's own, colored in place of it, or added to its actions",
       .value = &s.noise, .choices = {"white", "colored", "ornstein-uhlenbeck"}},
      {.name = "noise_beta", .help = "Of colored noise: 0 white, 1 pink, 2 red", .value = &s.noise_beta, .least = 0,
       .most = 4},
      {.name = "noise_sigma", .help = "Of an Ornstein-Uhlenbeck process", .value = &s.noise_sigma, .least = 0},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &s.adam_epsilon, .least = 0}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Stable-Baselines3's own, 8 environments of 5 steps each.
void set_a2c_defaults(RunConfig& c) {
  c.num_workers = 1, c.num_envs = 8, c.horizon = 5;
}

void set_impala_defaults(RunConfig& c) {
  c.num_workers = 2, c.num_envs = 16, c.horizon = 32;
  c.total_steps = 1'000'000;
}

// What was good on CartPole-v1 in Stable-Baselines3's zoo, where that algorithm is there.
void set_dqn_defaults(RunConfig& c) {
  c.num_workers = 1, c.num_envs = 1, c.horizon = 256;
  c.total_steps = 150'000;
  c.network = {.hidden = {256, 256}, .activation = "relu"};
  c.replay = {.updates = 128};
  c.dqn = {.learning_rate = 2.3e-3, .learning_rate_last = 2.3e-3, .target_interval = 128, .epsilon_last = 0.04,
           .epsilon_share = 0.16};
}

// Stable-Baselines3's own.
void set_sac_defaults(RunConfig& c) {
  c.env.id = "Pendulum-v1";
  c.num_workers = 1, c.num_envs = 1, c.horizon = 1;
  c.total_steps = 20'000;
  c.network = {.hidden = {256, 256}, .activation = "relu"};
  c.replay = {.capacity = 1'000'000, .learning_starts = 100, .minibatch = 256};
}

struct AlgorithmConfig {
  std::string name;
  void (*set_defaults)(RunConfig&);
  std::vector<Setting> (*settings)(RunConfig&);
};
const std::vector<AlgorithmConfig>& algorithms() {
  static const std::vector<AlgorithmConfig> all{{"ppo", [](RunConfig&) {}, &ppo_settings},
                                                {"a2c", &set_a2c_defaults, &a2c_settings},
                                                {"impala", &set_impala_defaults, &impala_settings},
                                                {"dqn", &set_dqn_defaults, &dqn_settings},
                                                {"sac", &set_sac_defaults, &sac_settings}};
  return all;
}
const AlgorithmConfig* find_algorithm(const std::string& name) {
  const auto at = std::ranges::find(algorithms(), name, &AlgorithmConfig::name);
  return at == algorithms().end() ? nullptr : &*at;
}

Activation activation_of(const NetworkSettings& n) {
  return n.activation == "relu" ? Activation::kRelu : Activation::kTanh;
}

troupe::Result<AnyPolicySpec> policy_of(const RunConfig& config, const EnvSpecs& specs) {
  const NetworkSettings& n = config.network;
  const auto convolutions = convolutions_of(n.convolutions);
  if (!convolutions.ok()) return convolutions.error_ptr();
  const auto wrapped = [](auto made) -> troupe::Result<AnyPolicySpec> {
    if (!made.ok()) return made.error_ptr();
    return AnyPolicySpec(std::move(*made));
  };
  if (config.algo == "dqn")
    return wrapped(q_network_for(specs.observation_space, specs.action_space,
                                 {.hidden = n.hidden,
                                  .activation = activation_of(n),
                                  .convolutions = *convolutions,
                                  .heads = config.dqn.dueling ? QHeads::kDueling : QHeads::kPlain}));
  if (config.algo == "sac")
    return wrapped(squashed_gaussian_for(specs.observation_space, specs.action_space,
                                         {.hidden = n.hidden, .activation = activation_of(n)}));
  return wrapped(policy_for(specs.observation_space, specs.action_space,
                            {.hidden = n.hidden,
                             .activation = activation_of(n),
                             .convolutions = *convolutions,
                             .initial_log_std = n.initial_log_std}));
}

OptimizerKind optimizer_kind(const std::string& name) {
  return name == "adam" ? OptimizerKind::kAdam : OptimizerKind::kRmsprop;
}

NoiseOptions noise_options(const SacSettings& s) {
  const NoiseKind kind = s.noise == "white"     ? NoiseKind::kWhite
                         : s.noise == "colored" ? NoiseKind::kColored
                                                : NoiseKind::kOrnsteinUhlenbeck;
  return {.kind = kind, .beta = s.noise_beta, .sigma = s.noise_sigma};
}

std::int64_t planned_updates(const RunConfig& c) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(c.total_steps - c.replay.learning_starts, 1));
  const auto round = static_cast<double>(c.num_workers * c.num_envs * c.horizon);
  const double share = c.replay.updates == 0 ? 1 : static_cast<double>(c.replay.updates) / round;
  return std::max<std::int64_t>(static_cast<std::int64_t>(steps * share), 1);
}

LinearDecay over_updates(const RunConfig& c, double first, double last) {
  return {.first = first, .last = last, .over_steps = planned_updates(c)};
}

}  // namespace

double RunConfig::gamma() const {
  if (is_off_policy()) return replay.gamma;
  if (algo == "impala") return impala.gamma;
  return algo == "a2c" ? a2c.gamma : ppo.gamma;
}

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const AlgorithmConfig& one : algorithms()) out.push_back(one.name);
    return out;
  }();
  return names;
}

troupe::Result<RunConfig> defaults_of(const std::string& algo) {
  const AlgorithmConfig* found = find_algorithm(algo);
  if (found == nullptr)
    return troupe::InvalidArgumentError(fmt::format("there is no algorithm '{}': did you mean '{}'?", algo,
                                                    apps::nearest_name(algo, algorithm_names())));
  RunConfig out;
  out.algo = algo;
  found->set_defaults(out);
  return out;
}

std::vector<Setting> settings_of(RunConfig& c) {
  std::vector<Setting> out = common_settings(c);
  const AlgorithmConfig* found = find_algorithm(c.algo);
  if (found == nullptr) troupe::InvalidArgumentError(fmt::format("there is no algorithm '{}'", c.algo)).raise();
  for (Setting& setting : found->settings(c)) out.push_back(std::move(setting));
  return out;
}

troupe::Result<RunConfig> config_from(const boost::json::object& given) {
  std::string algo = algorithms().front().name;
  if (const boost::json::value* named = given.if_contains("algo"); named != nullptr && named->is_string())
    algo = named->as_string();
  auto out = defaults_of(algo);
  if (!out.ok()) return out.error_ptr();
  const std::vector<Setting> settings = settings_of(*out);
  for (const auto& [name, value] : given) {
    if (std::ranges::find(settings, name, &Setting::name) != settings.end()) continue;
    for (const AlgorithmConfig& other : algorithms()) {
      RunConfig with;
      const std::vector<Setting> theirs = other.settings(with);
      if (std::ranges::find(theirs, name, &Setting::name) != theirs.end())
        return troupe::InvalidArgumentError(fmt::format("'{}' is a setting of {}, not of {}", std::string_view(name),
                                                        other.name, algo));
    }
  }
  if (troupe::Status status = assign_all(settings, given); !status.ok()) return status.error_ptr();
  return out;
}

troupe::Result<Task> task_of(const RunConfig& config) {
  const auto made = MadeEnv::make(config.env, {.num_envs = 1, .gamma = config.gamma(),
                                               .clip_action = config.algo != "sac"});
  if (!made.ok()) return made.error_ptr();
  auto policy = policy_of(config, made->specs());
  if (!policy.ok())
    return troupe::InvalidArgumentError(fmt::format("{} on {}: {}", config.algo, config.env.id,
                                                    policy.error().message()));
  return Task{.specs = made->specs(), .policy = std::move(*policy), .moments = made->moments()};
}

RolloutOptions rollout_options(const RunConfig& config, const PolicySpec& policy, std::size_t worker,
                               std::int64_t resumed_from) {
  RolloutOptions out;
  out.env = config.env;
  out.policy = policy;
  out.num_envs = config.num_envs;
  out.horizon = config.horizon;
  out.gae = {.gamma = config.gamma(), .lambda = config.algo == "a2c" ? config.a2c.gae_lambda : config.ppo.gae_lambda};
  out.seed = config.seed;
  out.worker = static_cast<std::uint32_t>(worker);
  out.resumed_from = resumed_from;
  return out;
}

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
  return out;
}

TransitionRunnerOptions transition_runner_options(const RunConfig& c, const AnyPolicySpec& policy, std::size_t runner,
                                                  std::int64_t resumed_from) {
  const bool chooses = c.algo == "dqn";
  const auto over = static_cast<std::int64_t>(c.dqn.epsilon_share * static_cast<double>(c.total_steps));
  return {.env = c.env,
          .policy = policy,
          .num_envs = c.num_envs,
          .n_step = c.replay.n_step,
          .gamma = c.replay.gamma,
          .epsilon = chooses ? LinearDecay{.first = c.dqn.epsilon, .last = c.dqn.epsilon_last,
                                           .over_steps = std::max<std::int64_t>(over, 1)}
                             : LinearDecay{.first = 0, .last = 0},
          .random_steps = c.replay.learning_starts,
          .keep_faulted = c.replay.keep_faulted,
          .noise = c.algo == "sac" ? noise_options(c.sac) : NoiseOptions{},
          .seed = c.seed,
          .runner = static_cast<std::uint32_t>(runner),
          .resumed_from = resumed_from};
}

ReplayBufferOptions replay_options(const RunConfig& c, const AnyPolicySpec& policy) {
  ReplayBufferOptions out{.columns = transition_columns(observation_space_of(policy), action_space_of(policy)),
                          .capacity = (c.replay.capacity + c.replay.shards - 1) / c.replay.shards};
  if (c.replay.prioritized) out.priorities = PriorityOptions{.alpha = c.replay.priority_alpha};
  return out;
}

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
          .seed = c.seed};
}

FragmentRunnerOptions fragment_runner_options(const RunConfig& c, const PolicySpec& policy, std::size_t runner,
                                              std::int64_t resumed_from) {
  return {.env = c.env,
          .policy = policy,
          .num_envs = c.num_envs,
          .horizon = c.horizon,
          .gamma = c.gamma(),
          .seed = c.seed,
          .runner = static_cast<std::uint32_t>(runner),
          .resumed_from = resumed_from};
}

ImpalaOptions impala_options(const RunConfig& c, const PolicySpec& policy) {
  const ImpalaSettings& i = c.impala;
  return {.policy = policy,
          .learning_rate = {.first = i.learning_rate, .last = i.learning_rate_last, .over_steps = c.total_steps},
          .value_coefficient = i.value_coefficient,
          .entropy_coefficient = i.entropy_coefficient,
          .clip = i.clip,
          .vtrace = {.rho_bar = i.rho_bar, .c_bar = i.c_bar, .pg_rho_bar = i.rho_bar},
          .optimizer = {.kind = optimizer_kind(i.optimizer),
                        .epsilon = i.optimizer_epsilon,
                        .max_grad_norm = i.max_grad_norm},
          .seed = c.seed};
}

DqnOptions dqn_options(const RunConfig& c, const QNetworkSpec& policy) {
  return {.policy = policy,
          .td_target = c.dqn.double_q ? TdTarget::kDouble : TdTarget::kPlain,
          .learning_rate = over_updates(c, c.dqn.learning_rate, c.dqn.learning_rate_last),
          .target = {.interval = c.dqn.target_interval, .tau = c.dqn.target_tau},
          .max_grad_norm = c.dqn.max_grad_norm,
          .adam_epsilon = c.dqn.adam_epsilon,
          .seed = c.seed};
}

SacOptions sac_options(const RunConfig& c, const SquashedGaussianSpec& policy) {
  return {.policy = policy,
          .critic_hidden = c.network.hidden,
          .critic_activation = activation_of(c.network),
          .learning_rate = over_updates(c, c.sac.learning_rate, c.sac.learning_rate_last),
          .temperature = {.fixed = c.sac.temperature,
                          .first = c.sac.first_temperature,
                          .target_entropy = c.sac.target_entropy},
          .tau = c.sac.tau,
          .target_interval = c.sac.target_interval,
          .adam_epsilon = c.sac.adam_epsilon,
          .seed = c.seed};
}

std::unique_ptr<Learner> make_learner(const RunConfig& config, const AnyPolicySpec& policy) {
  if (config.algo == "dqn")
    return std::make_unique<DqnLearner>(dqn_options(config, std::get<QNetworkSpec>(policy)));
  if (config.algo == "sac")
    return std::make_unique<SacLearner>(sac_options(config, std::get<SquashedGaussianSpec>(policy)));
  if (config.algo == "a2c")
    return std::make_unique<A2cLearner>(a2c_options(config, std::get<PolicySpec>(policy)));
  if (config.algo == "impala")
    return std::make_unique<ImpalaLearner>(impala_options(config, std::get<PolicySpec>(policy)));
  return std::make_unique<PpoLearner>(ppo_options(config, std::get<PolicySpec>(policy)));
}

std::size_t learned_numbers(const RunConfig& config, const AnyPolicySpec& policy) {
  std::size_t out = parameter_count_of(policy);
  if (const auto* actor = std::get_if<SquashedGaussianSpec>(&policy))
    out += 2 * sac_networks(actor->network, config.network.hidden, activation_of(config.network))
                   .critic.parameter_count();
  return out;
}

}  // namespace rl
