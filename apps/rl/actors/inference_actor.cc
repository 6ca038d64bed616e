#include "apps/rl/actors/inference_actor.h"

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"

namespace rl {
namespace {

/// INF-4: runners are counted from 0 on, these from the other end.
std::uint64_t inference_seed(const InferenceOptions& o) {
  return seed_of({.job = o.seed,
                  .runner = std::numeric_limits<std::uint32_t>::max() - o.index,
                  .life = static_cast<std::uint32_t>(troupe::runtime_context().attempt),
                  .resumed_from = o.resumed_from,
                  .environment = StreamId::kActions});
}

std::size_t row_bytes(const Space& space) { return elements_of(space) * size_of(dtype_of(space)); }

}  // namespace

InferenceActor::InferenceActor(const InferenceOptions& options)
    : options_(options),
      obs_bytes_(row_bytes(options.policy.observation_space)),
      action_bytes_(row_bytes(options.policy.action_space)),
      sampler_(options.policy, inference_seed(options)) {}

void InferenceActor::take(std::int64_t version, const troupe::Array<float>& params) {
  if (version <= version_) return;
  version_ = version, params_ = params;
}

ChosenActions InferenceActor::choose(const Observations& request) {
  if (request.bytes.size() != request.rows * obs_bytes_)
    troupe::InvalidArgumentError(fmt::format("{} rows of observations in {} bytes: a row has {}", request.rows,
                                             request.bytes.size(), obs_bytes_))
        .raise();
  const std::size_t choices = choices_of(options_.policy.action_space);
  if (!request.mask.empty() && request.mask.size() != request.rows * choices)
    troupe::InvalidArgumentError(fmt::format("a mask of {} bytes for {} rows: a row has {}", request.mask.size(),
                                             request.rows, choices))
        .raise();
  if (version_ < request.version) return {.version = version_, .batch_rows = 0, .bytes = {}, .log_prob = {}};
  if (!open_) open_ = std::make_shared<Batch>();
  const std::shared_ptr<Batch> batch = open_;
  const std::uint64_t first = batch->rows;
  batch->rows += request.rows;
  const auto* bytes = reinterpret_cast<const std::byte*>(request.bytes.data());
  batch->obs.insert(batch->obs.end(), bytes, bytes + request.bytes.size());
  if (!request.mask.empty()) batch->mask.resize(first * choices, 1);  // who said none before allows everything
  batch->mask.insert(batch->mask.end(), request.mask.begin(), request.mask.end());
  if (!batch->mask.empty()) batch->mask.resize(batch->rows * choices, 1);
  if (batch->rows >= options_.batch || !batch->chosen.wait_for(options_.wait)) {  // INF-1
    if (!batch->chosen.is_set()) choose_for(*batch);
  }
  if (batch->error) std::rethrow_exception(batch->error);
  const auto* actions = reinterpret_cast<const std::uint8_t*>(batch->actions.data()) + first * action_bytes_;
  const float* log_prob = batch->log_prob.data() + first;
  return {.version = batch->version,
          .batch_rows = batch->rows,
          .bytes = {actions, actions + request.rows * action_bytes_},
          .log_prob = {log_prob, log_prob + request.rows}};
}

/// Nothing waits in here: no other fiber sees a batch that is half done.
void InferenceActor::choose_for(Batch& batch) {
  open_.reset();
  const PolicySpec& policy = options_.policy;
  batch.version = version_;  // INF-3
  batch.actions.resize(batch.rows * action_bytes_), batch.log_prob.resize(batch.rows);
  try {
    sampler_.choose(params_.span(),
                    {ConstRows(dtype_of(policy.observation_space), batch.rows, elements_of(policy.observation_space),
                               batch.obs.data()),
                     batch.mask},
                    {dtype_of(policy.action_space), batch.rows, elements_of(policy.action_space),
                     batch.actions.data()},
                    batch.log_prob);
  } catch (...) {
    batch.error = std::current_exception();  // of all whose rows it has
  }
  batch.chosen.set();
}

troupe::ActorOptions inference_options(std::size_t runners) {
  // Of each runner one request, and one that gives parameters; the rest is room for those that were interrupted.
  return {.max_restarts = 5, .max_task_retries = 3, .max_concurrency = static_cast<int>(4 * runners + 4)};
}

}  // namespace rl
