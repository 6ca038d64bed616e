#include "apps/rl/actors/replay_actor.h"

#include <algorithm>
#include <span>
#include <utility>

namespace rl {
namespace {

constexpr const char* kBuffer = "buffer";
constexpr const char* kGenerator = "generator";

}  // namespace

ReplayActor::ReplayActor(const ReplayActorOptions& options, const std::optional<StateDict>& resumed)
    : buffer_(options.buffer), generator_(options.seed) {
  if (!resumed) return;
  Generator::Saved saved;
  std::ranges::copy(resumed->get<std::uint64_t>(kGenerator, saved.size()), saved.begin());
  buffer_.restore(resumed->get_all(kBuffer));
  generator_.restore(saved);
}

ReplayMass ReplayActor::add(const SampleBatch& batch) {
  if (batch.rows != 0) buffer_.add(batch.view());
  return buffer_.mass();
}

DrawnBatches ReplayActor::draw_after(const ReplayMass&, const DrawOrder& order) { return draw(order); }

DrawnBatches ReplayActor::draw(const DrawOrder& order) {
  DrawnBatches out{.columns = buffer_.sample_columns(), .rows = order.rows, .memory = {}};
  std::vector<SampleLayout> layouts;
  std::size_t bytes = 0;
  for (const std::uint64_t rows : order.rows) {
    layouts.emplace_back(out.columns, rows);
    bytes += layouts.back().bytes();
  }
  troupe::ArrayBuilder<std::byte> memory(bytes);
  std::byte* at = memory.data();
  for (const SampleLayout& layout : layouts) {
    if (layout.rows() != 0) buffer_.sample({.beta = order.beta, .all = order.all}, generator_, layout, at);
    at += layout.bytes();
  }
  out.memory = std::move(memory).seal();
  return out;
}

ReplayMass ReplayActor::write_back(const DrawnBatches& drawn, const std::vector<float>& errors) {
  std::span<const float> left(errors);
  for (const SampleView& batch : drawn.views()) {
    const std::size_t rows = batch.rows();
    if (left.size() < rows) troupe::InvalidArgumentError("fewer errors than rows that were drawn").raise();
    if (rows != 0)
      buffer_.update_priorities(batch.column("index").as<std::int64_t>(), batch.column("generation").as<std::int64_t>(),
                                left.first(rows));
    left = left.subspan(rows);
  }
  return buffer_.mass();
}

StateDict ReplayActor::save() const {
  StateDict out;
  out.put_all(kBuffer, buffer_.save());
  const Generator::Saved saved = generator_.save();
  out.put(kGenerator, std::vector<std::uint64_t>(saved.begin(), saved.end()));
  return out;
}

}  // namespace rl
