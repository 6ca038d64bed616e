#include "apps/rl/loops/dataset_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/waits.h"
#include "apps/rl/samples/dataset_reader.h"
#include "apps/rl/samples/demonstrations.h"

namespace rl {
namespace {

constexpr const char* kRows = "demonstrations/rows";

/// Whether an element of one is an element of the other, but for bounds: wrappers take those away.
bool same_elements(const Space& one, const Space& other) {
  const auto* box = std::get_if<Box>(&one);
  const auto* other_box = std::get_if<Box>(&other);
  if (box == nullptr || other_box == nullptr) return one == other;
  return box->dtype == other_box->dtype && box->shape == other_box->shape;
}

const std::string& source_of(const BcSettings& settings) {
  return settings.data.empty() ? settings.demonstrations : settings.data;
}

Demonstrations read_source(const BcSettings& settings) {
  if (settings.demonstrations.empty() == settings.data.empty())
    troupe::InvalidArgumentError(
        "bc needs --demonstrations FILE ('rl collect' makes one), or --data DIR, a data set of datagen or minari")
        .raise();
  return settings.data.empty() ? load_demonstrations(settings.demonstrations).value()
                               : read_dataset(settings.data).value();
}

/// What is learned from, of the episodes that the settings allow.
SampleBatch chosen_demonstrations(const BcSettings& settings, const Task& task) {
  const Demonstrations all = read_source(settings);
  if (!same_elements(all.observation_space, task.specs.observation_space) ||
      !same_elements(all.action_space, task.specs.action_space))
    troupe::InvalidArgumentError(fmt::format("{} was played on {}, with {} and {}: {} has {} and {}",
                                             source_of(settings), all.env, to_string(all.observation_space),
                                             to_string(all.action_space), task.specs.id,
                                             to_string(task.specs.observation_space),
                                             to_string(task.specs.action_space)))
        .raise();
  if (settings.episodes > all.episodes())
    troupe::InvalidArgumentError(fmt::format("{} has {} episodes, not {}", source_of(settings), all.episodes(),
                                             settings.episodes))
        .raise();
  const std::size_t rows = settings.episodes == 0 ? all.steps.rows() : all.ends[settings.episodes - 1];
  std::vector<Column> columns{column_of("obs", all.observation_space), column_of("action", all.action_space)};
  if (all.steps.view().has(kMaskColumn)) columns.push_back(mask_column(choices_of(all.action_space)));
  const SampleLayout layout(columns, rows);
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  for (const Column& column : columns) {
    const Rows to = layout.column(column.name, memory.data());
    std::memcpy(to.data(), all.steps.view().column(column.name).data(), to.bytes());
  }
  return {.columns = columns, .rows = rows, .memory = std::move(memory).seal()};
}

}  // namespace

DatasetLoop::DatasetLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config), done_(resumed ? static_cast<std::uint64_t>(resumed->steps) : 0) {
  SampleBatch data = chosen_demonstrations(config.bc, task);
  rows_ = data.rows;
  if (resumed && resumed->state.parts.has(kRows) && resumed->state.parts.get_one<std::uint64_t>(kRows) != rows_)
    troupe::InvalidArgumentError(fmt::format("{} has {} steps; the run began with {}", source_of(config.bc), rows_,
                                             resumed->state.parts.get_one<std::uint64_t>(kRows)))
        .raise();
  learner_ = troupe::actor<LearnerActor>.options(learner_options(config)).remote(
      config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt);
  data_ = troupe::actor<DatasetActor>.options(runner_options()).remote(std::move(data), config.seed);
}

Round DatasetLoop::round() {
  const BcSettings& settings = config_.bc;
  if (!open_) {
    const auto drawn = data_.call<&DatasetActor::draw>(
        DatasetOrder{.done = done_, .minibatches = settings.updates, .rows = settings.minibatch});
    open_ = learner_.call<&LearnerActor::update_each>(std::vector{drawn});
  }
  auto& [params, updated] = *open_;
  UpdatesReply reply = troupe::get(updated);
  params_ = params;
  open_.reset();
  const std::uint64_t samples = settings.updates * settings.minibatch;
  done_ += samples;
  Round round{.ended = {}, .num_envs = 1, .horizon = samples, .update = std::move(reply.report)};
  round.ended.resize(1);
  return round;
}

Weights DatasetLoop::weights() {
  if (!params_) params_ = troupe::get(learner_.call<&LearnerActor::publish>());
  return {.params = fetch(*params_), .moments = {}};
}

troupe::Result<AlgorithmState> DatasetLoop::save(const SaveOptions& options) {
  auto learner = troupe::try_get(learner_.call<&LearnerActor::save>(), {.timeout = options.deadline});
  if (!learner.ok()) return learner.error_ptr();
  AlgorithmState out{.learner = std::move(*learner), .parts = {}};
  if (options.parts) out.parts.put_one(kRows, rows_);
  return out;
}

}  // namespace rl
