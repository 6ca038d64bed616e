// Demonstrations: episodes that somebody has played, to be imitated: what was seen, what was done, what it gave. A
// safetensors file, which NumPy reads:
//
//   "obs" [T][...], "action" [T][...]     elements of the spaces, as the environment shows and takes them: before
//                                         wrappers, and before actions are clipped
//   "reward" [T] float32                  raw
//   "terminated", "truncated" [T] uint8   of the step; an episode ends with either
//   "mask" [T][choices] uint8             what was allowed (BatchEnv::action_mask); only of an environment that masks
//
// Its words: "troupe.rl" is "demonstrations 1"; "demonstrations" is JSON of the environment's name and its spaces.
//
// Plain values; any thread as long as nobody writes.
//
// Invariants
//   DEM-1  What load_demonstrations gives can be learned from: at least one episode, whole ones only, each number
//          finite, each choice one of its space, and allowed where there is a mask. All else is a SerializationError
//          that says what and where.
//   DEM-2  The file appears whole or not at all (TST-1).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/samples/sample_batch.h"
#include "apps/rl/spaces/space.h"

namespace rl {

struct Demonstrations {
  std::string env;
  Space observation_space = {}, action_space = {};
  OwnedSamples steps = {};                // demonstration_columns
  std::vector<std::size_t> ends = {};     // one behind the last step of each episode

  [[nodiscard]] std::size_t episodes() const { return ends.size(); }
};

/// `mask_width`: bytes of a row of the mask; 0: there is none.
[[nodiscard]] std::vector<Column> demonstration_columns(const Space& observation_space, const Space& action_space,
                                                        std::size_t mask_width = 0);

/// OutOfDiskError when there is no room, RuntimeEnvError when the folder cannot be written.
troupe::Status save_demonstrations(const std::filesystem::path& path, const Demonstrations& demonstrations);
/// NotFoundError for a file that is not there.
[[nodiscard]] troupe::Result<Demonstrations> load_demonstrations(const std::filesystem::path& path);

/// Finds the ends of the episodes (`ends`). InvalidArgumentError: what was put together does not hold DEM-1.
[[nodiscard]] troupe::Status check_demonstrations(Demonstrations& demonstrations);

/// Sum of rewards of each episode.
[[nodiscard]] std::vector<double> returns_of(const Demonstrations& demonstrations);

}  // namespace rl
