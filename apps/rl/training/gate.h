// Gate: whether a run's policy, played without exploration, is good enough, on episodes that nothing else has seen.
//
// Every so many steps a copy of the policy plays `episodes` episodes. The first copy whose mean reaches the threshold
// plays as many again, on other seeds, and that decides: nothing is tried until it works.
//
//   kOpen ── a copy's mean reaches the threshold ──▶ kAgain ── its second mean does, too ──▶ kPassed
//                                                      └────── it does not ───────────────▶ kFailed
//
// Pure: who has the runtime plays the copies. A plain value; stored in checkpoints whole.
//
// GAT-1  Copies are taken at the first round that ends at or behind each multiple of `every` steps; of several
//        multiples in one round there is one copy.
// GAT-2  Results count in the order of the copies, whichever comes first.
// GAT-3  The seeds of both looks are above those that any training takes for its environments (kGateSeeds), and the
//        second's are not the first's.
// GAT-4  The last round may end behind the steps that a run has: what is learned there comes too late for the gate.
// GAT-5  A run that goes on from between the two looks has the second one to come, where the copy is still there
//        (await): no other one takes its place. Else none has reached the threshold yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rl {

inline constexpr std::uint64_t kGateSeeds = 1'500'000'000, kGateSeedsAgain = 1'600'000'000;

struct GateOptions {
  std::int64_t every = 0;  // steps; 0: there are no copies
  std::optional<double> threshold = {};  // none: copies are played, and nothing is decided
  std::optional<std::int64_t> until = {};  // steps; a later copy decides nothing (GAT-4)
};

struct CopyResult {
  std::int64_t steps = 0;
  double mean = 0, deviation = 0;
  friend bool operator==(const CopyResult&, const CopyResult&) = default;
};

enum class GateState : std::uint8_t { kOpen, kAgain, kPassed, kFailed };

class Gate {
 public:
  Gate() = default;
  explicit Gate(const GateOptions& options) : options_(options) {}

  /// Whether a copy is to be taken now; asked once a round.
  [[nodiscard]] bool wants_copy(std::int64_t steps);
  /// What the next copy in order has played. True: it has to play again, on kGateSeedsAgain.
  bool add(const CopyResult& result);
  /// What it has played then.
  void add_again(const CopyResult& result);

  [[nodiscard]] GateState state() const { return state_; }
  [[nodiscard]] const std::vector<CopyResult>& copies() const { return copies_; }
  /// Of the copy that reached the threshold; none: none has.
  [[nodiscard]] const std::optional<CopyResult>& again() const { return again_; }
  [[nodiscard]] const GateOptions& options() const { return options_; }

  /// Of a run that goes on from a checkpoint: what was decided before.
  void restore(std::vector<CopyResult> copies, std::optional<CopyResult> again);
  /// After restore(): this copy, of which a first look is known, plays again. False: it is none that decides, or that
  /// is over.
  bool await(const CopyResult& first);

 private:
  [[nodiscard]] bool reaches(double mean) const { return options_.threshold && mean >= *options_.threshold; }
  [[nodiscard]] bool decides(const CopyResult& copy) const {
    return reaches(copy.mean) && (!options_.until || copy.steps <= *options_.until);
  }

  GateOptions options_ = {};
  GateState state_ = GateState::kOpen;
  std::int64_t taken_ = 0;  // multiples of `every` that have had their copy
  std::vector<CopyResult> copies_ = {};
  std::optional<CopyResult> again_ = {};
};

}  // namespace rl
