#include "apps/rl/program/actors.h"

#include <algorithm>
#include <utility>

namespace rl {

namespace {

RolloutOptions in_this_life(RolloutOptions options) {
  options.life = static_cast<std::uint32_t>(troupe::runtime_context().attempt);
  return options;
}

}  // namespace

RolloutActor::RolloutActor(const RolloutOptions& options) : worker_(in_this_life(options)) {}

std::tuple<SampleBatch, RolloutReport> RolloutActor::collect(troupe::Array<float> params, const Moments& moments) {
  worker_.sync(moments);
  const SampleLayout layout(worker_.columns(), worker_.samples());
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  std::vector<EpisodeEnd> episodes = worker_.collect(params.span(), on_policy_out(layout, memory.data()));
  return {SampleBatch{.columns = {layout.columns().begin(), layout.columns().end()},
                      .rows = layout.rows(),
                      .memory = std::move(memory).seal()},
          RolloutReport{.episodes = std::move(episodes),
                        .deltas = worker_.take_deltas(),
                        .faults = worker_.take_faults()}};
}

LearnerActor::LearnerActor(PpoOptions options, std::optional<StateDict> resumed) : learner_(options) {
  if (resumed) learner_.restore(*resumed);
}

ParamsRef LearnerActor::publish() const {
  const std::span<const float> params = learner_.params();
  troupe::ArrayBuilder<float> builder(params.size());
  std::copy(params.begin(), params.end(), builder.begin());
  return troupe::put(std::move(builder).seal());
}

UpdateReply LearnerActor::update(std::vector<troupe::ObjectRef<SampleBatch>> batches) {
  const std::vector<SampleBatch> messages = troupe::get(batches);
  std::vector<SampleView> views;
  for (const SampleBatch& message : messages) views.push_back(message.view());
  UpdateReport report = learner_.update(views);
  return {.params = publish(), .report = std::move(report)};
}

}  // namespace rl
