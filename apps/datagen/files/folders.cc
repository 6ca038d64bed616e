#include "apps/datagen/files/folders.h"

#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/shard_file.h"

namespace datagen {

namespace fs = std::filesystem;

troupe::Status make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  const fs::path above = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (above != folder)
    if (troupe::Status made = make_folder(above); !made.ok()) return made;
  if (fs::create_directory(folder, error); error)
    return file_error(error.value(), "cannot make the folder", folder);
  return sync_folder(above);
}

}  // namespace datagen
