// tabular: rows of float columns around the centres of clusters, with the cluster and a label: data for classifiers and
// for what loads tables, whose right answer is known.
//
//   f00, f01, ...   float32: the centre of the row's cluster, and noise
//   label           int32: a class; that of the cluster, or with probability label_noise any other
//   cluster         int32
//
// Noise is the sum of two uniform numbers, scaled to the deviation `noise`: a triangle within +- sqrt(6) deviations,
// from one word a number, in additions and products alone, so that every processor gives the same bits.
//
// TAB-1  A row is a function of settings, seed and its number. Row r has the words of blocks [r * b, (r + 1) * b) of
//        one Philox stream, b of them for all of its columns, and block r of another one for its cluster and label.
// TAB-2  Centres are uniform in [-separation, separation] in each column; centre_of gives them.
#pragma once

#include <cstddef>
#include <vector>

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind tabular();

struct TabularSettings {
  std::uint64_t columns = 16, clusters = 8, classes = 4;
  double separation = 4, noise = 1, label_noise = 0;
};

/// `columns` numbers.
[[nodiscard]] std::vector<float> centre_of(const TabularSettings& settings, std::uint64_t seed, std::uint64_t cluster);

}  // namespace datagen
