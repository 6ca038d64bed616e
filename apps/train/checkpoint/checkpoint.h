// Checkpoints: the whole state of a run in one file, from which it goes on as if it had never stopped.
//
//   <folder>/step-000001500.safetensors   parameters by their names, moment.0.<name>, moment.1.<name>
//   <folder>/best.safetensors             the one with the lowest score: another name (hard link) of one such file
//
// Everything random is a function of (seed, step) (TR-6), so the step stands for the sampler's place and the
// generator's state; the file carries descriptions of sampler, schedule and optimizer, and another one is refused.
//
// Invariants
//   TCK-1  A resumed run repeats the loss curve bit for bit with the same number of ranks.
//   TCK-2  Files appear whole or not at all (TST-1); older ones go only after the newer one is safe. Of what is kept,
//          the last `keep_last` and the best survive.
//   TCK-3  A damaged or foreign newest file is not the end: the newest good one is taken, and what is passed over is
//          told, with the reason. Good: whole, of this run's model and setting, and of the step that its name says.
//   TCK-4  Only good files count as kept, and only good ones are removed: what is damaged, foreign or later than the
//          one just saved neither goes nor makes a good one go.
// Thread rule: one rank writes a folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/train/trainer/trainer.h"

namespace troupe::train {

/// A run's state, unsharded.
template <class T>
struct Snapshot {
  std::int64_t step = 0;
  std::vector<T> parameters = {};
  std::array<std::vector<T>, Trainer<T>::kMoments> moments =
      {};  ///< flat, of parameter_count elements; empty where unused
  DivergenceWatch::State watch = {};
  std::map<std::string, std::string> words = {};  ///< the caller's own: model, data, ...
};

/// What of a run may not change between a checkpoint and its resumption, as words.
template <class T>
std::map<std::string, std::string> setting_of(const Trainer<T>& trainer);

template <class T>
Status save_snapshot(const std::filesystem::path& path, const Layout& layout, const Snapshot<T>& snapshot,
                     const std::map<std::string, std::string>& setting);
/// InvalidArgumentError when the file is of another model or setting (and names what differs); else as TST-2.
template <class T>
Result<Snapshot<T>> load_snapshot(const std::filesystem::path& path, const Layout& layout,
                                  const std::map<std::string, std::string>& setting);

struct FolderOptions {
  std::filesystem::path path = {};
  std::size_t keep_last = 2;
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(FolderOptions options) : options_(std::move(options)) {}
  const std::filesystem::path& path() const { return options_.path; }
  /// score: lower is better; none: the best stays as it is.
  template <class T>
  Status save(const Layout& layout, const Snapshot<T>& snapshot, const std::map<std::string, std::string>& setting,
              std::optional<double> score = {});
  /// The newest good one (TCK-3). NotFoundError when there is none; the error of the newest when all are bad.
  template <class T>
  Result<Snapshot<T>> load_newest(const Layout& layout, const std::map<std::string, std::string>& setting,
                                  std::vector<std::string>* passed_over = nullptr) const;
  /// Steps for which there are files, rising.
  std::vector<std::int64_t> steps() const;
  std::filesystem::path file_of(std::int64_t step) const;
  /// The description of the learning rate (describe() of schedule.h) in the newest checkpoint whose metadata can be
  /// read.
  std::optional<std::string> schedule() const;
  std::filesystem::path best_file() const { return options_.path / "best.safetensors"; }

 private:
  /// A file as it was when it was found good: one that is touched later is looked at again.
  struct Seen {
    std::uint64_t inode = 0, size = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Seen&) const = default;
  };
  using Check = std::function<Status(const std::filesystem::path&, std::int64_t step)>;
  Status keep_best(std::int64_t step, std::optional<double> score, const std::map<std::string, std::string>& setting);
  void remove_old(std::int64_t saved, const Check& check);
  std::optional<Seen> look_at(std::int64_t step) const;

  FolderOptions options_;
  std::map<std::int64_t, Seen> good_ = {};
};

/// All ranks call it: rank 0 gets the state, the others an empty one. Throws CollectiveError.
template <class T>
Snapshot<T> gather_snapshot(Trainer<T>& trainer);
/// All ranks call it: what rank `from` has becomes the state of all. Throws CollectiveError.
template <class T>
void scatter_snapshot(Trainer<T>& trainer, const Snapshot<T>& snapshot, int from = 0);

}  // namespace troupe::train
