// Copies of a run's policy, played without exploration while training goes on, and what the run's gate says of them
// (training/gate.h). Each copy is a task of its own: training does not wait for it.
//
// Inside of troupe::run; one thread at a time.
//
// COP-1  Results reach the gate in the order in which the copies were taken.
// COP-2  The best copy so far (by its first mean; of equals the first) is kept as a policy file. A run that goes on in
//        another folder takes that of its checkpoint's folder along; where it is gone, the best of those to come is
//        kept.
// COP-3  The copy that plays again is kept as a policy file of its own, beside the best: a run that goes on from
//        between the two looks takes the second one from it. Where it is gone, or another run's, the gate is open.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <optional>

#include <troupe/troupe.h>

#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/training/gate.h"

namespace rl {

struct CopiesOptions {
  GateOptions gate = {};
  std::size_t episodes = 100;
  std::filesystem::path best;  // where the best one is kept
};

class Copies {
 public:
  /// Called with every result, in order; `again`: of the second look.
  using OnResult = std::function<void(const CopyResult& result, bool again)>;

  Copies(const CopiesOptions& options, OnResult on_result)
      : options_(options), gate_(options.gate), on_result_(std::move(on_result)) {}

  /// After each round. `policy` is called when a copy is to be taken.
  void after_round(std::int64_t steps, const std::function<Policy()>& policy);
  /// Waits for all that are being played, for so long. CancelledError on Ctrl-C.
  void finish(troupe::Duration patience = troupe::kForever);
  /// As a copy's first look; it counts for nothing.
  [[nodiscard]] Evaluation play_now(const Policy& policy) const { return troupe::get(play(policy, kGateSeeds)); }

  [[nodiscard]] const Gate& gate() const { return gate_; }
  /// `spec`: of the policy that goes on. `beside`: where the best copy may lie, if not where it is kept.
  void restore(std::vector<CopyResult> copies, std::optional<CopyResult> again, const AnyPolicySpec& spec,
               const std::filesystem::path& beside);
  /// That of the file; none: no best copy is kept.
  [[nodiscard]] std::optional<double> best_mean() const { return best_mean_; }

 private:
  struct Played {
    Policy policy;
    troupe::ObjectRef<Evaluation> result;
  };
  [[nodiscard]] static std::filesystem::path gate_file(const std::filesystem::path& best);
  void read_those_that_are_ready();
  void take(Played played, const Evaluation& evaluation);
  [[nodiscard]] troupe::ObjectRef<Evaluation> play(const Policy& policy, std::uint64_t seed) const;

  CopiesOptions options_;
  Gate gate_;
  OnResult on_result_;
  std::deque<Played> first_looks_;
  std::optional<Played> second_look_;
  std::optional<double> best_mean_;
};

}  // namespace rl
