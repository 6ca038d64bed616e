#include "apps/train/program/rank_actor.h"

#include <unistd.h>

#include <utility>

#include <troupe/collective.h>

#include "apps/train/program/rank_loop.h"

namespace troupe::train {
namespace {

/// The number of the GPU that the runtime has given to this actor; -1: none.
int assigned_gpu() {
  const auto ids = runtime_context().gpu_ids;
  return ids.empty() ? -1 : ids.front();
}

}  // namespace

RankActor::RankActor(JobSettings settings)
    : settings_(std::move(settings)), job_(make_job(settings_, assigned_gpu()).value()) {}

RankSummary RankActor::run(RunOrder order) {
  RunSettings run = run_of(settings_);
  run.resume = order.resume;
  const auto next = [&](std::uint64_t after) {
    // No deadline: the driver forms the next epoch, however often it must begin anew, or ends, and this actor with it.
    return collective::group(order.group, {.after_epoch = after, .timeout = kForever});
  };
  try {
    auto result = train_rank(*job_, run, next(order.after_epoch), notebook_,
                             {.regroup = [&](const collective::Group& failed) -> Result<collective::Group> {
                               return next(failed.epoch());
                             }});
    if (!result.ok()) return {.error = result.error().what()};
    parameters_ = std::move(result->parameters);
    return {.steps = result->outcome.steps, .stopped = result->outcome.stopped};
  } catch (const CancelledError&) {
    throw;
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

int RankActor::pid() const { return ::getpid(); }

std::string RankActor::sample(SampleOptions options) { return job_->sample(parameters_, options).value(); }

}  // namespace troupe::train
