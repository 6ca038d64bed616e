#include "apps/rl/loops/async_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/waits.h"

namespace rl {
namespace {

InferenceOptions inference_options_of(const RunConfig& config, const PolicySpec& policy, std::size_t index,
                                      std::size_t runners, std::int64_t resumed_from) {
  // More than its runners have at once would only ever be waited for.
  const std::uint64_t rows = runners * config.num_envs, wanted = config.impala.inference_batch;
  return {.policy = policy,
          .batch = wanted == 0 ? rows : std::min(wanted, rows),
          .wait = std::chrono::microseconds(config.impala.inference_wait_us),
          .seed = config.seed,
          .index = static_cast<std::uint32_t>(index),
          .resumed_from = resumed_from};
}

bool is_loss(const troupe::Error& error) {
  switch (error.code()) {
    case troupe::ErrorCode::kObjectLost:
    case troupe::ErrorCode::kOwnerDied:
    case troupe::ErrorCode::kNodeDied: return true;
    default: return false;
  }
}

/// Of a fragment's rows, whose report is here: gone, or not here in time, or without room. There will be others.
bool does_not_come(const troupe::Error& error) {
  return is_loss(error) || error.code() == troupe::ErrorCode::kObjectStoreFull ||
         error.code() == troupe::ErrorCode::kDeadlineExceeded;
}

}  // namespace

AsyncLoop::AsyncLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config),
      moments_(resumed ? resumed->moments : task.moments),
      learners_(config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt) {
  if (resumed) note_ = "an asynchronous run's environments begin new episodes";
  const auto& policy = std::get<PolicySpec>(task.policy);
  const std::int64_t steps = resumed ? resumed->steps : 0;
  const std::size_t others = std::min<std::size_t>(config.impala.inference_actors, config.num_workers);
  for (std::size_t i = 0; i < others; ++i) {
    const std::size_t runners = (config.num_workers - i + others - 1) / others;
    inference_.push_back(troupe::actor<InferenceActor>.options(inference_options(runners))
                             .remote(inference_options_of(config, policy, i, runners, steps)));
  }
  const auto restartable = troupe::actor<FragmentActor>.options(runner_options());
  for (std::size_t i = 0; i < config.num_workers; ++i)
    runners_.push_back(restartable.remote(
        fragment_runner_options(config, policy, i, steps),
        others == 0 ? std::nullopt : std::optional(inference_[i % others])));
}

Round AsyncLoop::round() {
  if (!params_) {
    params_ = troupe::get(learners_.publish());
    for (std::uint64_t turn = 0; turn < config_.impala.max_outstanding; ++turn)
      for (std::size_t i = 0; i < runners_.size(); ++i) order_from(i);
  }
  for (;;) {
    if (!open_.update) choose();
    auto reply = troupe::try_get(*open_.update);
    if (reply.ok()) return end(std::move(*reply));
    if (reply.error().code() == troupe::ErrorCode::kCancelled) reply.error().raise();
    leave_out_lost_fragments(reply.error());
    open_.update.reset();  // nobody has learned from it: LGR-1
  }
}

void AsyncLoop::order_from(std::size_t runner) {
  auto [batch, report] =
      inference_.empty() ? runners_[runner].call<&FragmentActor::play>(*params_, version_, moments_)
                         : runners_[runner].call<&FragmentActor::play_by_others>(*params_, version_, moments_);
  under_way_.push_back({.runner = runner, .batch = batch, .report = report});
}

AsyncLoop::Fragment AsyncLoop::next_fragment() {
  std::vector<troupe::ObjectRef<RolloutReport>> reports;
  for (const Fragment& fragment : under_way_) reports.push_back(fragment.report);
  // An environment may take any time for its steps; who waits too long presses Ctrl-C.
  const auto ready = troupe::wait(reports, {.num_returns = 1}).ready;
  const auto at = std::ranges::find_if(under_way_, [&](const Fragment& one) { return one.report == ready.front(); });
  auto report = troupe::try_get(at->report);
  if (!report.ok() && !is_loss(report.error())) report.error().raise();  // ALG-1: it stays under way
  if (report.ok()) at->seen = std::move(*report);
  Fragment out = std::move(*at);
  under_way_.erase(at);
  return out;
}

/// Neither lost (ASL-3), nor one that was taken before (ASL-1), nor too old.
bool AsyncLoop::is_wanted(const Fragment& fragment) {
  if (!fragment.seen || !taken_.take(fragment.id())) return false;
  return version_ - fragment.id().version <= config_.impala.max_staleness;
}

/// Fragments for one update; whoever gave one plays on with the present parameters.
void AsyncLoop::choose() {
  while (open_.chosen.size() < config_.impala.fragments_per_update) {
    Fragment fragment = next_fragment();
    order_from(fragment.runner);
    if (is_wanted(fragment)) {
      open_.chosen.push_back(std::move(fragment));
      continue;
    }
    ++thrown_away_;
    // What was lost may be its parameters: a learner that is dead ends the run here, as no other fragment would come.
    if (!fragment.seen) params_ = troupe::get(learners_.publish());
  }
  std::vector<troupe::ObjectRef<SampleBatch>> batches;
  for (const Fragment& fragment : open_.chosen) batches.push_back(fragment.batch);
  open_.update = learners_.update(batches);
}

void AsyncLoop::leave_out_lost_fragments(const troupe::Error& error) {
  for (Fragment& fragment : open_.chosen) {  // a Ctrl-C ends it anywhere: none is taken out before all are known
    const auto batch = troupe::try_get(fragment.batch);
    if (!batch.ok() && batch.error().code() == troupe::ErrorCode::kCancelled) batch.error().raise();
    if (!batch.ok() && does_not_come(batch.error())) fragment.seen.reset();
  }
  const auto lost = std::erase_if(open_.chosen, [](const Fragment& fragment) { return !fragment.seen; });
  if (lost == 0) error.raise();
  thrown_away_ += static_cast<std::int64_t>(lost);
}

Round AsyncLoop::end(UpdateReply reply) {
  Round round{.ended = {}, .num_envs = config_.num_envs, .horizon = config_.horizon, .update = {}};
  double staleness = 0, batch_rows = 0;
  const auto count = static_cast<double>(open_.chosen.size());
  for (Fragment& fragment : open_.chosen) {
    staleness += static_cast<double>(version_ - fragment.id().version) / count;
    if (fragment.seen->inference) batch_rows += fragment.seen->inference->batch_rows / count;
    add_report(std::move(*fragment.seen), moments_, round);
  }
  reply.report.metrics.push_back({"staleness", staleness});
  reply.report.metrics.push_back({"thrown_away", static_cast<double>(thrown_away_)});
  if (!inference_.empty()) reply.report.metrics.push_back({"inference_rows", batch_rows});
  round.update = std::move(reply.report);
  params_ = reply.params;
  ++version_;
  open_ = {};
  // Earlier than by way of the runners' next orders; one that is being restarted gets them from those (INF-2).
  for (const auto& inference : inference_) inference.cast<&InferenceActor::take>(version_, *params_);
  return round;
}

Weights AsyncLoop::weights() {
  return {.params = fetch(params_ ? *params_ : troupe::get(learners_.publish())),
          .moments = moments_};
}

troupe::Result<AlgorithmState> AsyncLoop::save(const SaveOptions& options) {
  auto learner = troupe::try_get(learners_.save(), {.timeout = options.deadline});
  if (!learner.ok()) return learner.error_ptr();
  return AlgorithmState{.learner = std::move(*learner), .parts = {}};
}

}  // namespace rl
