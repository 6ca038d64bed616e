// SlotsVectorEnv: a batch of things that are one environment each, stepped one after the other. It owns counts of
// steps, returns, automatic reset, time limit and ends of episodes; a Slot owns its environment and its random stream:
//
//   struct Slot {
//     void seed(std::uint64_t seed);                          // begins the stream; begin() follows
//     void begin();                                           // an episode
//     void check(ConstRows actions, std::size_t row) const;   // BE-6: raises for an action that is none
//     StepOutcome step(ConstRows actions, std::size_t row);   // a checked one
//     void observe(Rows row) const;
//     void visit(StateVisitor& visitor);                      // BE-8; a Slot without it cannot be saved
//     void mask(std::span<std::uint8_t> allowed) const;       // BE-9: a byte a choice; a Slot without it allows all
//   };
//
// One thread at a time. Promises: BE-1 to BE-7 of batch_env.h.
//
//   SVE-1  An exception from an environment's step costs that episode (BE-7); one from the first step of an episode
//          goes to the caller: an environment that always throws ends training instead of beginning anew for ever.
//   SVE-2  An action that is none changes nothing: all are looked at before the first environment is stepped.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/env.h"

namespace rl {

/// BE-6: raises unless it is one of 0, ..., choices - 1.
inline void check_choice(std::int64_t choice, std::int64_t choices, std::size_t env, std::string_view id) {
  if (choice >= 0 && choice < choices) return;
  troupe::InvalidArgumentError(
      fmt::format("environment {} of {}: action {} is not in Discrete({})", env, id, choice, choices))
      .raise();
}

template <class Slot>
class SlotsVectorEnv : public BatchEnv {
 public:
  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return slots_.size(); }

  void reset(std::span<const std::uint64_t> seeds) override {
    if (seeds.size() != slots_.size())
      troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), slots_.size())).raise();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].seed(seeds[i]);
      begin_episode(i);
    }
    clear();
  }

  void reset_one(std::size_t env) override {
    if (env >= size())
      troupe::InvalidArgumentError(fmt::format("no environment {} of {} of {}", env, size(), specs_.id)).raise();
    begin_episode(env);
  }

  void observe(Rows obs) const override {
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].observe(obs.row(i));
  }

  void step(ConstRows actions, const StepOut& out) override {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (!episodes_[i].ended) slots_[i].check(actions, i);  // SVE-2
    clear();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      out.is_reset[i] = 0;
      if (!episodes_[i].ended) {
        step_slot(i, actions, out);
        continue;
      }
      if (auto_reset_ == AutoReset::kDisabled)
        troupe::InvalidArgumentError(fmt::format("environment {} of {} has ended: reset it", i, specs_.id)).raise();
      begin_episode(i);  // BE-3
      out.is_reset[i] = 1;
      out.reward[i] = 0;
      out.terminated[i] = out.truncated[i] = 0;
      slots_[i].observe(out.obs.row(i));
    }
  }

  [[nodiscard]] EpisodeEnds ends() const override {
    const std::size_t kept = auto_reset_ == AutoReset::kSameStep ? ended_.size() : 0;
    return {ended_, returns_, lengths_, final_obs_.view().slice(0, kept),
            std::span(final_mask_).first(kept * mask_width_)};
  }
  [[nodiscard]] std::span<const std::uint8_t> action_mask() const override {
    if constexpr (kMasks) {
      for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].mask(mask_of(mask_, i));
    }
    return mask_;
  }
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }
  bool visit(StateVisitor& visitor) override {
    if constexpr (requires(Slot& slot) { slot.visit(visitor); }) {
      visitor.is("env", specs_.id);
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        StateVisitor inside = visitor.inside(std::to_string(i));
        inside.one("steps", episodes_[i].steps), inside.one("return", episodes_[i].episode_return);
        inside.one("ended", episodes_[i].ended);
        slots_[i].visit(inside);
      }
      return true;
    } else {
      return false;
    }
  }

 protected:
  SlotsVectorEnv(std::vector<Slot> slots, EnvSpecs specs, AutoReset auto_reset)
      : slots_(std::move(slots)),
        episodes_(slots_.size()),
        auto_reset_(auto_reset),
        specs_(std::move(specs)),
        final_obs_(specs_.observation_space, slots_.size()),
        mask_width_(kMasks ? choices_of(specs_.action_space) : 0),
        mask_(slots_.size() * mask_width_),
        final_mask_(mask_.size()) {
    specs_.masks_actions = kMasks;
  }

  [[nodiscard]] const Slot& slot(std::size_t index) const { return slots_[index]; }

 private:
  static constexpr bool kMasks =
      requires(const Slot& slot, std::span<std::uint8_t> allowed) { slot.mask(allowed); };

  struct Episode {
    std::int64_t steps = 0;
    double episode_return = 0;
    bool ended = false;
  };

  void clear() { ended_.clear(), returns_.clear(), lengths_.clear(), faults_.clear(); }

  [[nodiscard]] std::span<std::uint8_t> mask_of(std::vector<std::uint8_t>& masks, std::size_t row) const {
    return std::span(masks).subspan(row * mask_width_, mask_width_);
  }

  void begin_episode(std::size_t index) {
    slots_[index].begin();
    episodes_[index] = {};
  }

  void step_slot(std::size_t index, ConstRows actions, const StepOut& out) {
    Episode& episode = episodes_[index];
    StepOutcome outcome{};
    try {
      outcome = slots_[index].step(actions, index);
    } catch (const std::exception& error) {
      if (episode.steps == 0) throw;  // SVE-1
      return broke_off(index, error.what(), out);
    }
    ++episode.steps;
    episode.episode_return += outcome.reward;
    out.reward[index] = outcome.reward;
    out.terminated[index] = outcome.terminated;
    out.truncated[index] = specs_.max_episode_steps && episode.steps >= *specs_.max_episode_steps;
    if (outcome.terminated || out.truncated[index] != 0) episode_ended(index);
    slots_[index].observe(out.obs.row(index));
  }

  /// BE-7. Its stream goes on: the next episode is none that it has had.
  void broke_off(std::size_t index, std::string what, const StepOut& out) {
    faults_.push_back({.env = static_cast<std::uint32_t>(index),
                       .kind = FaultKind::kThrew,
                       .partial_return = episodes_[index].episode_return,
                       .length = episodes_[index].steps,
                       .what = std::move(what)});
    begin_episode(index);
    out.reward[index] = 0;
    out.terminated[index] = out.truncated[index] = 0;
    out.is_reset[index] = 1;
    slots_[index].observe(out.obs.row(index));
  }

  void episode_ended(std::size_t index) {
    Episode& episode = episodes_[index];
    ended_.push_back(static_cast<std::uint32_t>(index));
    returns_.push_back(episode.episode_return);
    lengths_.push_back(episode.steps);
    if (auto_reset_ != AutoReset::kSameStep) {
      episode.ended = true;
      return;
    }
    slots_[index].observe(final_obs_.view().row(ended_.size() - 1));  // BE-2
    if constexpr (kMasks) slots_[index].mask(mask_of(final_mask_, ended_.size() - 1));
    begin_episode(index);
  }

  std::vector<Slot> slots_;
  std::vector<Episode> episodes_;
  AutoReset auto_reset_;
  EnvSpecs specs_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_;  // of those in ended_, in their order
  std::vector<Fault> faults_;
  std::size_t mask_width_;                  // 0: every choice is allowed
  mutable std::vector<std::uint8_t> mask_;  // what the last call of action_mask() showed
  std::vector<std::uint8_t> final_mask_;    // of those in ended_, in their order
};

}  // namespace rl
