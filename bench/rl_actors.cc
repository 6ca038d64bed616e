// Reinforcement learning between actors.
//
// rl/rollout_steps: CartPole with its policy, 64 environments in two rollout actors, each batch read by the driver.
// rl/learners_scaling: the update of PPO on a recorded batch, networks of 256 x 256, minibatches of 4,096, one learner
// over two, in turns.
#include <memory>
#include <optional>
#include <vector>

#include "apps/rl/actors/runners.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/learner_group.h"
#include "apps/rl/samples/on_policy.h"
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

constexpr std::size_t kRollers = 2, kRolloutEnvs = 64, kRolloutHorizon = 128;

rl::RunConfig rollout_config() {
  rl::RunConfig out = rl::defaults_of("ppo").value();
  out.num_envs = kRolloutEnvs / kRollers, out.horizon = kRolloutHorizon;
  return out;
}

class Rollouts {
 public:
  Rollouts() : config_(rollout_config()), task_(rl::task_of(config_).value()) {
    const auto learner = rl::make_learner(config_, task_.policy);
    ArrayBuilder<float> params(learner->params().size());
    std::copy(learner->params().begin(), learner->params().end(), params.begin());
    params_ = put(std::move(params).seal());
    for (std::size_t i = 0; i < kRollers; ++i) {
      actors_.push_back(actor<rl::RolloutActor>.remote(
          rl::rollout_options(config_, std::get<rl::PolicySpec>(task_.policy), i, 0), std::optional<rl::StateDict>()));
      order(i);
    }
  }

  /// Reads one batch of each actor, which plays its next meanwhile. Steps.
  std::size_t round() {
    std::size_t steps = 0;
    for (std::size_t i = 0; i < kRollers; ++i) {
      const rl::SampleBatch batch = get(*batches_[i]);
      order(i);
      const auto returns = batch.view().column("returns").as<float>();
      for (const float one : returns) seen_ += static_cast<double>(one);  // it has crossed: every row is read
      steps += batch.rows;
    }
    return steps;
  }
  double seen() const { return seen_; }

 private:
  void order(std::size_t i) {
    auto [batch, report] = actors_[i].call<&rl::RolloutActor::collect>(params_, task_.moments);
    batches_.resize(kRollers);
    batches_[i] = batch;
  }

  rl::RunConfig config_;
  rl::Task task_;
  rl::ParamsRef params_;
  std::vector<ActorHandle<rl::RolloutActor>> actors_;
  std::vector<std::optional<ObjectRef<rl::SampleBatch>>> batches_;
  double seen_ = 0;
};

rl::RunConfig learner_config(std::size_t learners) {
  rl::RunConfig out = rl::defaults_of("ppo").value();
  out.network.hidden = {256, 256};
  out.ppo.minibatch = 4096, out.ppo.epochs = 2;
  out.num_learners = learners;
  return out;
}

/// A batch as rollout actors write it, of numbers that nobody played.
rl::SampleBatch recorded(const rl::Task& task, std::size_t rows) {
  const rl::SampleLayout layout(rl::on_policy_columns(task.specs.observation_space, task.specs.action_space), rows);
  ArrayBuilder<std::byte> memory(layout.bytes());
  const rl::OnPolicyOut out = rl::on_policy_out(layout, memory.data());
  rl::Generator random(1);
  const auto fill = [&](auto numbers, double low, double high) {
    for (float& one : numbers) one = static_cast<float>(random.uniform(low, high));
  };
  fill(out.obs.as<float>(), -0.1, 0.1);
  fill(out.log_prob, -0.7, -0.69), fill(out.value, 0, 1), fill(out.advantage, -1, 1), fill(out.returns, 0, 1);
  for (std::int64_t& one : out.action.as<std::int64_t>()) one = random.integers(2);
  return {.columns = {layout.columns().begin(), layout.columns().end()},
          .rows = rows,
          .memory = std::move(memory).seal()};
}

double seconds_of_update(rl::LearnerGroup& learners, const ObjectRef<rl::SampleBatch>& batch) {
  const auto start = Clock::now();
  (void)get(learners.update({batch}));
  return seconds_since(start);
}

void measure_scaling(Harness& harness) {
  const rl::RunConfig config = learner_config(1);
  const rl::Task task = rl::task_of(config).value();
  const auto batch = put(recorded(task, harness.choose<std::size_t>(32'768, 8'192)));
  rl::LearnerGroup one(config, task.policy, std::nullopt), two(learner_config(2), task.policy, std::nullopt);
  (void)get(one.publish()), (void)get(two.publish());
  Samples ratios;
  for (int turn = 0; turn < harness.choose(12, 4); ++turn) {
    const double alone = seconds_of_update(one, batch), shared = seconds_of_update(two, batch);
    if (turn > 1) ratios.add(alone / shared);  // the first two of each meet cold memory
  }
  harness.report({.row = "rl/learners_scaling", .value = ratios.median(), .spread = ratios.deviation()});
}

void measure(Harness& harness) {
  if (harness.wants("rl/rollout_steps")) {
    Rollouts rollouts;
    constexpr auto kRound = static_cast<double>(kRolloutEnvs * kRolloutHorizon);
    harness.report_rate("rl/rollout_steps", harness.rate([&] {
      if (rollouts.round() != kRolloutEnvs * kRolloutHorizon) throw Error("a batch has not all its steps");
    }, kRound));
    if (!(rollouts.seen() > 0)) throw Error("the batches have no returns");
  }
  if (harness.wants("rl/learners_scaling")) measure_scaling(harness);
}

}  // namespace

const Program program{.rows = {"rl/rollout_steps", "rl/learners_scaling"}, .measure = &measure, .cpus = 8};

}  // namespace troupe::bench
