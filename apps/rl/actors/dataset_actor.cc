#include "apps/rl/actors/dataset_actor.h"

#include <span>
#include <utility>
#include <vector>

namespace rl {

DatasetActor::DatasetActor(SampleBatch data, std::uint64_t seed)
    : data_(std::move(data)), epochs_(seed, data_.rows) {}

DrawnBatches DatasetActor::draw(const DatasetOrder& order) {
  const SampleView all = data_.view();
  const SampleLayout layout(data_.columns, order.rows);
  const std::vector<std::uint32_t> rows = epochs_.take(order.done, order.minibatches * order.rows);
  troupe::ArrayBuilder<std::byte> memory(order.minibatches * layout.bytes());
  for (std::uint64_t i = 0; i < order.minibatches; ++i) {
    const auto chosen = std::span(rows).subspan(i * order.rows, order.rows);
    for (const Column& column : data_.columns)
      gather(all.column(column.name), chosen, layout.column(column.name, memory.data() + i * layout.bytes()));
  }
  return {.columns = data_.columns,
          .rows = std::vector<std::uint64_t>(order.minibatches, order.rows),
          .memory = std::move(memory).seal()};
}

}  // namespace rl
