// Commits: the state of a run in the memory of its ranks, from which survivors go on when one of them is killed.
//
// A rank keeps two generations, in plain memory. Each holds the parameters, the own moments, and with ZeRO-1 also those
// of the rank before it in the ring, so that the loss of one rank loses nothing.
//
//   empty --- begin: copy own state ---> incomplete --- shard of rank r-1 received ---> complete
//                                         ^------------------- begin ----------------------'
//
// Invariants
//   CO-1  A commit is named by (step, epoch of its group). Complete generations of the same name hold the same run at
//         the same step, on whichever ranks they are.
//   CO-2  A new commit overwrites the generation that is not the newest complete one of this rank: at every moment,
//         also in the middle of a commit, the newest commit that all ranks had completed is still there.
//         That one rank has completed a commit says nothing of the others before the next reduction of all.
//   CO-3  Survivors choose the newest commit of which the parameters and every shard are in some survivor's memory. All
//         see the same headers and choose the same one. Every commit that all of them have and whose shards are there
//         qualifies.
// Thread rule: one thread an object; choose_commit is pure.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/train/trainer/trainer.h"

namespace troupe::train {

struct CommitName {
  std::int64_t step = -1, epoch = -1;
  friend auto operator<=>(const CommitName&, const CommitName&) = default;
};

/// What a rank says of one of its generations; all fields are int64, so that they travel as an array.
struct CommitHeader {
  std::int64_t complete = 0, step = -1, epoch = -1, ranks = 0, rank = -1;
  CommitName name() const { return {step, epoch}; }
};
inline constexpr std::size_t kGenerations = 2;
inline constexpr std::size_t kHeaderNumbers = 5;
/// Of one rank: has it ever trained, its generations, is it to begin with a checkpoint where nothing else is left, and
/// the step of the newest checkpoint in the folder as it sees it (-1: none), since ranks on different nodes may have
/// different disks.
struct RankHeader {
  std::int64_t trained = 0;
  std::array<CommitHeader, kGenerations> generations{};
  std::int64_t resumes = 0;
  std::int64_t on_disk = -1;
};
static_assert(sizeof(RankHeader) == (3 + kGenerations * kHeaderNumbers) * sizeof(std::int64_t));

/// The ranks that are to read a checkpoint, in the order in which they try: one for each step that some rank has on its
/// disk, the newest step first, of several ranks the lowest.
std::vector<int> checkpoint_readers(std::span<const RankHeader> headers);

struct CommitChoice {
  CommitName name;
  int ranks = 0;             ///< of the group that made it
  int parameters = -1;       ///< the rank, of the new group, that has the parameters
  bool all_have_it = false;  ///< nobody needs the parameters sent
  std::vector<int> shards;   ///< by old rank: who, in the new group, has that shard; ZeRO-1 only
};
/// By the headers of the new group's ranks, in rank order. None: no commit is whole in what is left (CO-3).
std::optional<CommitChoice> choose_commit(std::span<const RankHeader> headers, Zero zero);

template <class T>
class Commits {
 public:
  /// All ranks call it between steps. Throws CollectiveError; the commits that were complete stay.
  void commit(Trainer<T>& trainer);
  RankHeader header(bool trained) const;
  /// All ranks of the new group, to which the trainer is bound, call it with the same choice. Throws CollectiveError;
  /// nothing that was committed is lost by that.
  void restore(Trainer<T>& trainer, const CommitChoice& choice);

 private:
  using Moments = std::array<std::vector<T>, Trainer<T>::kMoments>;
  struct Generation {
    CommitHeader header;
    std::vector<T> parameters;
    Moments own, partner;  // partner: of the rank before this one
    DivergenceWatch::State watch;
  };
  void exchange(Trainer<T>& trainer, Generation& generation);
  void restore_moments(Trainer<T>& trainer, const CommitChoice& choice, const Generation* mine);
  const Generation* find(const CommitName& name) const;
  std::array<Generation, kGenerations> generations_;
};

extern template class Commits<float>;
extern template class Commits<double>;

}  // namespace troupe::train
