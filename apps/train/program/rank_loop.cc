#include "apps/train/program/rank_loop.h"

#include <array>
#include <utility>

namespace troupe::train {
namespace {

/// The loss of the fixed rows, and where the time has gone since the last time. All ranks call it at the same steps.
class Evaluations {
 public:
  Evaluations(Job& job, const RunSettings& run, Trainer<float>& trainer)
      : job_(job), trainer_(trainer), rows_at_once_(run.batch), every_(run.evaluate_every), last_step_(run.steps) {}

  void count(const StepMetrics& metrics) {
    const StepSeconds& s = metrics.seconds;
    const std::array<double, 5> one{s.total, s.input, s.compute, s.communication, s.update};
    for (std::size_t i = 0; i < one.size(); ++i) sums_[i] += one[i];
    ++steps_;
  }
  bool due(std::int64_t step) const { return step == last_step_ || (every_ > 0 && step % every_ == 0); }

  /// Throws CollectiveError.
  const EvaluationLine& line() {
    if (line_.step == trainer_.steps_done() && evaluated_) return line_;
    const Loss loss = trainer_.evaluate(job_.validation(), job_.validation_rows(), rows_at_once_).value();
    const auto counted = static_cast<double>(loss.counted);
    for (double& sum : sums_) sum /= static_cast<double>(std::max<std::int64_t>(steps_, 1));
    average(trainer_.group(), sums_);
    line_ = {.step = trainer_.steps_done(),
             .loss = loss.sum / counted,
             .accuracy = job_.has_accuracy() ? static_cast<double>(loss.correct) / counted : -1,
             .seconds = {.total = sums_[0],
                         .input = sums_[1],
                         .compute = sums_[2],
                         .communication = sums_[3],
                         .update = sums_[4]}};
    forget();
    evaluated_ = true;
    return line_;
  }
  /// Another group, another state.
  void forget() {
    sums_ = {};
    steps_ = 0;
    evaluated_ = false;
  }

 private:
  Job& job_;
  Trainer<float>& trainer_;
  std::size_t rows_at_once_;
  std::int64_t every_, last_step_;
  std::array<double, 5> sums_{};
  std::int64_t steps_ = 0;
  bool evaluated_ = false;
  EvaluationLine line_;
};

ElasticOptions elastic_options(const RunSettings& run) {
  ElasticOptions options;
  options.total_steps = run.steps;
  options.commit_every = run.commit_every;
  options.checkpoint_every = run.checkpoint_every;
  options.resume = run.resume;
  if (!run.checkpoints.empty())
    options.checkpoints = FolderOptions{.path = run.checkpoints, .keep_last = run.keep_last};
  return options;
}

}  // namespace

Result<RankResult> train_rank(Job& job, const RunSettings& run, collective::Group group, Notebook& notebook,
                              const RankHooks& hooks) {
  auto sampler = Sampler::create(job.sampling());
  if (!sampler.ok()) return sampler.error_ptr();
  TrainerOptions options = trainer_options(run);
  options.targets_per_row = job.targets_per_row();
  auto trainer = Trainer<float>::create(job.model(), job.training(), std::move(*sampler), options);
  if (!trainer.ok()) return trainer.error_ptr();
  Evaluations evaluations(job, run, **trainer);
  bool parting = false;  // rank 0 has said that the group is left for newcomers

  const auto note = [&](const auto& line) {
    notebook.add(line);
    if (hooks.on_note) hooks.on_note();
  };
  ElasticOptions elastic = elastic_options(run);
  elastic.on_step = [&](const StepMetrics& metrics) {
    note(metrics);
    evaluations.count(metrics);
    if (evaluations.due(metrics.step)) note(evaluations.line());
  };
  elastic.on_recovery = [&](const Recovery& recovery) {
    evaluations.forget();
    note(recovery);
  };
  elastic.on_warning = [&](const std::string& text) {
    notebook.warn(text);
    if (hooks.on_note) hooks.on_note();
  };
  elastic.score = [&] { return std::optional(evaluations.line().loss); };
  elastic.stop = [&] { return notebook.asked_to_stop(); };
  elastic.newcomer = [&] { return parting = notebook.newcomer_announced((*trainer)->group().epoch()); };
  if (hooks.regroup)
    elastic.regroup = [&](const collective::Group& failed) {
      if (std::exchange(parting, false)) notebook.part(failed.epoch());
      return hooks.regroup(failed);
    };
  auto outcome = ElasticRun<float>(**trainer, std::move(elastic)).run(std::move(group));
  if (!outcome.ok()) return outcome.error_ptr();
  const std::span<const float> parameters = (*trainer)->parameters();
  return RankResult{.outcome = std::move(*outcome), .parameters = {parameters.begin(), parameters.end()}};
}

}  // namespace troupe::train
