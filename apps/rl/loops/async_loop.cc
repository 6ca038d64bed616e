#include "apps/rl/loops/async_loop.h"

#include <algorithm>
#include <utility>

#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/waits.h"

namespace rl {

AsyncLoop::AsyncLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config),
      moments_(resumed ? resumed->moments : task.moments),
      learners_(config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt) {
  if (resumed) note_ = "an asynchronous run's environments begin new episodes";
  const auto restartable = troupe::actor<FragmentActor>.options(runner_options());
  for (std::size_t i = 0; i < config.num_workers; ++i)
    runners_.push_back(restartable.remote(
        fragment_runner_options(config, std::get<PolicySpec>(task.policy), i, resumed ? resumed->steps : 0)));
}

Round AsyncLoop::round() {
  if (!params_) {
    params_ = troupe::get(learners_.publish());
    for (std::uint64_t turn = 0; turn < config_.impala.max_outstanding; ++turn)
      for (std::size_t i = 0; i < runners_.size(); ++i) order_from(i);
  }
  if (!open_.update) choose();
  return end();
}

void AsyncLoop::order_from(std::size_t runner) {
  auto [batch, report] = runners_[runner].call<&FragmentActor::play>(*params_, moments_);
  under_way_.push_back({.runner = runner, .version = version_, .batch = batch, .report = report});
}

AsyncLoop::Fragment AsyncLoop::next_fragment() {
  std::vector<troupe::ObjectRef<RolloutReport>> reports;
  for (const Fragment& fragment : under_way_) reports.push_back(fragment.report);
  // An environment may take any time for its steps; who waits too long presses Ctrl-C.
  const auto ready = troupe::wait(reports, {.num_returns = 1}).ready;
  const auto at = std::ranges::find_if(under_way_, [&](const Fragment& one) { return one.report == ready.front(); });
  Fragment out = std::move(*at);
  under_way_.erase(at);
  return out;
}

/// Fragments for one update; whoever gave one plays on with the present parameters.
void AsyncLoop::choose() {
  while (open_.chosen.size() < config_.impala.fragments_per_update) {
    Fragment fragment = next_fragment();
    order_from(fragment.runner);
    if (version_ - fragment.version <= config_.impala.max_staleness) open_.chosen.push_back(std::move(fragment));
    else ++thrown_away_;
  }
  std::vector<troupe::ObjectRef<SampleBatch>> batches;
  for (const Fragment& fragment : open_.chosen) batches.push_back(fragment.batch);
  open_.update = learners_.update(batches);
}

Round AsyncLoop::end() {
  std::vector<RolloutReport> reports;
  for (const Fragment& fragment : open_.chosen) reports.push_back(troupe::get(fragment.report));
  UpdateReply reply = troupe::get(*open_.update);
  Round round{.ended = {}, .num_envs = config_.num_envs, .horizon = config_.horizon, .update = {}};
  for (RolloutReport& report : reports) add_report(std::move(report), moments_, round);
  double staleness = 0;
  for (const Fragment& fragment : open_.chosen)
    staleness += static_cast<double>(version_ - fragment.version) / static_cast<double>(open_.chosen.size());
  reply.report.metrics.push_back({"staleness", staleness});
  reply.report.metrics.push_back({"thrown_away", static_cast<double>(thrown_away_)});
  round.update = std::move(reply.report);
  params_ = reply.params;
  ++version_;
  open_ = {};
  return round;
}

Weights AsyncLoop::weights() {
  return {.params = fetch(params_ ? *params_ : troupe::get(learners_.publish())),
          .moments = moments_};
}

troupe::Result<AlgorithmState> AsyncLoop::save() {
  auto learner = troupe::try_get(learners_.save(), {.timeout = kSaveDeadline});
  if (!learner.ok()) return learner.error_ptr();
  return AlgorithmState{.learner = std::move(*learner), .parts = {}};
}

}  // namespace rl
