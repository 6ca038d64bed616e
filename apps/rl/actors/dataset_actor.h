// The actor that holds a data set and gives minibatches of it: a thin shell around Epochs. Methods run one at a time.
//
// DAC-1  What it draws depends on the data set, the seed and the order alone: after a restart it goes on as before.
#pragma once

#include <cstdint>

#include "apps/rl/actors/messages.h"
#include "apps/rl/samples/epochs.h"

namespace rl {

/// `minibatches` of `rows` each, from the row that comes after `done` others.
struct DatasetOrder {
  std::uint64_t done = 0, minibatches = 0, rows = 0;
};

class DatasetActor {
 public:
  DatasetActor(SampleBatch data, std::uint64_t seed);

  DrawnBatches draw(const DatasetOrder& order);

 private:
  SampleBatch data_;
  Epochs epochs_;
};

}  // namespace rl
