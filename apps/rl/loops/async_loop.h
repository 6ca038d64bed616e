// The asynchronous loop (IMPALA): runners play on while the learner learns.
//
//   loop ──params ref, version──▶ FragmentActor × N      at most max_outstanding calls of each are under way
//     ▲                                │ fragments, whichever is ready first
//     └──params ref── LearnerActor ◀───┘ one update from fragments_per_update of them
//
// With inference actors runners send these what they see, and get actions; the parameters go the same way
// (actors/inference_actor.h). A fragment is as old as the oldest parameters that chose for it.
//
// A fragment's staleness is how many updates there were between its parameters and the update that it is for. One whose
// staleness is above max_staleness is thrown away and counted: its steps are no steps of the run.
//
// Promises: ALG-1, ALG-2 (runners begin new episodes). One thread at a time.
//
// ASL-1  A fragment is consumed once, or thrown away once: steps of the run are those of fragments that were consumed.
//        It says who gave it (FragmentId); one that comes again is thrown away and counted (FLG-1).
// ASL-2  Runners never wait for the learner while fewer than max_outstanding of their fragments are unread, and never
//        run further ahead: that is the back-pressure.
// ASL-3  Fragments that are lost with their node are thrown away, and their update is made of others: the death of a
//        node is the run's only when a learner was there. The learner's own death is, whoever meets it first (LAC-1).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/fragment_ledger.h"
#include "apps/rl/loops/learner_group.h"

namespace rl {

class AsyncLoop final : public Algorithm {
 public:
  AsyncLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  Round round() override;
  bool begun() const override { return open_.update || !open_.chosen.empty(); }
  Weights weights() override;
  troupe::Result<AlgorithmState> save(const SaveOptions& options) override;
  std::string resume_note() const override { return note_; }

 private:
  struct Fragment {
    std::size_t runner = 0;
    troupe::ObjectRef<SampleBatch> batch;
    troupe::ObjectRef<RolloutReport> report;
    std::optional<RolloutReport> seen = {};  // once it is ready; none then: it was lost
    [[nodiscard]] const FragmentId& id() const { return seen->fragment.value(); }
  };
  struct Open {
    std::vector<Fragment> chosen = {};
    std::optional<troupe::ObjectRef<UpdateReply>> update = {};
  };

  void order_from(std::size_t runner);
  /// The next one that is ready, of those that are under way.
  Fragment next_fragment();
  [[nodiscard]] bool is_wanted(const Fragment& fragment);
  void choose();
  /// ASL-3; throws `error` when that was no fragment's loss.
  void leave_out_lost_fragments(const troupe::Error& error);
  Round end(UpdateReply reply);

  RunConfig config_;
  Moments moments_;
  LearnerGroup learners_;
  std::vector<troupe::ActorHandle<InferenceActor>> inference_;  // runner i asks number i modulo their count
  std::vector<troupe::ActorHandle<FragmentActor>> runners_;
  std::optional<ParamsRef> params_;
  std::int64_t version_ = 0, thrown_away_ = 0;
  FragmentLedger taken_;
  std::deque<Fragment> under_way_;  // in the order of their calls
  Open open_;
  std::string note_;
};

}  // namespace rl
