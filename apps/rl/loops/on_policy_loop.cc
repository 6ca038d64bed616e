#include "apps/rl/loops/on_policy_loop.h"

#include <utility>

#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/saved_runners.h"
#include "apps/rl/loops/waits.h"

namespace rl {

OnPolicyLoop::OnPolicyLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config),
      moments_(resumed ? resumed->moments : task.moments),
      learners_(config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt) {
  const auto restartable = troupe::actor<RolloutActor>.options(runner_options());
  SavedRunners saved = saved_runners(config, resumed);
  note_ = std::move(saved.note);
  for (std::size_t i = 0; i < config.num_workers; ++i)
    workers_.push_back(restartable.remote(
        rollout_options(config, std::get<PolicySpec>(task.policy), i, resumed ? resumed->steps : 0), saved.states[i]));
}

Round OnPolicyLoop::round() {
  if (!params_) params_ = troupe::get(learners_.publish());
  if (!open_) begin();
  return end();
}

void OnPolicyLoop::begin() {
  std::vector<troupe::ObjectRef<SampleBatch>> batches;
  Open open;
  for (const auto& worker : workers_) {
    auto [batch, report] = worker.call<&RolloutActor::collect>(*params_, moments_);
    batches.push_back(batch);
    open.reports.push_back(report);
  }
  open.update = learners_.update(batches);
  open_ = std::move(open);
}

Round OnPolicyLoop::end() {
  std::vector<RolloutReport> reports = troupe::get(open_->reports);
  UpdateReply reply = troupe::get(open_->update);
  open_.reset();
  Round round{.ended = {}, .num_envs = config_.num_envs, .horizon = config_.horizon, .update = {}};
  for (RolloutReport& report : reports) add_report(std::move(report), moments_, round);
  round.update = std::move(reply.report);
  params_ = reply.params;
  return round;
}

Weights OnPolicyLoop::weights() {
  if (!params_) params_ = troupe::get(learners_.publish());
  return {.params = fetch(*params_), .moments = moments_};
}

troupe::Result<AlgorithmState> OnPolicyLoop::save(const SaveOptions& options) {
  auto learner = troupe::try_get(learners_.save(), {.timeout = options.deadline});
  if (!learner.ok()) return learner.error_ptr();
  AlgorithmState out{.learner = std::move(*learner), .parts = {}};
  if (!options.parts) return out;
  if (const troupe::Status saved = save_runners(config_, workers_, options, out); !saved.ok()) return saved.error_ptr();
  return out;
}

}  // namespace rl
