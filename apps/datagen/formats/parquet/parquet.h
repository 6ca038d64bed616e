// Parquet, by Arrow C++: a row is a row, a column a column. `data/part-00000-of-00100.parquet`.
//
//   numbers                 Arrow's primitives; a shape of one axis is a FixedSizeList, of more a fixed_shape_tensor
//   text, bytes             LargeString, LargeBinary
//   the schema's metadata   key-value metadata of the file
//
// PRQ-1  Memory of numbers goes to Arrow without a copy.
// PRQ-2  Writer properties are settings, and `created_by` is ours: the same in every version of Arrow.
#pragma once

#include "apps/datagen/formats/format.h"

namespace datagen {

[[nodiscard]] FormatKind parquet_format();

}  // namespace datagen
