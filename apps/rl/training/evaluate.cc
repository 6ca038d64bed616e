#include "apps/rl/training/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/training/statistics.h"

namespace rl {
namespace {

// So many episodes are played beside each other.
constexpr std::size_t kTogether = 16;
constexpr int kMostBrokenOff = 100;  // before the first episode of an environment has ended

/// Plays a few episodes at once, each with a seed of its own.
class Examiner {
 public:
  Examiner(const Policy& policy, MadeEnv made)
      : policy_(policy),
        made_(std::move(made)),
        player_(make_player(policy.spec)),
        step_(made_.env()),
        actions_(action_space_of(policy.spec), made_.env().size()) {}

  /// The first episodes of the first `count` environments.
  std::vector<double> play(std::uint64_t first_seed, std::size_t count) {
    std::vector<std::uint64_t> seeds(made_.env().size());
    std::iota(seeds.begin(), seeds.end(), first_seed);
    std::vector<double> returns(count);
    std::vector<std::uint8_t> ended(seeds.size());
    std::vector<int> faults(seeds.size());
    std::fill(ended.begin() + static_cast<std::ptrdiff_t>(count), ended.end(), 1);
    made_.env().reset(seeds);
    made_.env().observe(step_.obs.view());
    for (std::size_t left = count; left > 0;) {
      player_->best(policy_.params, {std::as_const(step_.obs).view(), made_.action_mask()}, actions_.view());
      made_.env().step(std::as_const(actions_).view(), step_.out());
      for (const Fault& fault : made_.env().faults())
        if (ended[fault.env] == 0 && ++faults[fault.env] >= kMostBrokenOff)
          troupe::RuntimeEnvError(fmt::format("{} has broken off {} episodes in a row: {}", policy_.env.id,
                                              kMostBrokenOff, fault.what))
              .raise();
      const EpisodeEnds ends = made_.env().ends();
      for (std::size_t k = 0; k < ends.env.size(); ++k) {
        const std::uint32_t env = ends.env[k];
        if (ended[env] != 0) continue;  // it plays on until the others have ended
        ended[env] = 1;
        returns[env] = ends.returns[k];
        --left;
      }
    }
    return returns;
  }

 private:
  const Policy& policy_;
  MadeEnv made_;
  std::unique_ptr<Player> player_;
  StepBuffers step_;
  OwnedRows actions_;
};

}  // namespace

double interquartile_mean(const Evaluation& evaluation) {
  return aggregate(Aggregate::kInterquartileMean,
                   {.runs = evaluation.returns.size(), .tasks = 1, .values = evaluation.returns});
}

troupe::Result<Evaluation> evaluate(const Policy& policy, const EvaluateOptions& options) {
  if (troupe::Status checked = check_policy(policy.spec); !checked.ok()) return checked.error_ptr();
  const std::size_t together = std::clamp<std::size_t>(options.episodes, 1, kTogether);
  auto made = MadeEnv::make(policy.env, {.num_envs = together, .frozen = true,
                                          .clip_action = !keeps_bounds(policy.spec), .masks = true});
  if (!made.ok()) return made.error_ptr();
  if (troupe::Status fits = check_fits(policy, *made); !fits.ok()) return fits.error_ptr();
  made->sync(policy.moments);
  Examiner examiner(policy, std::move(*made));
  Evaluation out;
  while (out.returns.size() < options.episodes) {
    const std::size_t count = std::min(together, options.episodes - out.returns.size());
    const std::vector<double> returns = examiner.play(options.seed + out.returns.size(), count);
    out.returns.insert(out.returns.end(), returns.begin(), returns.end());
  }
  const auto count = static_cast<double>(std::max<std::size_t>(out.returns.size(), 1));
  out.mean = std::accumulate(out.returns.begin(), out.returns.end(), 0.0) / count;
  double squares = 0;
  for (double r : out.returns) squares += (r - out.mean) * (r - out.mean);
  out.deviation = std::sqrt(squares / count);
  return out;
}

}  // namespace rl
