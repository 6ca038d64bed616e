// WebDataset: shards are tar archives (tar.h) in which files that share a name up to the first dot are a sample;
// `data/shard-00000-of-00100.tar`. A row is such a sample: its key is the number of the data set's sample, and for a
// sample of several rows that of the row: "000000007", "000000007-000012".
//
//   picture (kImage)          .png      number of a class (kClass)     .cls
//   JSON (kJson)              .json     text                           .txt
//   array of numbers          .npy      bytes                          .bin
//   plain numbers             one object of all of them, ".json"; it counts as a column of the name "numbers"
//
// A file is called KEY.EXT when its column is the only one of the kind, else KEY.COLUMN.EXT. A row without a value has
// no such file.
//
// WDS-1  Within a sample, files are sorted by their names.
// WDS-2  Columns whose files cannot be told apart, or whose names hold '/' or are too long, are an
//        InvalidArgumentError of check(). Readers take names for the same that differ in case only.
#pragma once

#include "apps/datagen/formats/format.h"

namespace datagen {

[[nodiscard]] FormatKind webdataset_format();

}  // namespace datagen
