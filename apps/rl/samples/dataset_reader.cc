#include "apps/rl/samples/dataset_reader.h"

#include <atomic>

namespace rl {
namespace {

std::atomic<DatasetReader>& the_reader() {
  static std::atomic<DatasetReader> reader{nullptr};
  return reader;
}

}  // namespace

void set_dataset_reader(DatasetReader reader) { the_reader() = reader; }

troupe::Result<Demonstrations> read_dataset(const std::filesystem::path& folder) {
  if (const DatasetReader reader = the_reader()) return reader(folder);
  return troupe::RuntimeEnvError("this program reads no data sets; 'rl' does");
}

}  // namespace rl
