// What driver, tasks and coordinator tell each other. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/array.h>

#include "apps/datagen/manifest/shard_record.h"

namespace datagen {

/// What every task of a run is told.
struct RunPlace {
  std::string config = {};  ///< JobConfig::canonical
  std::string out = {};     ///< folder of the data set, an absolute path
  std::string token = {};   ///< of the run (run_token.h)
  std::string home = {};    ///< the node of driver and coordinator
  std::uint64_t epoch = 0;  ///< with which the run began: in names of temporaries
};

struct ShardOrder {
  std::uint64_t shard = 0;
  std::uint32_t first_attempt = 0;  ///< attempts that the driver asked for before
  std::optional<Digest> committed = {};  ///< what the manifest has of it, when its file is damaged or gone
};

struct ShardOutcome {
  ShardRecord record = {};
  bool folder_synced = false;        ///< else it is for the coordinator to do
  bool travelled = false;            ///< its node does not share the folder: the file is `bytes`, maybe none, to write
  troupe::Array<std::uint8_t> bytes = {};
  bool was_there = false;            ///< the file was there already, with the same bytes
  std::uint32_t wasted = 0;          ///< attempts of this try before this one that had begun
  double seconds = 0;
  std::string node = {};
  int pid = 0;
};

/// Shards that are to be committed together.
struct CommitEntry {
  ShardRecord record = {};
  bool folder_synced = false;
  bool travelled = false;
  troupe::Array<std::uint8_t> bytes = {};
};

/// What a coordinator found when it began.
struct RunStart {
  std::vector<std::uint64_t> done = {};   ///< a bit a shard
  std::uint64_t shards = 0, rows = 0, bytes = 0;  ///< of those
  std::vector<ShardRecord> damaged = {};  ///< in the manifest, and their files are gone or have another size
  std::uint64_t temporaries = 0;     ///< of dead attempts, removed
  std::vector<std::string> notes = {};
};

/// How a node answers before the run.
struct NodeAnswer {
  std::string node = {};
  bool shared = false;   ///< it reads our token below its OUT
  std::string problem = {};   ///< empty: it can make the shards
};

}  // namespace datagen
