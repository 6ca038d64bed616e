// The words of a Minari data set: `metadata.json`, with spaces as minari's serialize_space writes them. Pure; any
// thread.
//
// MNJ-1  What it gives minari 0.5.4 reads; bounds come back to the bit, infinite ones too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/result.h>

namespace datagen {

inline constexpr const char* kMinariVersion = "0.5.4";

struct MinariWords {
  std::string dataset_id;  ///< "cartpole/expert-v0"
  std::string observation_space, action_space;  ///< JSON, as rl::to_json(Space) gives it
  std::string env_spec = {};                    ///< JSON of Gymnasium's EnvSpec; empty: none
  std::uint64_t episodes = 0, steps = 0, bytes = 0;
  std::map<std::string, std::string> more = {};  ///< further text: "algorithm_name", "policy_sha256", ...
  std::vector<std::string> authors = {}, emails = {};
};

/// SerializationError for JSON that is none, or no space of the kinds Box, Discrete and MultiDiscrete.
[[nodiscard]] troupe::Result<std::string> minari_metadata(const MinariWords& words);
/// `name`, with what is no letter, digit, hyphen, underline or slash as an underline, and "-v0" where it has no
/// version.
[[nodiscard]] std::string minari_dataset_id(std::string name);

}  // namespace datagen
