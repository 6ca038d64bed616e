// Policies and checkpoints on disk.
//
// One file: a 32-byte head, then the body. All numbers little-endian.
//
//   offset  size  what
//        0     8  "TROUPERL"
//        8     4  format version, 3
//       12     4  kind: 1 policy, 2 checkpoint
//       16     8  size of the body in bytes
//       24     8  XXH3 (64 bits) of the body
//       32        body: the policy (both kinds); a checkpoint goes on with settings, learner and log
//
// In the body a number is 8 bytes, a string or list its length (8) and then its items, floats 4 bytes each. The spaces
// and networks of a policy are JSON text.
//
// RCK-1  A file appears whole or not at all: written aside in the same folder, fsynced, renamed, the folder fsynced.
// RCK-2  A truncated, foreign, damaged or newer file is a SerializationError that says which; a missing one a
//       NotFoundError. Decoding is bounded by the bytes that are there. A checkpoint whose network is not the one that
//       its configuration makes is damaged as well.
// RCK-3  Training goes on after load_checkpoint as it would have without the stop, except that episodes in play are
//       lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/training/learner.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/ppo/config.h"
#include "apps/rl/training/training_log.h"

namespace rl {

/// A trained network and where it comes from.
struct Policy {
  std::string env_id = {};
  PolicySpec spec = {};
  std::vector<float> params = {};
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  double mean_return = 0;
};

struct Checkpoint {
  Policy policy = {};
  PpoConfig config = {};
  LearnerState learner = {};  // its parameters are the policy's
  TrainingLog log = {};
};

troupe::Status save_policy(const std::filesystem::path& path, const Policy& policy);
/// Reads either kind.
troupe::Result<Policy> load_policy(const std::filesystem::path& path);

troupe::Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
troupe::Result<Checkpoint> load_checkpoint(const std::filesystem::path& path);

}  // namespace rl
