#include "apps/rl/training/collect.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/any_policy.h"

namespace rl {
namespace {

constexpr int kMostFaults = 100;

/// Rows that grow, as bytes.
struct GrowingRows {
  std::vector<std::byte> bytes;
  void add(ConstRows row) { bytes.insert(bytes.end(), row.data(), row.data() + row.bytes()); }
};

class Collector {
 public:
  Collector(const Policy& policy, MadeEnv made)
      : policy_(policy),
        made_(std::move(made)),
        player_(make_player(policy.spec)),
        step_(made_.env()),
        actions_(action_space_of(policy.spec), 1),
        raw_(made_.innermost().specs().observation_space, 1) {}

  /// Its return.
  double episode(std::uint64_t seed) {
    made_.env().reset(std::span(&seed, 1));
    made_.env().observe(step_.obs.view());
    int faults = 0;
    for (double sum = 0;;) {
      made_.innermost().observe(raw_.view());
      const std::span<const std::uint8_t> seen = made_.action_mask();
      const std::vector<std::uint8_t> mask(seen.begin(), seen.end());
      player_->best(policy_.params, {std::as_const(step_.obs).view(), mask}, actions_.view());
      made_.env().step(std::as_const(actions_).view(), step_.out());
      if (!made_.env().faults().empty()) {  // it has begun anew, in another stream
        if (++faults >= kMostFaults)
          troupe::RuntimeEnvError(fmt::format("{} has broken off {} episodes in a row", policy_.env.id, faults))
              .raise();
        drop_open_episode();
        sum = 0;
        continue;
      }
      mask_.insert(mask_.end(), mask.begin(), mask.end());
      obs_.add(std::as_const(raw_).view()), action_.add(std::as_const(actions_).view());
      reward_.push_back(static_cast<float>(step_.reward[0]));
      terminated_.push_back(step_.terminated[0]), truncated_.push_back(step_.truncated[0]);
      sum += step_.reward[0];
      if (step_.terminated[0] != 0 || step_.truncated[0] != 0) return sum;
    }
  }

  [[nodiscard]] Demonstrations take() const {
    const EnvSpecs& specs = made_.innermost().specs();
    Demonstrations out{.env = policy_.env.id,
                       .observation_space = specs.observation_space,
                       .action_space = specs.action_space,
                       .steps = OwnedSamples(demonstration_columns(specs.observation_space, specs.action_space,
                                                                   made_.mask_width()),
                                             reward_.size())};
    const auto fill = [&](const char* name, const void* from) {
      const Rows to = out.steps.column(name);
      std::memcpy(to.data(), from, to.bytes());
    };
    fill("obs", obs_.bytes.data()), fill("action", action_.bytes.data()), fill("reward", reward_.data());
    fill("terminated", terminated_.data()), fill("truncated", truncated_.data());
    if (made_.mask_width() != 0) fill(kMaskColumn, mask_.data());
    for (std::size_t step = 0; step < reward_.size(); ++step)
      if (terminated_[step] != 0 || truncated_[step] != 0) out.ends.push_back(step + 1);
    return out;
  }

 private:
  void drop_open_episode() {
    while (!reward_.empty() && terminated_.back() == 0 && truncated_.back() == 0) {
      reward_.pop_back(), terminated_.pop_back(), truncated_.pop_back();
    }
    obs_.bytes.resize(reward_.size() * raw_.view().row_bytes());
    action_.bytes.resize(reward_.size() * actions_.view().row_bytes());
    mask_.resize(reward_.size() * made_.mask_width());
  }

  const Policy& policy_;
  MadeEnv made_;
  std::unique_ptr<Player> player_;
  StepBuffers step_;
  OwnedRows actions_, raw_;
  GrowingRows obs_, action_;
  std::vector<float> reward_;
  std::vector<std::uint8_t> terminated_, truncated_, mask_;
};

}  // namespace

troupe::Result<Demonstrations> collect(const Policy& policy, const CollectOptions& options) {
  if (troupe::Status checked = check_policy(policy.spec); !checked.ok()) return checked.error_ptr();
  auto made = MadeEnv::make(policy.env, {.num_envs = 1, .frozen = true, .clip_action = !keeps_bounds(policy.spec),
                                          .masks = true});
  if (!made.ok()) return made.error_ptr();
  if (troupe::Status fits = check_fits(policy, *made); !fits.ok()) return fits.error_ptr();
  made->sync(policy.moments);
  Collector collector(policy, std::move(*made));
  for (std::size_t i = 0; i < options.episodes; ++i) {
    const double sum = collector.episode(options.seed + i);
    if (options.on_episode) options.on_episode(i + 1, sum);
  }
  return collector.take();
}

}  // namespace rl
