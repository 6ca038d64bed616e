#include "apps/train/data/files.h"

#include <fstream>
#include <iterator>

namespace troupe::train {

Result<std::string> read_data_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return NotFoundError("there is no file " + path.string());
  if (std::filesystem::is_directory(path, error))
    return InvalidArgumentError(path.string() + " is a folder, not a data file");
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) return InvalidArgumentError("cannot read " + path.string());
  if (bytes.empty()) return InvalidArgumentError(path.string() + " is empty");
  return bytes;
}

}  // namespace troupe::train
