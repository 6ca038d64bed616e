#include "apps/rl/actors/learner_actor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <troupe/collective.h>

#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

class GroupReducer final : public Reducer {
 public:
  explicit GroupReducer(troupe::collective::Group group) : group_(std::move(group)) {}

  static Peers peers(const std::shared_ptr<GroupReducer>& self) {
    return {static_cast<std::size_t>(self->group_.rank()), static_cast<std::size_t>(self->group_.size()), self};
  }
  void sum(std::span<float> numbers) override { group_.all_reduce(numbers); }
  void sum(std::span<double> numbers) override { group_.all_reduce(numbers); }

 private:
  troupe::collective::Group group_;
};

void add_to_means(const std::vector<Metric>& metrics, std::size_t updates_before, std::vector<Metric>& means) {
  if (means.empty()) {
    means = metrics;
    return;
  }
  for (std::size_t i = 0; i < means.size(); ++i)
    means[i].value += (metrics[i].value - means[i].value) / static_cast<double>(updates_before + 1);
}

}  // namespace

troupe::ActorOptions learner_options(const RunConfig& config) {
  return {.resources = {.gpus = config.device == "cpu" ? 0.0 : 1.0}};
}

LearnerActor::LearnerActor(const RunConfig& config, const AnyPolicySpec& policy,
                           const std::optional<StateDict>& resumed) {
  const RunConfig own = with_gpu(config, troupe::runtime_context().gpu_ids);
  if (const std::optional<Gpu> gpu = learner_gpu(own))
    fmt::print(stderr, "learner: process {} on GPU {}: {}\n", ::getpid(), gpu->device(),
               describe_and_open_products(*gpu));
  learner_ = make_learner(own, policy);
  if (resumed) learner_->restore(*resumed);
}

troupe::Array<float> LearnerActor::fill(troupe::ArrayBuilder<float> room) const {
  std::ranges::copy(learner_->params(), room.begin());
  return std::move(room).seal();
}

void LearnerActor::join(std::string group) {
  auto reducer = std::make_shared<GroupReducer>(troupe::collective::group(group));
  peers_ = GroupReducer::peers(reducer);
  learner_->join(peers_);
}

template <class T>
std::vector<T> LearnerActor::read(const std::vector<troupe::ObjectRef<T>>& refs) const {
  learner_->prepare();  // before it waits
  if (peers_.alone()) return troupe::get(refs);
  std::vector<T> own;
  std::exception_ptr error;
  try {
    own = troupe::get(refs);
  } catch (const troupe::Error&) {
    error = std::current_exception();
  }
  double missing = error ? 1 : 0;
  peers_.sum(std::span(&missing, 1));
  if (error) std::rethrow_exception(error);
  if (missing > 0) troupe::ObjectLostError("another learner could not read what it was to learn from").raise();
  return own;
}

UpdateReport LearnerActor::learn(const std::vector<troupe::ObjectRef<SampleBatch>>& batches) {
  const std::vector<SampleBatch> messages = read(batches);
  std::vector<SampleView> views;
  for (const SampleBatch& message : messages) views.push_back(message.view());
  return learner_->update(views);
}

UpdateReply LearnerActor::update(std::vector<troupe::ObjectRef<SampleBatch>> batches) {
  troupe::ArrayBuilder<float> room = this->room();
  UpdateReport report = learn(batches);
  return {.params = troupe::put(fill(std::move(room))), .report = std::move(report)};
}

void LearnerActor::follow(std::vector<troupe::ObjectRef<SampleBatch>> batches) { (void)learn(batches); }
void LearnerActor::follow_each(std::vector<troupe::ObjectRef<DrawnBatches>> shards) { (void)learn_each(shards); }

std::tuple<troupe::Array<float>, UpdatesReply> LearnerActor::update_each(
    std::vector<troupe::ObjectRef<DrawnBatches>> shards) {
  troupe::ArrayBuilder<float> room = this->room();
  UpdatesReply reply = learn_each(shards);
  return {fill(std::move(room)), std::move(reply)};
}

UpdatesReply LearnerActor::learn_each(const std::vector<troupe::ObjectRef<DrawnBatches>>& shards) {
  const std::vector<DrawnBatches> drawn = read(shards);
  std::vector<std::vector<SampleView>> views;
  for (const DrawnBatches& one : drawn) views.push_back(one.views());
  UpdatesReply out{.report = {}, .errors = std::vector<std::vector<float>>(drawn.size())};
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
  return out;
}

}  // namespace rl
