// `rl` with an environment whose numbers diverge, for diverging_test.py.
//
//   rl_diverging_env train --env Diverging-v0 --env-kwargs '{"in": "reward", "step": 700}'
//
// Every step gives 1, an episode has 10 steps; in the step of that number, counted from the seed, the environment whose
// seed is even gives NaN: in the reward, the observation, or (10, 20, ...) its episode's "last" observation.
#include <limits>
#include <string>

#include <troupe/troupe.h>

#include "apps/rl/envs/batch_of.h"
#include "apps/rl/program/program.h"

namespace {

constexpr int kEpisode = 10;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Diverging {
 public:
  Diverging(std::string where, std::int64_t step) : where_(std::move(where)), bad_(step) {}

  void seed(std::uint64_t seed) { diverges_ = seed % 2 == 0, steps_ = 0; }
  void begin() { begun_ = true; }
  void check(rl::ConstRows, std::size_t) const {}
  rl::StepOutcome step(rl::ConstRows, std::size_t) {
    ++steps_, begun_ = false;
    return {.reward = now("reward") ? kNan : 1, .terminated = false};
  }
  void observe(rl::Rows row) const {
    // The episode's last observation is seen before the next one begins.
    const bool bad = now("observation") || (now("last") && !begun_) || (where_ == "first" && diverges_);
    row.as<float>()[0] = static_cast<float>(bad ? kNan : 0.5);
  }
  /// So that its runners can be saved.
  void visit(rl::StateVisitor& visitor) {
    visitor.one("steps", steps_), visitor.one("diverges", diverges_), visitor.one("begun", begun_);
  }

 private:
  [[nodiscard]] bool now(const char* where) const { return diverges_ && where_ == where && steps_ == bad_; }

  std::string where_;
  std::int64_t bad_, steps_ = 0;
  bool diverges_ = false, begun_ = false;
};

troupe::Result<std::unique_ptr<rl::BatchEnv>> make_diverging(std::string_view, const rl::BatchEnvOptions& options) {
  const std::string where(options.kwargs.at("in").as_string());
  const bool chooses = !options.kwargs.contains("box");
  return rl::batch_of(Diverging(where, options.kwargs.at("step").as_int64()),
                      {.id = "Diverging-v0",
                       .observation_space = rl::Box{.shape = {1}, .low = {0}, .high = {1}},
                       .action_space = chooses ? rl::Space(rl::Discrete{.n = 2})
                                               : rl::Space(rl::Box{.shape = {1}, .low = {-1}, .high = {1}}),
                       .max_episode_steps = kEpisode,
                       .reward_threshold = std::nullopt},
                      options);
}

int driver(std::span<char* const> arguments) { return rl::run_program(rl::Program::kRl, arguments); }

}  // namespace

int main(int argc, char** argv) {
  rl::register_env("Diverging-v0", &make_diverging).value();
  return troupe::run(argc, argv, &driver);
}
