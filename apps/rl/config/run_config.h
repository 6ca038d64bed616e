// RunConfig: all settings of a training run, and the options of its parts that follow from them. A plain value.
//
// Which settings there are, and their defaults, depends on the algorithm (algorithm_config.h): settings_of lists those
// of config.algo, and two algorithms may mean their own number by one name (learning_rate).
//
// RCF-1  Device "cuda" is an InvalidArgumentError for an algorithm whose learner has no code for GPUs. Whether there is
//        a GPU is not asked here, but where the learner is made (config/learner_gpu.h).
//
// The defaults of PPO were chosen on CartPole over 60 seeds with 2 workers of 16 environments, and tried on others than
// the bench's (1001 to 1012): all solved, median 73k steps, slowest 92k. Learning rate and clip fall over total_steps;
// over 100,000 steps instead of 500,000 the same twelve have the same median and need 83k at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/config/setting.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/policies/any_policy.h"

namespace rl {

/// How much later rewards count, whatever the algorithm calls it.
struct DiscountSettings {
  double gamma = 0.99, gae_lambda = 0.95;
};

struct NetworkSettings {
  std::vector<std::size_t> hidden{64, 64};
  std::string activation = "tanh";
  std::string convolutions = "";  // "16x3x1,32x3x2": filters x kernel x stride
  double initial_log_std = 0;
  friend bool operator==(const NetworkSettings&, const NetworkSettings&) = default;
};

struct PpoSettings {
  double gamma = 0.98, gae_lambda = 0.9;
  std::int64_t epochs = 8;
  std::uint64_t minibatch = 256;
  double learning_rate = 2e-3, learning_rate_last = 2e-4;
  double clip = 0.2, clip_last = 0.1;
  double value_coefficient = 0.5, entropy_coefficient = 0;
  bool value_clipping = false;
  double target_kl = 0;
  double max_grad_norm = 0.5;
  double adam_epsilon = 1e-5;
  friend bool operator==(const PpoSettings&, const PpoSettings&) = default;
};

struct A2cSettings {
  double gamma = 0.99, gae_lambda = 1;
  double learning_rate = 7e-4, learning_rate_last = 7e-4;
  double value_coefficient = 0.5, entropy_coefficient = 0;
  bool normalize_advantage = false;
  std::string optimizer = "rmsprop";
  double optimizer_epsilon = 1e-5;
  double max_grad_norm = 0.5;
  friend bool operator==(const A2cSettings&, const A2cSettings&) = default;
};

struct ImpalaSettings {
  double gamma = 0.99;
  double learning_rate = 1e-3, learning_rate_last = 0;
  double value_coefficient = 0.5, entropy_coefficient = 0.01;
  double rho_bar = 1, c_bar = 1;
  double clip = 0;
  std::int64_t target_interval = 0;
  std::string optimizer = "adam";
  double optimizer_epsilon = 1e-5;
  double max_grad_norm = 0.5;
  std::uint64_t fragments_per_update = 1, max_outstanding = 2;
  std::int64_t max_staleness = 8;
  std::uint64_t inference_actors = 0, inference_batch = 0, inference_wait_us = 1000;
  friend bool operator==(const ImpalaSettings&, const ImpalaSettings&) = default;
};

struct ArsSettings {
  double learning_rate = 0.02, deviation = 0.05;  // of the perturbations
  std::uint64_t directions = 8, top = 8;
  friend bool operator==(const ArsSettings&, const ArsSettings&) = default;
};

/// Of behavioural cloning.
struct BcSettings {
  std::string demonstrations = "";      // a file of `rl collect`; or
  std::string data = "";                // a data set's folder (samples/dataset_reader.h)
  std::uint64_t episodes = 0;           // the first so many of them; 0: all
  double learning_rate = 1e-3, learning_rate_last = 1e-3;
  std::uint64_t minibatch = 64;
  std::uint64_t updates = 64;           // between two looks at the run
  double entropy_coefficient = 0;
  double max_grad_norm = 0.5;
  double adam_epsilon = 1e-5;
  friend bool operator==(const BcSettings&, const BcSettings&) = default;
};

/// Of DQN and SAC: what they learn from, and how often.
struct ReplaySettings {
  double gamma = 0.99;
  std::uint64_t n_step = 1;
  std::uint64_t capacity = 100'000;     // transitions of all shards together
  std::uint64_t shards = 1;
  bool prioritized = false;
  double priority_alpha = 0.6, priority_beta = 0.4;  // beta grows to 1 over total_steps
  std::int64_t learning_starts = 1'000; // environment steps by any actions
  std::uint64_t minibatch = 64;
  std::uint64_t updates = 0;            // after each round of `horizon` steps; 0: as many as steps were played
  friend bool operator==(const ReplaySettings&, const ReplaySettings&) = default;
};

struct DqnSettings {
  double learning_rate = 1e-3, learning_rate_last = 1e-3;
  bool double_q = true, dueling = false;
  std::int64_t target_interval = 500;
  double target_tau = 1;
  double epsilon = 1, epsilon_last = 0.05, epsilon_share = 0.1;
  double max_grad_norm = 10;
  double adam_epsilon = 1e-8;
  friend bool operator==(const DqnSettings&, const DqnSettings&) = default;
};

struct SacSettings {
  double learning_rate = 3e-4, learning_rate_last = 3e-4;
  double tau = 0.005;
  std::int64_t target_interval = 1;
  std::optional<double> temperature = {};     // none: learned
  double first_temperature = 1;               // of a learned one
  std::optional<double> target_entropy = {};  // none: minus the numbers of an action
  std::string noise = "white";
  double noise_beta = 1, noise_sigma = 0.5;
  std::uint64_t noise_interval = 64;
  double gsde_log_std = -3;
  double adam_epsilon = 1e-8;
  friend bool operator==(const SacSettings&, const SacSettings&) = default;
};

/// Copies of the policy that are played without exploration while training goes on (training/gate.h).
struct EvaluationSettings {
  double every = 0;                    // share of total_steps; 0: never
  std::uint64_t episodes = 100;
  std::optional<double> threshold = {};  // none: the environment's
  bool stop = false;                   // at a gate that is passed
  friend bool operator==(const EvaluationSettings&, const EvaluationSettings&) = default;
};

struct RunConfig {
  std::string algo = "ppo";
  EnvSetup env = {};
  std::uint64_t seed = 1;
  std::uint64_t num_workers = 2;
  std::uint64_t num_envs = 16;  // of each worker
  std::uint64_t num_learners = 1;
  std::uint64_t horizon = 64;   // steps of each environment between updates
  std::int64_t total_steps = 500'000;
  bool stop_when_solved = true;
  std::string fault_prefix = "bootstrap";
  std::string device = "cpu";   // of the learners: "cpu", "cuda" (RCF-1), or the GPU of a learner, "cuda:1"
  NetworkSettings network = {};
  PpoSettings ppo = {};
  A2cSettings a2c = {};
  ImpalaSettings impala = {};
  ArsSettings ars = {};
  BcSettings bc = {};
  ReplaySettings replay = {};
  DqnSettings dqn = {};
  SacSettings sac = {};
  EvaluationSettings evaluation = {};
  std::map<std::string, double> own = {};  // numbers of algorithms that a program has registered

