// Gates: an environment for tests whose mask changes with every step, at random, and is not seen in its observations.
// The highest choice that is allowed is the best; a forbidden one is an error that ends whoever took it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/rl/envs/batch_of.h"

namespace gates {

inline constexpr int kSteps = 20;  // the time limit

class Gates {
 public:
  /// Choices of each place of an action. `closes`: at this step of an episode nothing is allowed.
  explicit Gates(std::vector<std::int64_t> nvec, int closes = -1) : nvec_(std::move(nvec)), closes_(closes) {}

  void seed(std::uint64_t seed) { random_ = rl::Generator(seed); }
  void begin() {
    steps_ = 0;
    ends_ = 10 + static_cast<int>(random_.integers(20u));
    open();
  }
  void check(rl::ConstRows actions, std::size_t row) const {
    std::size_t first = 0;
    for (std::size_t place = 0; place < nvec_.size(); ++place) {
      const std::int64_t choice = actions.as<std::int64_t>()[row * nvec_.size() + place];
      rl::check_choice(choice, nvec_[place], row, "Gates-v0");
      if (allowed_[first + static_cast<std::size_t>(choice)] == 0)
        troupe::InvalidArgumentError(fmt::format("environment {}: choice {} is forbidden", row, choice)).raise();
      first += static_cast<std::size_t>(nvec_[place]);
    }
  }
  /// The share of places where the best was taken.
  rl::StepOutcome step(rl::ConstRows actions, std::size_t row) {
    double right = 0;
    std::size_t first = 0;
    for (std::size_t place = 0; place < nvec_.size(); ++place) {
      const auto n = static_cast<std::size_t>(nvec_[place]);
      std::size_t best = n - 1;
      while (allowed_[first + best] == 0) --best;
      right += actions.as<std::int64_t>()[row * nvec_.size() + place] == static_cast<std::int64_t>(best) ? 1 : 0;
      first += n;
    }
    ++steps_;
    open();
    return {.reward = right / static_cast<double>(nvec_.size()), .terminated = steps_ >= ends_};
  }
  void observe(rl::Rows row) const {
    row.as<float>()[0] = static_cast<float>(steps_) / kSteps;
    row.as<float>()[1] = 1;
  }
  void mask(std::span<std::uint8_t> allowed) const { std::ranges::copy(allowed_, allowed.begin()); }

 private:
  void open() {
    allowed_.clear();
    for (const std::int64_t n : nvec_) {
      std::uint32_t bits = 1 + random_.integers((1u << n) - 1);
      if (steps_ == closes_) bits = 0;
      for (std::int64_t i = 0; i < n; ++i) allowed_.push_back(static_cast<std::uint8_t>(bits >> i & 1));
    }
  }

  std::vector<std::int64_t> nvec_;
  int closes_, steps_ = 0, ends_ = 0;
  std::vector<std::uint8_t> allowed_;
  rl::Generator random_{0};
};

inline rl::EnvSpecs specs(const char* id, const std::vector<std::int64_t>& nvec) {
  rl::Space actions = rl::MultiDiscrete{.nvec = nvec};
  if (nvec.size() == 1) actions = rl::Discrete{.n = nvec[0]};
  return {.id = id,
          .observation_space = rl::Box{.shape = {2}, .low = {0}, .high = {2}},
          .action_space = std::move(actions),
          .max_episode_steps = kSteps,
          .reward_threshold = {}};
}

/// Gates-v0: one of 4. Gates2-v0: one of 2 and one of 3. Closed-v0: as the first, and allows nothing at step 7 of an
/// episode. Once a program.
inline void register_all() {
  const auto add = [](const char* id, std::vector<std::int64_t> nvec, int closes) {
    rl::register_env(id, [=](std::string_view, const rl::BatchEnvOptions& options)
                             -> troupe::Result<std::unique_ptr<rl::BatchEnv>> {
      return rl::batch_of(Gates(nvec, closes), specs(id, nvec), options);
    }).value();
  };
  add("Gates-v0", {4}, -1), add("Gates2-v0", {2, 3}, -1), add("Closed-v0", {4}, 7);
}

}  // namespace gates
