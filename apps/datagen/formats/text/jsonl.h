// JSON lines: a row is a line, an object with the columns in the schema's order (json_text.h). Text of UTF-8 with or
// without zstd around it: `data/part-00000-of-00100.jsonl`, or `.jsonl.zst`.
//
// JSL-1  A data set without zstd needs no library.
#pragma once

#include "apps/datagen/formats/format.h"

namespace datagen {

[[nodiscard]] FormatKind jsonl_format();

}  // namespace datagen
