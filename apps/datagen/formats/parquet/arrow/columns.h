// Columns of tables as Arrow's arrays, and back. Inside of libdatagen_parquet.so.
//
// One thread at a time.
//
// ARC-1  What to_arrow gives looks at the column's memory and must be gone before the column changes: bits for bools
//        and for rows without a value are the only memory of its own.
#pragma once

#include <memory>

#include <arrow/api.h>

#include "apps/datagen/table/table.h"

namespace datagen {

/// What Arrow calls such a field.
[[nodiscard]] std::shared_ptr<arrow::Field> arrow_field(const Field& field);
[[nodiscard]] std::shared_ptr<arrow::Schema> arrow_schema(const Schema& schema);
[[nodiscard]] std::shared_ptr<arrow::RecordBatch> to_arrow(const Table& table,
                                                           const std::shared_ptr<arrow::Schema>& schema);

/// SerializationError, thrown, for types that tables have not.
[[nodiscard]] Schema from_arrow(const arrow::Schema& schema);
/// Each row is a sample.
void from_arrow(const arrow::RecordBatch& batch, Table& table);

}  // namespace datagen
