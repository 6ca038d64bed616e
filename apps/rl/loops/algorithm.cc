#include "apps/rl/loops/algorithm.h"

#include "apps/rl/loops/async_loop.h"
#include "apps/rl/loops/off_policy_loop.h"
#include "apps/rl/loops/on_policy_loop.h"

namespace rl {

std::unique_ptr<Algorithm> make_algorithm(const RunConfig& config, const Task& task,
                                          const std::optional<ResumePoint>& resumed) {
  if (config.algo == "impala") return std::make_unique<AsyncLoop>(config, task, resumed);
  if (config.is_off_policy()) return std::make_unique<OffPolicyLoop>(config, task, resumed);
  return std::make_unique<OnPolicyLoop>(config, task, resumed);
}

}  // namespace rl
