// Steps of Gymnasium's environments by two Python processes with four each, from one thread: what bench/rl_gym.py runs
// in turns with Gymnasium's own vector environments.
//
//   bench_rl_gym PYTHON ID IMPORT SECONDS      prints environment steps a second; IMPORT may be empty
//
// Actions are drawn beforehand; observations, flags and resets are included. Ended environments begin anew in the next
// step, as Gymnasium's do by default.
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/gym/gym_env.h"
#include "bench/harness.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kProcesses = 2, kEnvs = 4, kBatches = 64;

struct Side {
  std::unique_ptr<rl::GymEnv> env;
  rl::StepBuffers out;
  std::vector<rl::OwnedRows> actions = {};

  explicit Side(std::unique_ptr<rl::GymEnv> made) : env(std::move(made)), out(*env) {}
  void receive() {
    env->receive(out.out());
    if (!env->faults().empty()) throw std::runtime_error("a process failed");
  }
};

std::vector<Side> make_sides(const char* python, const char* id, const char* import) {
  rl::Generator random(2);
  std::vector<Side> sides;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    Side& side = sides.emplace_back(rl::GymEnv::make(id, {.num_envs = kEnvs,
                                                          .auto_reset = rl::AutoReset::kNextStep,
                                                          .gym = {.python = python, .gym_import = import}})
                                        .value());
    std::array<std::uint64_t, kEnvs> seeds{};
    std::iota(seeds.begin(), seeds.end(), 1 + i * kEnvs);
    side.env->reset(seeds);
    const auto* choice = std::get_if<rl::Discrete>(&side.env->specs().action_space);
    if (choice == nullptr) throw std::runtime_error(std::string(id) + ": its actions are no choices");
    for (std::size_t k = 0; k < kBatches; ++k)
      for (std::int64_t& one :
           side.actions.emplace_back(side.env->specs().action_space, kEnvs).as<std::int64_t>())
        one = choice->start + random.integers(static_cast<std::uint32_t>(choice->n));
  }
  return sides;
}

/// Rounds for about that long: steps a second. Each side gets its next actions as soon as its results are read, as a
/// runner does that samples for one side while the other one steps.
double rate(std::vector<Side>& sides, double seconds) {
  const auto start = Clock::now();
  double elapsed = 0;
  std::size_t rounds = 0;
  for (Side& side : sides) side.env->send(side.actions[0].view());
  while (elapsed < seconds) {
    ++rounds;
    for (Side& side : sides) {
      side.receive();
      side.env->send(side.actions[rounds % kBatches].view());
    }
    elapsed = seconds_since(start);
  }
  for (Side& side : sides) side.receive();  // not counted
  return static_cast<double>(rounds * kProcesses * kEnvs) / elapsed;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s PYTHON ID IMPORT SECONDS\n", argv[0]);
    return 2;
  }
  auto sides = troupe::bench::make_sides(argv[1], argv[2], argv[3]);
  const double seconds = std::stod(argv[4]);
  (void)troupe::bench::rate(sides, seconds / 4);
  std::printf("%.6g\n", troupe::bench::rate(sides, seconds));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
