#include "apps/rl/loops/algorithm.h"

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/loops/async_loop.h"
#include "apps/rl/loops/dataset_loop.h"
#include "apps/rl/loops/off_policy_loop.h"
#include "apps/rl/loops/on_policy_loop.h"
#include "apps/rl/loops/search_loop.h"

namespace rl {

std::unique_ptr<Algorithm> make_algorithm(const RunConfig& config, const Task& task,
                                          const std::optional<ResumePoint>& resumed) {
  switch (algorithm_config(config.algo).value()->loop) {
    case LoopKind::kAsynchronous: return std::make_unique<AsyncLoop>(config, task, resumed);
    case LoopKind::kOffPolicy: return std::make_unique<OffPolicyLoop>(config, task, resumed);
    case LoopKind::kSearch: return std::make_unique<SearchLoop>(config, task, resumed);
    case LoopKind::kDataset: return std::make_unique<DatasetLoop>(config, task, resumed);
    case LoopKind::kOnPolicy: break;
  }
  return std::make_unique<OnPolicyLoop>(config, task, resumed);
}

}  // namespace rl
