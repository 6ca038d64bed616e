#include "apps/rl/actors/learner_actor.h"

#include <algorithm>
#include <utility>

namespace rl {
namespace {

void add_to_means(const std::vector<Metric>& metrics, std::size_t updates_before, std::vector<Metric>& means) {
  if (means.empty()) {
    means = metrics;
    return;
  }
  for (std::size_t i = 0; i < means.size(); ++i)
    means[i].value += (metrics[i].value - means[i].value) / static_cast<double>(updates_before + 1);
}

}  // namespace

LearnerActor::LearnerActor(const RunConfig& config, const AnyPolicySpec& policy,
                           const std::optional<StateDict>& resumed)
    : learner_(make_learner(config, policy)) {
  if (resumed) learner_->restore(*resumed);
}

ParamsRef LearnerActor::publish() const {
  const std::span<const float> params = learner_->params();
  troupe::ArrayBuilder<float> builder(params.size());
  std::copy(params.begin(), params.end(), builder.begin());
  return troupe::put(std::move(builder).seal());
}

UpdateReply LearnerActor::update(std::vector<troupe::ObjectRef<SampleBatch>> batches) {
  const std::vector<SampleBatch> messages = troupe::get(batches);
  std::vector<SampleView> views;
  for (const SampleBatch& message : messages) views.push_back(message.view());
  UpdateReport report = learner_->update(views);
  return {.params = publish(), .report = std::move(report)};
}

UpdatesReply LearnerActor::update_each(std::vector<troupe::ObjectRef<DrawnBatches>> shards) {
  const std::vector<DrawnBatches> drawn = troupe::get(shards);
  std::vector<std::vector<SampleView>> views;
  for (const DrawnBatches& one : drawn) views.push_back(one.views());
  UpdatesReply out{.params = {}, .report = {}, .errors = std::vector<std::vector<float>>(drawn.size())};
  const std::size_t updates = views.empty() ? 0 : views.front().size();
  for (std::size_t update = 0; update < updates; ++update) {
    std::vector<SampleView> minibatch;
    for (const std::vector<SampleView>& of_shard : views)
      if (of_shard.at(update).rows() != 0) minibatch.push_back(of_shard[update]);
    const UpdateReport report = learner_->update(minibatch);
    add_to_means(report.metrics, update, out.report.metrics);
    if (report.td_errors.empty()) continue;  // this learner's samples have no priorities
    auto error = report.td_errors.begin();
    for (std::size_t shard = 0; shard < views.size(); ++shard) {
      const auto end = error + static_cast<std::ptrdiff_t>(views[shard][update].rows());
      out.errors[shard].insert(out.errors[shard].end(), error, end);
      error = end;
    }
  }
  out.params = publish();
  return out;
}

}  // namespace rl
