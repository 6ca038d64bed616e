// The formats that come with `datagen`: jsonl, minari, parquet, safetensors, webdataset.
//
// Called once, in main, before others are registered.
#pragma once

#include <troupe/result.h>

namespace datagen {

/// InvalidArgumentError when it was called before (FGR-1).
troupe::Status register_builtin_formats();

}  // namespace datagen
