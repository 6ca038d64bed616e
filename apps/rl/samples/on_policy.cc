#include "apps/rl/samples/on_policy.h"

namespace rl {

std::vector<Column> on_policy_columns(const Space& observation_space, const Space& action_space,
                                      std::size_t mask_width) {
  std::vector<Column> out{column_of("obs", observation_space), column_of("action", action_space),
                          {.name = "log_prob"},                {.name = "value"},
                          {.name = "advantage"},               {.name = "returns"}};
  if (mask_width != 0) out.push_back(mask_column(mask_width));
  return out;
}

OnPolicyOut on_policy_out(const SampleLayout& layout, std::byte* memory) {
  const auto floats = [&](const char* name) { return layout.column(name, memory).as<float>(); };
  return {.obs = layout.column("obs", memory),
          .action = layout.column("action", memory),
          .log_prob = floats("log_prob"),
          .value = floats("value"),
          .advantage = floats("advantage"),
          .returns = floats("returns"),
          .mask = layout.has(kMaskColumn) ? layout.column(kMaskColumn, memory) : Rows()};
}

OnPolicyView on_policy_view(const SampleView& samples) {
  const auto floats = [&](const char* name) { return samples.column(name).as<float>(); };
  return {.obs = samples.column("obs"),
          .action = samples.column("action"),
          .log_prob = floats("log_prob"),
          .value = floats("value"),
          .advantage = floats("advantage"),
          .returns = floats("returns"),
          .mask = samples.has(kMaskColumn) ? samples.column(kMaskColumn) : ConstRows()};
}

}  // namespace rl
