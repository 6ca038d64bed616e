// Environments by name: ours, and those that a program registers.
//
//   int main(int argc, char** argv) {
//     rl::register_env("Maze-v0", make_maze).value();   // in main, so that worker processes have it too
//     return troupe::run(argc, argv, driver);
//   }
//
// A name that ends with a colon is a prefix: its factory gets what follows. There are
//
//   gym:LunarLander-v3       any environment of Gymnasium, in a Python process (gym/gym_env.h)
//   throw:, exit:, stall:    in front of any other name: it faults on purpose (wrappers/fault_injector.h)
//
// Any thread.
//
// Invariants
//   EVR-1  A name is registered once; another time is an InvalidArgumentError.
//   EVR-2  An unknown name is a NotFoundError that names the nearest one and lists all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/gym/gym_options.h"
#include "kernels/cpu/isa/isa.h"

namespace rl {

struct BatchEnvOptions {
  std::size_t num_envs = 1;
  AutoReset auto_reset = AutoReset::kSameStep;
  std::optional<int> max_episode_steps = {};  // default: the environment's own
  boost::json::object kwargs = {};            // for the environment; one that knows none of them refuses them
  /// kReference: the exact one, where there are faster versions that differ in the last bits.
  troupe::kernels::Isa isa = troupe::kernels::Isa::kReference;
  GymOptions gym = {};     // of "gym:"; kwargs are what gymnasium.make gets
  FaultRates faults = {};  // inside of the environment's process; the fault prefixes set them
  bool leave_out_faults = false;  // the fault prefixes change nothing: for evaluation, whose mean would be that of the
                                  // episodes that were short enough to survive
};

/// `rest`: of the name, behind a prefix.
using EnvFactory = std::function<troupe::Result<std::unique_ptr<BatchEnv>>(std::string_view rest,
                                                                           const BatchEnvOptions& options)>;

troupe::Status register_env(std::string name, EnvFactory factory);
[[nodiscard]] troupe::Result<std::unique_ptr<BatchEnv>> make_batch_env(std::string_view id,
                                                                       const BatchEnvOptions& options);
/// All names, sorted, without prefixes.
[[nodiscard]] std::vector<std::string> registered_envs();
/// Those that end with a colon.
[[nodiscard]] std::vector<std::string> registered_prefixes();

}  // namespace rl
