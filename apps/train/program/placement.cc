#include "apps/train/program/placement.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

#include "kernels/cuda/cuda.h"

namespace troupe::train {

Status check_gpus(int ranks) {
  const double total = cluster_resources()["GPU"];
  const auto here = kernels::cuda::cuda_table();
  if (total == 0)
    return NotFoundError(
        "--device cuda: there is no GPU in the cluster (--troupe-gpus N tells of those that the system does "
        "not list); --device cpu trains here" +
        (here.ok() ? "" : ". " + std::string(here.error().message())));
  if (total < ranks)
    return InvalidArgumentError(fmt::format(
        "--device cuda: {} workers want a GPU each, the cluster has {:g}: --workers {:g}", ranks, total, total));
  for (const NodeRow& row : nodes({.filter = {{"node_id", runtime_context().node_id}}}))
    if (row.resources.contains("GPU") && !here.ok())
      return NotFoundError("--device cuda: " + std::string(here.error().message()));
  return {};
}

Placement place_ranks(int ranks, Device device) {
  const double total = cluster_resources()["CPU"];
  Placement out{.nodes = {},
             .cpus = total >= ranks ? 1 : std::max(0.001, std::floor(total / ranks * 1000) / 1000),
             .gpus = device == Device::kCuda ? 1.0 : 0.0};
  const std::string here = runtime_context().node_id;
  std::vector<NodeRow> rows = nodes({.filter = {{"state", "ALIVE"}}});
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const NodeRow& a, const NodeRow& b) { return (a.node_id == here) > (b.node_id == here); });
  for (const NodeRow& row : rows) {
    const auto free = [&](const char* what) {
      const auto found = row.available.find(what);
      return found == row.available.end() ? 0 : found->second;
    };
    int room = static_cast<int>(free("CPU") / out.cpus + 1e-6);
    if (out.gpus > 0) room = std::min(room, static_cast<int>(free("GPU") / out.gpus));
    for (int i = 0; i < room && static_cast<int>(out.nodes.size()) < ranks; ++i) out.nodes.push_back(row.node_id);
  }
  out.nodes.resize(static_cast<std::size_t>(ranks), here);
  return out;
}

}  // namespace troupe::train
