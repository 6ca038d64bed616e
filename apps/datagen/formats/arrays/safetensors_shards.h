// Safetensors: a shard is a file with an array a column, [rows][shape]; `data/part-00000-of-00100.safetensors`.
//
//   numbers           "reward": F32 [rows], "obs": F32 [rows][4]
//   text, bytes       "note": U8, one value after the other; "note.offsets": I64 [rows + 1], where each begins
//   nullable columns  "logp.valid": U8 [rows], 1 where there is a value; it is zeros else
//   samples           "sample_ends": I64 [samples], one behind the last row of each
//   schema's metadata "__metadata__"
//
// A shard is in memory until it is finished: the header, which comes first, says where everything is.
//
// SFT-1  Every array is aligned to the size of its numbers: arrays of wider numbers come first, then by name.
// SFT-2  The header has at most 100 MB, as readers demand: else InvalidArgumentError.
#pragma once

#include "apps/datagen/formats/format.h"

namespace datagen {

[[nodiscard]] FormatKind safetensors_format();

}  // namespace datagen
