// EV-1: every recorded step and episode, within the bounds that the recording promises.
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "apps/rl/envs/classic/classic_vector_env.h"
#include "apps/rl/envs/env.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;

struct Tolerance {
  double one_step;
  double free_run;
  std::int64_t free_steps;  // from each reset
  double reward;
};

Tolerance tolerance_of(const std::string& id) {
  static const std::map<std::string, Tolerance> kTable{{"CartPole-v1", {1e-12, 1e-11, 100, 0}},
                                                       {"Acrobot-v1", {1e-12, 1e-10, 100, 0}},
                                                       {"MountainCar-v0", {1e-13, 1e-12, 1 << 30, 0}},
                                                       {"MountainCarContinuous-v0", {0, 0, 1 << 30, 1e-12}},
                                                       {"Pendulum-v1", {1e-12, 1e-9, 200, 1e-12}}};
  return kTable.at(id);
}

struct Trajectory {
  std::string id;
  std::size_t steps, state_size, obs_size;
  std::uint64_t seed;
  int max_steps;
  rl::ActionType action_type;
  std::vector<double> action, state, reward;
  std::vector<float> obs;
  std::vector<std::uint8_t> terminated, truncated;
  std::map<std::size_t, std::vector<double>> resets;  // by the step they come before
  std::map<std::size_t, std::vector<float>> reset_obs;

  [[nodiscard]] std::vector<double> state_before(std::size_t t) const {
    if (auto found = resets.find(t); found != resets.end()) return found->second;
    return {state.begin() + static_cast<std::ptrdiff_t>((t - 1) * state_size),
            state.begin() + static_cast<std::ptrdiff_t>(t * state_size)};
  }
};

Trajectory read(const golden::File& file, const value& v) {
  Trajectory out;
  out.id = golden::text(file.content.at("env_id"));
  out.max_steps = static_cast<int>(golden::integer(file.content.at("max_episode_steps")));
  out.steps = static_cast<std::size_t>(golden::integer(at(v, "steps")));
  out.seed = static_cast<std::uint64_t>(golden::integer(at(v, "seed")));
  out.action = golden::numbers(at(v, "action"));
  out.state = golden::numbers(at(v, "state"));
  out.obs = golden::floats(at(v, "obs"));
  out.reward = golden::numbers(at(v, "reward"));
  out.terminated = golden::flags(at(v, "terminated"));
  out.truncated = golden::flags(at(v, "truncated"));
  out.state_size = out.state.size() / out.steps;
  out.obs_size = out.obs.size() / out.steps;
  const std::string type = golden::text(at(v, "action_dtype"));
  out.action_type = type == "float32"   ? rl::ActionType::kFloat32
                    : type == "float64" ? rl::ActionType::kFloat64
                                        : rl::ActionType::kDiscrete;
  for (const value& reset : at(v, "resets").as_array()) {
    const auto before = static_cast<std::size_t>(golden::integer(at(reset, "before_step")));
    out.resets[before] = golden::numbers(at(reset, "state"));
    out.reset_obs[before] = golden::floats(at(reset, "obs"));
  }
  return out;
}

template <class Body>
void for_each_trajectory(Body body) {
  const auto files = golden::files_of(golden::Kind::kEnvironment);
  if (files.empty()) GTEST_SKIP() << "no recorded trajectories";
  for (const golden::File* file : files) {
    for (const value& v : file->content.at("trajectories").as_array()) {
      SCOPED_TRACE(file->path.string() + " " + golden::text(at(v, "name")));
      body(read(*file, v));
    }
  }
}

void expect_state(std::span<const double> got, std::span<const double> want, double tolerance, std::size_t t) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - want[i]), tolerance) << "step " << t << " field " << i;
}

std::span<const double> state_row(const Trajectory& tr, std::size_t t) {
  return std::span(tr.state).subspan(t * tr.state_size, tr.state_size);
}

TEST(GoldenEnvironment, EV1_OneStepFromEveryRecordedState) {
  for_each_trajectory([](const Trajectory& tr) {
    const Tolerance tolerance = tolerance_of(tr.id);
    auto env = rl::make_env(tr.id);
    ASSERT_TRUE(env.ok());
    std::vector<float> obs(tr.obs_size);
    for (std::size_t t = 0; t < tr.steps; ++t) {
      (*env)->set_state(tr.state_before(t),
                        tr.resets.contains(t) ? rl::StateOrigin::kAfterReset : rl::StateOrigin::kAfterStep);
      const rl::StepOutcome outcome = (*env)->step({tr.action[t], tr.action_type});
      expect_state((*env)->state(), state_row(tr, t), tolerance.one_step, t);
      ASSERT_LE(std::abs(outcome.reward - tr.reward[t]), tolerance.reward) << t;
      ASSERT_EQ(outcome.terminated, tr.terminated[t] != 0) << t;
      (*env)->observe(obs);
      for (std::size_t i = 0; i < obs.size(); ++i)
        ASSERT_NEAR(obs[i], tr.obs[t * tr.obs_size + i], 1e-6 * std::max(1.0f, std::abs(obs[i]))) << t;
    }
  });
}

