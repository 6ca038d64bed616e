// OUT/result.json: what a run did. Beside the data set, not of it: its digest knows nothing of this file. Pure.
#pragma once

#include <string>
#include <string_view>

#include "apps/datagen/run/dataset_folder.h"
#include "apps/datagen/run/report.h"

namespace datagen {

/// `status`: "done", "failed", "interrupted"; `error` is empty for "done".
[[nodiscard]] std::string run_json(const DatasetFolder& dataset, const RunReport& report, std::string_view status,
                                   std::string_view error);

}  // namespace datagen
