// LearnerGroup: the learners of a run: one LearnerActor, or several that share every update over a collective group.
//
//   loop ──refs──▶ rank 0 ──▶ reply (parameters, metrics)
//        ──refs──▶ rank 1 … ──▶ nothing but that it is done
//
// All hold the same state (LRN-4), so whatever a loop asks for beside updates is rank 0's.
//
// One thread at a time. The group ends with the actors, which end with the last handle of each.
//
// LGR-1  An update that a learner could not begin, because it could not read what it was given, fails on all of them,
//        and none has learned from it: the loop may ask again with others.
// LGR-2  Any other failure of one learner, its death too, is the update's: a CollectiveError on the rest that names the
//        rank. No learner is restarted (LAC-1). A frozen one is waited for until the group's timeout, which is the
//        runtime's default.
// LGR-3  publish() comes before the first update. It alone may wait, for the group, so a Ctrl-C that ends the wait
//        finds no round begun.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "apps/rl/actors/learner_actor.h"

namespace rl {

class LearnerGroup {
 public:
  /// config.num_learners actors. Does not wait for them.
  LearnerGroup(const RunConfig& config, const AnyPolicySpec& policy, const std::optional<StateDict>& resumed);

  [[nodiscard]] troupe::ObjectRef<ParamsRef> publish();
  [[nodiscard]] troupe::ObjectRef<UpdateReply> update(const std::vector<troupe::ObjectRef<SampleBatch>>& batches);
  [[nodiscard]] std::tuple<ParamsRef, troupe::ObjectRef<UpdatesReply>> update_each(
      const std::vector<troupe::ObjectRef<DrawnBatches>>& shards);
  [[nodiscard]] troupe::ObjectRef<StateDict> save();

 private:
  /// Waits until the collective group is there.
  void form();
  void check_formed() const;

  std::vector<troupe::ActorHandle<LearnerActor>> learners_;
  bool formed_ = false;
};

}  // namespace rl