TEST(GoldenEnvironment, EV1_FreeRunFromTheSeedWithResetsTimeLimitAndFlags) {
  for_each_trajectory([](const Trajectory& tr) {
    const Tolerance tolerance = tolerance_of(tr.id);
    auto env = rl::make_env(tr.id);
    ASSERT_TRUE(env.ok());
    EXPECT_EQ((*env)->spec().max_episode_steps, tr.max_steps);
    rl::Generator generator(tr.seed);
    std::vector<float> obs(tr.obs_size);
    std::int64_t steps = 0;
    for (std::size_t t = 0; t < tr.steps; ++t) {
      if (auto reset = tr.resets.find(t); reset != tr.resets.end()) {
        (*env)->reset(generator);
        steps = 0;
        expect_state((*env)->state(), reset->second, 0, t);
        (*env)->observe(obs);
        for (std::size_t i = 0; i < obs.size(); ++i) ASSERT_NEAR(obs[i], tr.reset_obs.at(t)[i], 6e-8);
      }
      const rl::StepOutcome outcome = (*env)->step({tr.action[t], tr.action_type});
      ++steps;
      if (steps <= tolerance.free_steps) {
        expect_state((*env)->state(), state_row(tr, t), tolerance.free_run, t);
        ASSERT_EQ(outcome.terminated, tr.terminated[t] != 0) << t;
      }
      ASSERT_EQ(steps >= tr.max_steps, tr.truncated[t] != 0) << t;
    }
  });
}

// What the vector versions may differ by from the recording in one step: as the exact ones, but a state that is float32
// may round to its neighbour.
double vector_tolerance_of(const std::string& id) {
  return id == "MountainCarContinuous-v0" ? 1.2e-7 : tolerance_of(id).one_step;
}

TEST(GoldenEnvironment, CVE1_CVE2_OneStepOfEveryVersionOfTheBatches) {
  for (auto isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(std::string(isa_name(isa)));
    for_each_trajectory([isa](const Trajectory& tr) {
      if (tr.action_type == rl::ActionType::kFloat64) return;  // no action space has them
      const bool exact = isa == troupe::kernels::Isa::kReference;
      const double tolerance = exact ? tolerance_of(tr.id).one_step : vector_tolerance_of(tr.id);
      // One lane a recorded step: all of them are stepped at once. Next-step reset leaves the ended states visible.
      const auto env = rl::ClassicVectorEnv::make(
                           tr.id, {.num_envs = tr.steps, .auto_reset = rl::AutoReset::kNextStep, .isa = isa})
                           .value();
      rl::OwnedRows actions(env->specs().action_space, tr.steps);
      for (std::size_t t = 0; t < tr.steps; ++t) {
        const auto origin = tr.resets.contains(t) ? rl::StateOrigin::kAfterReset : rl::StateOrigin::kAfterStep;
        ASSERT_TRUE(env->set_state(t, tr.state_before(t), origin).ok());
        if (tr.action_type == rl::ActionType::kFloat32) actions.as<float>()[t] = static_cast<float>(tr.action[t]);
        else actions.as<std::int64_t>()[t] = static_cast<std::int64_t>(tr.action[t]);
      }
      rl::StepBuffers got(*env);
      env->step(actions.view(), got.out());
      for (std::size_t t = 0; t < tr.steps; ++t) {
        expect_state(env->state(t), state_row(tr, t), tolerance, t);
        ASSERT_LE(std::abs(got.reward[t] - tr.reward[t]), tolerance_of(tr.id).reward) << t;
        ASSERT_EQ(got.terminated[t], tr.terminated[t]) << t;
        ASSERT_EQ(got.truncated[t], 0) << t;
        for (std::size_t i = 0; i < tr.obs_size; ++i) {
          const float want = tr.obs[tr.obs_size * t + i];
          ASSERT_NEAR(got.obs.as<float>()[tr.obs_size * t + i], want, 1e-6 * std::max(1.0f, std::abs(want))) << t;
        }
      }
    });
  }
}

}  // namespace
