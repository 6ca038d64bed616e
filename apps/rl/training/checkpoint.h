// Policies and checkpoints on disk: safetensors files, which the field's tools read.
//
//   policy      an array a layer: "policy/hidden0/weight" [out][in], "policy/hidden0/bias" [out], ...,
//               "value/output/bias", "log_std"; of a Q-network "q/hidden0/weight", of SAC's actor "actor/..."; a
//               convolution's weight is [filters][kernel][kernel][channels];
//               "moments/0", ...: count, means and squared deviations of what is normalized
//   checkpoint  "learner/...": what Learner::save gives; "parts/...": what the algorithm's other parts keep (runners,
//               replay); "log/...": returns, curve and metrics of the run
//
// Their words ("__metadata__"): "troupe.rl" is the kind and version ("policy 1", "checkpoint 1"); "policy" is JSON of
// the environment and its wrappers, its spaces, the networks, the seed and the steps; "run" (a checkpoint) is JSON of
// the settings and of what the log says in single numbers.
//
// RCK-1  A file appears whole or not at all (TST-1).
// RCK-2  A truncated, foreign, damaged or newer file is a SerializationError that says which; a missing one a
//       NotFoundError. Decoding is bounded by the bytes that are there (TST-2). A checkpoint whose network is not the
//       one that its configuration makes is damaged as well. One that names a program that is not run (NPG-1) is an
//       InvalidArgumentError: load_checkpoint makes its environment, load_policy does so of a checkpoint alone.
// RCK-3  Training goes on after load_checkpoint as it would have without the stop, as far as ALG-2 says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/state/state_dict.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/training/training_log.h"

namespace rl {

/// A trained network and where it comes from.
struct Policy {
  EnvSetup env = {};
  AnyPolicySpec spec = {};
  Moments moments = {};  // by which observations are normalized, those of rewards behind them
  std::vector<float> params = {};
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  double mean_return = 0;
};

/// InvalidArgumentError where it cannot play there: file and environment may come from different places.
[[nodiscard]] troupe::Status check_fits(const Policy& policy, const MadeEnv& made);

struct Checkpoint {
  Policy policy = {};  // its parameters are the learner's
  RunConfig config = {};
  StateDict learner = {};
  StateDict parts = {};
  TrainingLog log = {};
};

/// With what a checkpoint's environment is made, where that is not what the file says.
struct LoadOptions {
  const EnvSetup* own = nullptr;  // of the run that wrote the file: nothing is asked about (NPG-1)
  std::optional<std::string> python = {}, gym_import = {};  // that the user typed: nor is that
};

troupe::Status save_policy(const std::filesystem::path& path, const Policy& policy);
/// Reads either kind.
troupe::Result<Policy> load_policy(const std::filesystem::path& path);

troupe::Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
troupe::Result<Checkpoint> load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {});

}  // namespace rl
