// Elastic training: the loop that goes on when a rank is killed, and takes in a rank that comes.
//
//            +------------------------------------- CollectiveError -----------------------------------+
//            v                                                                                          |
//   form a group --> synchronize --> commit --> step ... step --> commit --> (checkpoint) --> newcomer? -- no --> step
//      ^                 |                                                                        |
//      |                 | no commit is whole                                                     | yes
//      |                 v                                                                        |
//      |            last checkpoint on disk, else the start                                       |
//      +------------------------------------------------------------------------------------------+
//
// The loop takes a Group and a way to the next one, nothing of actors: `regroup` is group(name, {.after_epoch}) in an
// actor and a new join elsewhere. A rank that comes late runs the same loop: it has no commit, and is given the
// others'.
//
// Invariants
//   EL-1  All ranks of a group take the same way through this picture: every choice is made of what all were told.
//   EL-2  After the loss of ranks training goes on from the newest commit that is whole in what is left (CO-3), with
//         the same global batches: the run ends where an undisturbed one ends, within rounding.
//   EL-3  Where shard and partner are both lost it goes on from the newest checkpoint that any rank finds on its disk,
//         and says so; without one it is an ObjectLostError.
//   EL-4  A newcomer is taken in right after a commit: nothing is done twice.
//   EL-5  A group is formed again immediately followed by a commit: the ring of partners is whole before the next step.
//   EL-6  Ranks that are lost before the first commit is whole and before any step lose nothing: the others begin, or
//         resume, as they had.
//   EL-7  A checkpoint on the way that cannot be written is told (on_warning), and training goes on; of the last one,
//         at the end or at a stop, it is the run's error.
// Thread rule: one thread a rank.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collective.h>
#include <troupe/result.h>

#include "apps/train/checkpoint/checkpoint.h"
#include "apps/train/checkpoint/commit.h"
#include "apps/train/trainer/trainer.h"

namespace troupe::train {

/// How a group came to its state.
struct Recovery {
  enum class From : std::uint8_t { kStart, kCommit, kCheckpoint };
  From from = From::kStart;
  int ranks = 0;
  std::int64_t step = 0;        ///< from which it goes on
  std::int64_t lost_steps = 0;  ///< of this rank, that are done again
  std::string why = {};         ///< the failure that came before; empty: none
  std::string text = {};        ///< one sentence for the log
};

struct ElasticOptions {
  std::int64_t total_steps = 0;
  std::int64_t commit_every = 50;     ///< steps; 0: none but after a formation
  std::int64_t checkpoint_every = 0;  ///< steps; 0: only at the end
  std::optional<FolderOptions> checkpoints = {};
  /// Begin with the newest checkpoint, if there is one. Also of a rank that comes to a run under way: where nobody that
  /// has trained is left and no folder was named, that is an ObjectLostError, not a new beginning.
  bool resume = false;
  int failures_max = 100;  ///< formations after a failure, before it gives up

  /// The next group after `group` has failed, or is left for newcomers; throws or returns what went wrong. It waits,
  /// with a deadline of its own, and may return a group that has failed already.
  std::function<Result<collective::Group>(const collective::Group& group)> regroup = {};
  /// Asked of rank 0 after each commit: is there a newcomer, for whom the group is to be formed again?
  std::function<bool()> newcomer = {};
  std::function<void(const StepMetrics&)> on_step = {};  ///< after each step
  /// Before a checkpoint, on all ranks: its score, lower is better (for example a validation loss).
  std::function<std::optional<double>()> score = {};
  std::function<void(const Recovery&)> on_recovery = {};  ///< also at the start
  /// on all ranks: what went wrong, and training goes on (EL-7)
  std::function<void(const std::string&)> on_warning = {};
  /// asked of rank 0 before each step (Ctrl-C): all ranks stop after it, with a checkpoint
  std::function<bool()> stop = {};
};

struct ElasticOutcome {
  std::int64_t steps = 0;
  bool stopped = false;
  std::vector<Recovery> recoveries = {};
};

/// Runs until total_steps. Errors: DivergedError (after a checkpoint), ObjectLostError (EL-3), CollectiveError when no
/// group can be formed any more, and those of checkpoint files.
template <class T>
class ElasticRun {
 public:
  ElasticRun(Trainer<T>& trainer, ElasticOptions options) : trainer_(&trainer), options_(std::move(options)) {
    if (options_.checkpoints) folder_.emplace(*options_.checkpoints);
  }
  Result<ElasticOutcome> run(collective::Group group);

 private:
  enum class Next : std::uint8_t { kDone, kRegroup };
  Result<Next> run_in(collective::Group group);
  Status synchronize();
  Status from_disk(bool lost, const std::vector<RankHeader>& headers);
  Result<Snapshot<T>> load(bool lost, std::vector<std::string>& passed_over) const;
  Result<Next> train();
  Status checkpoint(bool scored);
  void warn(const std::string& text) const;
  ErrorPtr stopped_with_checkpoint(const DivergedError& diverged);
  std::int64_t ask(std::int64_t answer);
  void report(Recovery::From from, const std::string& text);
  bool is_due(std::int64_t every) const { return every > 0 && trainer_->steps_done() % every == 0; }

  Trainer<T>* trainer_;
  ElasticOptions options_;
  std::optional<CheckpointFolder> folder_;
  Commits<T> commits_;
  ElasticOutcome outcome_;
  std::int64_t reached_ = 0;  // steps that this rank has done, undone ones included
  std::string why_;
  bool trained_ = false;  // has more than a start or a resumption would give
};

extern template class ElasticRun<float>;
extern template class ElasticRun<double>;

}  // namespace troupe::train
