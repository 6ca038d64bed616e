#include "tests/train/golden.h"

#include <cstdlib>

namespace golden_train {

std::filesystem::path folder() {
  const char* named = std::getenv("TROUPE_GOLDEN_DIR");
  const std::filesystem::path root = named == nullptr || *named == '\0' ? TROUPE_DEFAULT_GOLDEN_DIR : named;
  return std::filesystem::is_directory(root / "train") ? root / "train" : root;
}

}  // namespace golden_train
