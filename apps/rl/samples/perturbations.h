// The columns of a batch of perturbed policies' returns (ARS).
//
//   direction      int64: its number within the update
//   return_plus    float64: of an episode with the direction added to the parameters
//   return_minus   float64: of one with it subtracted
#pragma once

#include <span>
#include <vector>

#include "apps/rl/algorithms/ars.h"
#include "apps/rl/samples/sample_batch.h"

namespace rl {

[[nodiscard]] const std::vector<Column>& perturbation_columns();
void write_pairs(std::span<const ArsPair> pairs, const SampleLayout& layout, std::byte* memory);
/// InvalidArgumentError, thrown, for a batch without those columns.
[[nodiscard]] std::vector<ArsPair> read_pairs(const SampleView& samples);

}  // namespace rl
