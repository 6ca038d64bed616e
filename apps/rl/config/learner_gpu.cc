#include "apps/rl/config/learner_gpu.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr std::string_view kCuda = "cuda";

}  // namespace

std::optional<Gpu> learner_gpu(const RunConfig& config) {
  if (!config.device.starts_with(kCuda)) return std::nullopt;
  const auto table = troupe::kernels::cuda::cuda_table();
  if (!table.ok()) troupe::NotFoundError(fmt::format("device cuda: {}", table.error().message())).raise();
  const std::string assigned = config.device.substr(kCuda.size());
  const int index = assigned.empty() ? -1 : std::stoi(assigned.substr(1));
  const Gpu gpu(**table, own_cuda_device(**table, index));
  (void)describe_and_open_products(gpu);
  return gpu;
}

RunConfig with_gpu(RunConfig config, std::span<const int> gpu_ids) {
  if (config.device == kCuda && !gpu_ids.empty()) config.device = fmt::format("{}:{}", kCuda, gpu_ids.front());
  return config;
}

}  // namespace rl
