// What a run has done so far, and at its end. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace datagen {

struct RunReport {
  std::uint64_t shards = 0;         ///< of the plan
  std::uint64_t shards_before = 0;  ///< done by earlier runs
  std::uint64_t shards_made = 0;    ///< committed by this one
  std::uint64_t samples_made = 0, rows_made = 0, bytes_made = 0;
  std::uint64_t rows = 0, bytes = 0;  ///< of the whole data set, as far as it is committed
  std::uint64_t retries = 0;        ///< attempts after the first
  std::uint64_t wasted_shards = 0;  ///< begun and not committed, or made again: by this run or the one before
  std::uint64_t wasted_rows = 0;    ///< of the ones whose rows are known
  std::uint64_t commits = 0;        ///< groups
  std::uint64_t first_epoch = 0;
  bool taken_over = false;          ///< by a newer run: what the folder says from then on is for that one to say
  std::uint64_t travelled = 0;      ///< shards that came through the store
  double seconds = 0;               ///< from the first shard sent to the last one committed
  double start_seconds = 0;         ///< until the first shard was sent
  double finish_seconds = 0;        ///< after the last commit
  std::vector<float> shard_seconds; ///< of each shard that was made
  std::map<std::string, std::uint64_t> shards_of_node;
  std::vector<std::string> files;   ///< that the format has beside the shards
  std::string digest;               ///< of the finished data set; empty before
  std::string check_line;           ///< of the generator

  [[nodiscard]] std::uint64_t shards_done() const { return shards_before + shards_made; }
  [[nodiscard]] bool finished() const { return !digest.empty(); }
};

}  // namespace datagen
