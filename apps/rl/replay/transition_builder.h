// TransitionBuilder: steps of a batch of environments in, n-step transitions (samples/transitions.h) out.
//
//   add(step) ... ──▶ rows() ──▶ take()
//
// Each environment has a window of its last steps, at most n. A step that fills it completes the transition of its
// oldest step; the end of an episode completes those of all of them, the later ones with shorter windows.
//
// A plain class: no threads, no runtime. One thread at a time.
//
// Invariants
//   TRB-1  Sums and discounts are those of n_step_return (DQ-1). A truncation bootstraps from the true last
//          observation: with kSameStep from the ends' final_obs.
//   TRB-2  Every step of an episode that ended is the start of exactly one transition; transitions of one environment
//          come in the order of their starts, those of one step in the order of the environments.
//   TRB-3  A row that is_reset is no transition. A window that is open then, or dropped, gives none.
//   TRB-4  save() and restore() carry open windows and transitions that nobody has taken, bit for bit.
//   TRB-5  With a mask, next_mask says what was allowed at next_obs: with kSameStep from the ends' final_mask. Behind a
//          termination, which does not bootstrap, everything is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/state/state_dict.h"
#include "apps/rl/samples/transitions.h"

namespace rl {

struct TransitionOptions {
  Space observation_space = {}, action_space = {};
  std::size_t num_envs = 1;
  std::size_t n_step = 1;
  double gamma = 0.99;
  std::size_t mask_width = 0;  // choices of an environment that masks actions; 0: it does not
};

/// One step of all environments; a row each.
struct PlayedStep {
  ConstRows obs, action;  // what was seen, what was done
  std::span<const double> reward;
  std::span<const std::uint8_t> terminated, truncated, is_reset;
  ConstRows next_obs;  // as BatchEnv::step gave it
  EpisodeEnds ends;    // as BatchEnv::ends gave it
  std::span<const std::uint8_t> next_mask = {};  // as BatchEnv::action_mask gives it now
};

class TransitionBuilder {
 public:
  /// Throws InvalidArgumentError for no environments, no steps, or a gamma outside [0, 1].
  explicit TransitionBuilder(const TransitionOptions& options);

  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  /// InvalidArgumentError, thrown, for rows of other spaces or another number of environments; nothing has changed
  /// then.
  void add(const PlayedStep& step);
  /// Ends the window of an environment as a truncation that showed `obs` would: the good part of an episode that an
  /// environment's fault ended. `mask`: what was allowed there.
  void cut(std::size_t env, ConstRows obs, std::span<const std::uint8_t> mask = {});
  /// Forgets the window of an environment.
  void drop(std::size_t env);

  /// Transitions that are complete and not yet taken.
  [[nodiscard]] std::size_t rows() const { return reward_.size(); }
  /// Writes them to a batch of columns() and rows().
  void take(const SampleLayout& layout, std::byte* memory);
  [[nodiscard]] OwnedSamples take();

  [[nodiscard]] StateDict save() const;
  /// SerializationError when it is the state of something else; nothing has changed then.
  void restore(const StateDict& state);

 private:
  enum class End { kNone, kTerminated, kTruncated };
  /// What a window ended with.
  struct Last {
    ConstRows obs;
    std::span<const std::uint8_t> mask;
  };
  void check(const PlayedStep& step) const;
  void check_masks(const PlayedStep& step) const;
  void push(std::size_t env, ConstRows obs, ConstRows action, double reward);
  void complete_oldest(std::size_t env, End end, const Last& last);
  void complete_all(std::size_t env, End end, const Last& last);
  void complete_mask(std::size_t env, End end, std::span<const std::uint8_t> mask);

  TransitionOptions options_;
  std::vector<Column> columns_;
  std::size_t obs_bytes_, action_bytes_;
  // Windows: n places an environment, used in a ring.
  std::vector<std::uint8_t> window_obs_, window_action_;
  std::vector<double> window_reward_;
  std::vector<std::int64_t> first_, count_;
  // Complete ones.
  std::vector<std::uint8_t> obs_, action_, next_obs_, next_mask_;
  std::vector<float> reward_, discount_;
  // Of one window, oldest first.
  std::vector<double> rewards_;
  std::vector<std::uint8_t> terminated_, truncated_;
};

}  // namespace rl
