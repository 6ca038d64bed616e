#include "apps/rl/samples/fragments.h"

namespace rl {

std::vector<Column> fragment_columns(const Space& observation_space, const Space& action_space) {
  return {column_of("obs", observation_space), column_of("action", action_space), {.name = "log_prob"},
          {.name = "reward"}, {.name = "discount"}, {.name = "next", .dtype = DType::kInt64}};
}

FragmentOut fragment_out(const SampleLayout& layout, std::byte* memory) {
  const auto floats = [&](const char* name) { return layout.column(name, memory).as<float>(); };
  return {.obs = layout.column("obs", memory),
          .action = layout.column("action", memory),
          .log_prob = floats("log_prob"),
          .reward = floats("reward"),
          .discount = floats("discount"),
          .next = layout.column("next", memory).as<std::int64_t>()};
}

FragmentView fragment_view(const SampleView& samples) {
  const auto floats = [&](const char* name) { return samples.column(name).as<float>(); };
  return {.obs = samples.column("obs"),
          .action = samples.column("action"),
          .log_prob = floats("log_prob"),
          .reward = floats("reward"),
          .discount = floats("discount"),
          .next = samples.column("next").as<std::int64_t>()};
}

OwnedSamples join_fragments(std::span<const SampleView> parts) {
  OwnedSamples out = concatenate(parts);
  const std::span<std::int64_t> next = out.column("next").as<std::int64_t>();
  std::size_t begin = 0;
  for (const SampleView& part : parts) {
    for (std::int64_t& one : next.subspan(begin, part.rows()))
      if (one >= 0) one += static_cast<std::int64_t>(begin);
    begin += part.rows();
  }
  return out;
}

}  // namespace rl