  /// Of its algorithm.
  [[nodiscard]] DiscountSettings discount() const;
  [[nodiscard]] std::size_t samples_per_worker() const { return num_envs * horizon; }
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// Ours first, then those that the program has registered (algorithm_config.h).
[[nodiscard]] std::vector<std::string> algorithm_names();
/// InvalidArgumentError with the nearest name for one that is none.
[[nodiscard]] troupe::Result<RunConfig> defaults_of(const std::string& algo);
/// Those of config.algo; they point into `config`.
[[nodiscard]] std::vector<Setting> settings_of(RunConfig& config);
/// All of them as they were resolved, for people: "algo=ppo env=CartPole-v1 ...", in lines of 100 columns at most but
/// for a longer setting. Those that are empty are left out.
[[nodiscard]] std::string settings_text(const RunConfig& config);
/// RCF-1
[[nodiscard]] troupe::Status check_device(const RunConfig& config);
/// A configuration of the settings that are given: "algo" first, whose defaults hold for what is not. Checked.
[[nodiscard]] troupe::Result<RunConfig> config_from(const boost::json::object& given);

/// For the spaces of the configuration's environment, which is made for a moment. What MadeEnv::make and policy_for say
/// of it.
struct Task {
  EnvSpecs specs;
  AnyPolicySpec policy;
  Moments moments;  // at the start
};
[[nodiscard]] troupe::Result<Task> task_of(const RunConfig& config);

/// Of the algorithm. Throws what its constructor says.
[[nodiscard]] std::unique_ptr<Learner> make_learner(const RunConfig& config, const AnyPolicySpec& policy);
/// Numbers that the learner keeps at least, for who has to know before memory is asked for.
[[nodiscard]] std::size_t learned_numbers(const RunConfig& config, const AnyPolicySpec& policy);

}  // namespace rl
