// The actor that learns: a thin shell around any Learner, alone or as one of a group (loops/learner_group.h). Methods
// run one at a time.
//
// LAC-1  It is not restarted: a run without its optimizer's state would be another run. Its death ends the loop with
//        its error; the program goes on from its last checkpoint, with a new one (program/train.cc).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "apps/rl/actors/messages.h"
#include "apps/rl/config/run_config.h"

namespace rl {

/// Of a LearnerActor: with device "cuda" it holds a GPU.
[[nodiscard]] troupe::ActorOptions learner_options(const RunConfig& config);

class LearnerActor {
 public:
  /// `resumed`: the state to go on from. With device "cuda" it calculates on the GPU that the runtime has given to it;
  /// says which, and throws as learner_gpu().
  LearnerActor(const RunConfig& config, const AnyPolicySpec& policy, const std::optional<StateDict>& resumed);

  /// Puts the current parameters.
  ParamsRef publish() const { return troupe::put(fill(room())); }
  /// One update from all of them together.
  UpdateReply update(std::vector<troupe::ObjectRef<SampleBatch>> batches);
  /// One update a minibatch; a minibatch is of rows of all shards. The parameters are an object of their own: who is to
  /// play with them can be given their ref before they are there.
  std::tuple<troupe::Array<float>, UpdatesReply> update_each(std::vector<troupe::ObjectRef<DrawnBatches>> shards);
  StateDict save() const { return learner_->save(); }

  /// From now on it learns as one of this collective group; all its members then get the same calls.
  void join(std::string group);
  /// update() and update_each() of who is not asked for the result.
  void follow(std::vector<troupe::ObjectRef<SampleBatch>> batches);
  void follow_each(std::vector<troupe::ObjectRef<DrawnBatches>> shards);

 private:
  /// Memory of the store for the parameters. Taken while the learner would only wait for what it is to learn from: the
  /// runners wait for what is published after an update.
  [[nodiscard]] troupe::ArrayBuilder<float> room() const {
    return troupe::ArrayBuilder<float>(learner_->params().size());
  }
  [[nodiscard]] troupe::Array<float> fill(troupe::ArrayBuilder<float> room) const;
  UpdateReport learn(const std::vector<troupe::ObjectRef<SampleBatch>>& batches);
  UpdatesReply learn_each(const std::vector<troupe::ObjectRef<DrawnBatches>>& shards);
  /// Throws on all learners when one cannot read them (LGR-1).
  template <class T>
  std::vector<T> read(const std::vector<troupe::ObjectRef<T>>& refs) const;

  std::unique_ptr<Learner> learner_;
  Peers peers_;
};

}  // namespace rl
