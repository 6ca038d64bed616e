// A data set of episodes as demonstrations: what `datagen` wrote as Parquet or Minari, or what minari itself wrote as
// HDF5.
//
// One thread a data set; any.
//
// RDM-1  Of a data set of datagen the manifest alone says what is in it: all shards must be done, and each must have
//        the bytes that were committed (size and SHA-256). What else lies in the folder is not looked at.
// RDM-2  What it gives can be learned from (DEM-1). A missing data set is a NotFoundError; one that is unfinished, of
//        another format, or without episodes an InvalidArgumentError; a damaged one a SerializationError.
// RDM-3  It may be anybody's: it is not read beyond its own folder, memory is bounded by the sizes of its files, and
//        what is no plain file is not waited for. All episodes together are no more than files of this size can hold.
#pragma once

#include <filesystem>

#include <troupe/result.h>

#include "apps/rl/samples/demonstrations.h"

namespace datagen {

[[nodiscard]] troupe::Result<rl::Demonstrations> read_demonstrations(const std::filesystem::path& folder);

}  // namespace datagen
