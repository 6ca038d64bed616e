// The tasks of a run: they make shards, in worker processes.
//
// STK-1  A task makes its shard whole or leaves nothing; it writes only while it holds the run's token.
// STK-2  On a machine that would make other bytes (ISA, glibc, libraries) it refuses.
// STK-3  A generator that gives other samples than it was asked for is an InvalidArgumentError.
#pragma once

#include <string>
#include <vector>

#include "apps/datagen/run/messages.h"

namespace datagen {

/// Generates, writes, hashes, publishes.
[[nodiscard]] ShardOutcome make_shard(const RunPlace& place, const ShardOrder& order);

/// Asked of every node before the run.
[[nodiscard]] NodeAnswer answer_for_node(const RunPlace& place);

struct RemadeShard {
  Digest sha256{};
  std::uint64_t rows = 0, bytes = 0;
};
/// As make_shard, but what it makes goes nowhere.
[[nodiscard]] RemadeShard make_again(const RunPlace& place, std::uint64_t shard);

struct FileProblem {
  std::string what = {};    ///< "" when nothing is wrong
  bool unreadable = false;  ///< nobody knows what is in it: the system has said no
};
/// What is wrong with each of these files.
[[nodiscard]] std::vector<FileProblem> check_files(const std::string& out, const std::vector<ShardRecord>& records);

}  // namespace datagen
