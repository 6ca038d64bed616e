// Environment steps of the classic-control tasks on one core: a batch of 1,024 environments as training sees it,
// random actions; observations, rewards, flags and resets included.
//
// rl/env_*: the actions are drawn beforehand, 64 batches of them, as for the peers. rl/cartpole_steps: drawing them is
// included.
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/env_registry.h"
#include "bench/harness.h"
#include "kernels/cpu/isa/isa.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kEnvs = 1024;
constexpr std::size_t kBatches = 64;

struct Task {
  const char* row;
  std::string_view id;
};
constexpr Task kTasks[] = {{"rl/env_cartpole", "CartPole-v1"},
                           {"rl/env_mountaincar", "MountainCar-v0"},
                           {"rl/env_mountaincar_continuous", "MountainCarContinuous-v0"},
                           {"rl/env_pendulum", "Pendulum-v1"},
                           {"rl/env_acrobot", "Acrobot-v1"}};

/// The batch, and actions for it.
class Played {
 public:
  explicit Played(std::string_view id)
      : env_(rl::make_batch_env(id, {.num_envs = kEnvs, .isa = kernels::best_isa()}).value()), out_(*env_) {
    std::vector<std::uint64_t> seeds(kEnvs);
    std::iota(seeds.begin(), seeds.end(), 1);
    env_->reset(seeds);
    for (std::size_t k = 0; k < kBatches; ++k) draw(actions_.emplace_back(env_->specs().action_space, kEnvs));
  }

  /// Steps a second, for about `seconds`.
  double run(double seconds) {
    return repeat(seconds, [&](std::size_t k) { env_->step(actions_[k].view(), out_.out()); });
  }

  /// Of a task with two actions; a draw is 64 of them.
  double run_drawing(double seconds) {
    const std::span<std::int64_t> choices = actions_[0].as<std::int64_t>();
    return repeat(seconds, [&](std::size_t) {
      for (std::size_t at = 0; at < kEnvs; at += 64) {
        const std::uint64_t bits = random_.next_uint64();
        for (std::size_t bit = 0; bit < 64; ++bit) choices[at + bit] = static_cast<std::int64_t>(bits >> bit & 1);
      }
      env_->step(actions_[0].view(), out_.out());
    });
  }

 private:
  void draw(rl::OwnedRows& actions) {
    const rl::Space& space = env_->specs().action_space;
    if (const auto* choice = std::get_if<rl::Discrete>(&space)) {
      for (std::int64_t& a : actions.as<std::int64_t>()) a = random_.integers(static_cast<std::uint32_t>(choice->n));
    } else {
      const rl::Box& box = std::get<rl::Box>(space);
      for (float& a : actions.as<float>()) a = static_cast<float>(random_.uniform(box.low_of(0), box.high_of(0)));
    }
  }

  template <class Step>
  double repeat(double seconds, Step step) {
    const auto start = std::chrono::steady_clock::now();
    double elapsed = 0;
    std::size_t steps = 0;
    while (elapsed < seconds) {
      for (std::size_t k = 0; k < kBatches; ++k) step(k);
      steps += kBatches * kEnvs;
      elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return static_cast<double>(steps) / elapsed;
  }

  std::unique_ptr<rl::BatchEnv> env_;
  rl::StepBuffers out_;
  std::vector<rl::OwnedRows> actions_;
  rl::Generator random_{2};
};

template <class Run>
void report(Harness& harness, const char* row, Run run) {
  if (!harness.wants(row)) return;
  (void)run(harness.choose(1.0, 0.1));  // the clock of the core rises
  Samples trials;
  for (int trial = 0; trial < 4; ++trial) trials.add(run(harness.choose(2.0, 0.2)));
  harness.report({.row = row, .value = trials.mean(), .spread = trials.deviation()});
}

void measure(Harness& harness) {
  for (const Task& task : kTasks) {
    Played played(task.id);
    report(harness, task.row, [&](double seconds) { return played.run(seconds); });
  }
  Played cartpole("CartPole-v1");
  report(harness, "rl/cartpole_steps", [&](double seconds) { return cartpole.run_drawing(seconds); });
}

}  // namespace

const Program program{.rows = {"rl/env_cartpole", "rl/env_mountaincar", "rl/env_mountaincar_continuous",
                               "rl/env_pendulum", "rl/env_acrobot", "rl/cartpole_steps"},
                      .measure = &measure,
                      .runtime = false};

}  // namespace troupe::bench
