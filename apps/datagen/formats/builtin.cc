#include "apps/datagen/formats/builtin.h"

#include "apps/datagen/formats/arrays/safetensors_shards.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/formats/minari/minari.h"
#include "apps/datagen/formats/parquet/parquet.h"
#include "apps/datagen/formats/tar/webdataset.h"
#include "apps/datagen/formats/text/jsonl.h"

namespace datagen {

troupe::Status register_builtin_formats() {
  for (FormatKind (*const kind)() :
       {&jsonl_format, &minari_format, &parquet_format, &safetensors_format, &webdataset_format})
    if (troupe::Status status = register_format(kind()); !status.ok()) return status;
  return {};
}

}  // namespace datagen
