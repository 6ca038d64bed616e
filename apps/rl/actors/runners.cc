#include "apps/rl/actors/runners.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/rl/samples/perturbations.h"

namespace rl {
namespace {

template <class Options>
Options in_this_life(Options options) {
  options.life = static_cast<std::uint32_t>(troupe::runtime_context().attempt);
  return options;
}

/// PA-2
template <class Runner>
void play_on_from(const std::optional<StateDict>& resumed, Runner& runner) {
  if (resumed && troupe::runtime_context().attempt == 0) (void)restore_state(runner, *resumed);
}

/// PA-3
FaultCounts ended_with_their_process(std::size_t num_envs) {
  FaultCounts out{};
  if (troupe::runtime_context().attempt > 0)
    out[static_cast<std::size_t>(FaultKind::kExited)] = static_cast<std::int64_t>(num_envs);
  return out;
}

/// `before`: faults of another life, which are told of once.
template <class Runner>
RolloutReport report_of(Runner& runner, std::vector<EpisodeEnd> episodes, FaultCounts& before) {
  RolloutReport out{.episodes = std::move(episodes), .deltas = runner.take_deltas(), .faults = runner.take_faults()};
  const FaultCounts more = std::exchange(before, {});
  for (std::size_t kind = 0; kind < more.size(); ++kind) out.faults[kind] += more[kind];
  return out;
}

SampleBatch batch_of(const SampleLayout& layout, troupe::ArrayBuilder<std::byte> memory) {
  return {.columns = {layout.columns().begin(), layout.columns().end()},
          .rows = layout.rows(),
          .memory = std::move(memory).seal()};
}

}  // namespace

troupe::ActorOptions runner_options() {
  // They ask for no CPU, so the learner's node would have them all.
  return {.max_restarts = 5, .max_task_retries = 3, .scheduling = troupe::Spread{}};
}

RolloutActor::RolloutActor(const RolloutOptions& options, const std::optional<StateDict>& resumed)
    : worker_(in_this_life(options)), faults_before_(ended_with_their_process(options.num_envs)) {
  play_on_from(resumed, worker_);
}

std::tuple<SampleBatch, RolloutReport> RolloutActor::collect(troupe::Array<float> params, const Moments& moments) {
  worker_.sync(moments);
  const SampleLayout layout(worker_.columns(), worker_.samples());
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  std::vector<EpisodeEnd> episodes = worker_.collect(params.span(), on_policy_out(layout, memory.data()));
  const auto kept = worker_.kept();
  if (!kept) return {batch_of(layout, std::move(memory)), report_of(worker_, std::move(episodes), faults_before_)};
  const SampleLayout fewer(worker_.columns(), kept->size());
  troupe::ArrayBuilder<std::byte> of_kept(fewer.bytes());
  gather({layout, memory.data()}, *kept, fewer, of_kept.data());
  return {batch_of(fewer, std::move(of_kept)), report_of(worker_, std::move(episodes), faults_before_)};
}

FragmentActor::FragmentActor(const FragmentRunnerOptions& options,
                             std::optional<troupe::ActorHandle<InferenceActor>> inference)
    : runner_(in_this_life(options)),
      faults_before_(ended_with_their_process(options.num_envs)),
      next_{.runner = options.runner, .incarnation = in_this_life(options).life},
      inference_(std::move(inference)) {}

std::tuple<SampleBatch, RolloutReport> FragmentActor::play(troupe::Array<float> params, std::int64_t version,
                                                           const Moments& moments) {
  runner_.sync(moments);
  return give(runner_.play(params.span()), version);
}

/// INF-2: until it has these parameters, whoever gave them, or newer ones. INF-5: it waits for the answer, which is the
/// error where there are none.
ChosenActions FragmentActor::ask(const Observations& seen, const ParamsRef& params) {
  for (;;) {
    ChosenActions chosen = troupe::get(inference_->call<&InferenceActor::choose>(seen));
    if (chosen.version >= seen.version) return chosen;
    troupe::get(inference_->call<&InferenceActor::take>(seen.version, params));
  }
}

std::tuple<SampleBatch, RolloutReport> FragmentActor::play_by_others(ParamsRef params, std::int64_t version,
                                                                     const Moments& moments) {
  runner_.sync(moments);
  std::optional<std::int64_t> oldest;
  double batch_rows = 0, steps = 0;
  std::vector<EpisodeEnd> episodes = runner_.play([&](const Seen& seen, Rows actions, std::span<float> log_prob) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(seen.obs.data());
    const ChosenActions chosen = ask({.version = version,
                                      .rows = seen.obs.rows(),
                                      .bytes = {bytes, bytes + seen.obs.bytes()},
                                      .mask = {seen.mask.begin(), seen.mask.end()}},
                                     params);
    std::memcpy(actions.data(), chosen.bytes.data(), actions.bytes());
    std::ranges::copy(chosen.log_prob, log_prob.begin());
    oldest = std::min(oldest.value_or(chosen.version), chosen.version);
    batch_rows += static_cast<double>(chosen.batch_rows), ++steps;
  });
  std::tuple<SampleBatch, RolloutReport> out = give(std::move(episodes), oldest.value_or(version));
  std::get<RolloutReport>(out).inference = {.batch_rows = batch_rows / steps};
  return out;
}

std::tuple<SampleBatch, RolloutReport> FragmentActor::give(std::vector<EpisodeEnd> episodes,
                                                           std::int64_t version) {
  const SampleLayout layout(runner_.columns(), runner_.rows());
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  runner_.write(layout, memory.data());
  RolloutReport report = report_of(runner_, std::move(episodes), faults_before_);
  report.fragment = next_;
  report.fragment->version = version;
  ++next_.sequence;
  return {batch_of(layout, std::move(memory)), std::move(report)};
}

TransitionActor::TransitionActor(const TransitionRunnerOptions& options, const std::optional<StateDict>& resumed)
    : runner_(in_this_life(options)), faults_before_(ended_with_their_process(options.num_envs)) {
  play_on_from(resumed, runner_);
}

std::tuple<SampleBatch, RolloutReport> TransitionActor::play(troupe::Array<float> params, const PlayOrder& order,
                                                             const Moments& moments) {
  runner_.sync(moments);
  std::vector<EpisodeEnd> episodes = runner_.play(params.span(), order);
  const SampleLayout layout(runner_.columns(), runner_.rows());
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  runner_.take(layout, memory.data());
  return {batch_of(layout, std::move(memory)), report_of(runner_, std::move(episodes), faults_before_)};
}

PerturbationActor::PerturbationActor(const PerturbationRunnerOptions& options)
    : runner_(options), faults_before_(ended_with_their_process(1)) {}

std::tuple<SampleBatch, RolloutReport> PerturbationActor::play(troupe::Array<float> params,
                                                               const PerturbationOrder& order,
                                                               const Moments& moments) {
  runner_.sync(moments);
  const std::vector<ArsPair> pairs = runner_.play(params.span(), order);
  const SampleLayout layout(perturbation_columns(), pairs.size());
  troupe::ArrayBuilder<std::byte> memory(layout.bytes());
  write_pairs(pairs, layout, memory.data());
  return {batch_of(layout, std::move(memory)), report_of(runner_, runner_.episodes(), faults_before_)};
}

}  // namespace rl
