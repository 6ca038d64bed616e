#include "apps/rl/program/learner_gpus.h"

#include <fmt/format.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

#include "kernels/cuda/cuda.h"

namespace rl {

troupe::Status check_learner_gpus(const RunConfig& config) {
  if (config.device == "cpu") return {};
  const double total = troupe::cluster_resources()["GPU"];
  const auto table = troupe::kernels::cuda::cuda_table();
  const std::string why = table.ok() ? "" : table.error().message();
  if (total == 0)
    return troupe::NotFoundError(
        "--device cuda: there is no GPU in the cluster (--troupe-gpus N, with --seeds TROUPE_GPUS=N, tells of those "
        "that the system does not list); --device cpu learns here" + (why.empty() ? "" : ". " + why));
  if (total < static_cast<double>(config.num_learners))
    return troupe::InvalidArgumentError(
        fmt::format("--device cuda: {} learners want a GPU each, the cluster has {:g}: --learners {:g}",
                    config.num_learners, total, total));
  for (const troupe::NodeRow& node : troupe::nodes({.filter = {{"node_id", troupe::runtime_context().node_id}}}))
    if (node.resources.contains("GPU") && !why.empty()) return troupe::NotFoundError("--device cuda: " + why);
  return {};
}

}  // namespace rl
