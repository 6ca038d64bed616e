#include "apps/rl/samples/perturbations.h"

namespace rl {

const std::vector<Column>& perturbation_columns() {
  static const std::vector<Column> columns{{.name = "direction", .dtype = DType::kInt64},
                                           {.name = "return_plus", .dtype = DType::kFloat64},
                                           {.name = "return_minus", .dtype = DType::kFloat64}};
  return columns;
}

void write_pairs(std::span<const ArsPair> pairs, const SampleLayout& layout, std::byte* memory) {
  const auto direction = layout.column("direction", memory).as<std::int64_t>();
  const auto plus = layout.column("return_plus", memory).as<double>();
  const auto minus = layout.column("return_minus", memory).as<double>();
  for (std::size_t i = 0; i < pairs.size(); ++i)
    direction[i] = pairs[i].direction, plus[i] = pairs[i].plus, minus[i] = pairs[i].minus;
}

std::vector<ArsPair> read_pairs(const SampleView& samples) {
  const auto direction = samples.column("direction").as<std::int64_t>();
  const auto plus = samples.column("return_plus").as<double>();
  const auto minus = samples.column("return_minus").as<double>();
  std::vector<ArsPair> out;
  for (std::size_t i = 0; i < direction.size(); ++i)
    out.push_back({.direction = static_cast<std::uint32_t>(direction[i]), .plus = plus[i], .minus = minus[i]});
  return out;
}

}  // namespace rl
