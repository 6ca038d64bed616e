// Is a data set what its manifest says? Inside of troupe::run; reads, and changes nothing.
//
// VRF-1  Every file is read whole and its digest compared; a shard that is made again gives the digest of the manifest,
//        or its generator is named as nondeterministic. One that cannot be made again is named with the error: what the
//        files gave is reported beside it.
// VRF-2  A file that the system does not let us read is told apart from one with other bytes: it may be good.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/datagen/manifest/journal.h"
#include "apps/datagen/run/dataset_folder.h"

namespace datagen {

struct VerifySettings {
  std::uint64_t regenerate = 3;  ///< shards, spread over the data set, that are made again
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = [](std::uint64_t, std::uint64_t) {};
};

struct BadShard {
  ShardRecord record;
  std::string what;
  bool unreadable = false;  ///< it may be good: the system has not let us look
};

struct VerifyReport {
  std::uint64_t shards = 0, missing = 0;  ///< of the plan; not in the manifest
  std::uint64_t checked = 0, made_again = 0, bytes = 0;
  std::vector<BadShard> bad = {};              ///< files that are not what the manifest says
  std::vector<BadShard> nondeterministic = {};
  std::vector<BadShard> not_made_again = {};   ///< nobody knows whether they would be the same
  std::vector<std::string> notes = {};
  std::string digest = {};                     ///< of the manifest
  double seconds = 0;
  [[nodiscard]] bool good() const {
    return missing == 0 && bad.empty() && nondeterministic.empty() && not_made_again.empty();
  }
};

[[nodiscard]] VerifyReport verify(const std::filesystem::path& out, const DatasetFolder& dataset,
                                  const VerifySettings& settings);

}  // namespace datagen
