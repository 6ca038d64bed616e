// Reading recorded cases: a case is a folder with meta.txt (lines `key = value`) and NumPy arrays (*.npy).
//
// The cases are those of TROUPE_GOLDEN_DIR (its train/kernels or kernels subfolder, or itself), by default the
// project's own copy. A case is known by the prefix of its folder's name, its sizes by meta.txt, so any other cases can
// be tried.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace golden {

struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;  // whatever the file's type is

  [[nodiscard]] std::vector<float> floats() const { return {values.begin(), values.end()}; }
  [[nodiscard]] std::vector<std::int32_t> integers() const { return {values.begin(), values.end()}; }
  [[nodiscard]] std::vector<std::uint8_t> flags() const { return {values.begin(), values.end()}; }
};

/// Types <f8, <f4, <i4, <i8 and |u1 in C order; throws std::runtime_error, with the file's name, for anything else.
Array read_npy(const std::filesystem::path& file);

class Case {
 public:
  explicit Case(std::filesystem::path folder);
  [[nodiscard]] std::string name() const { return folder_.filename().string(); }
  [[nodiscard]] bool has(std::string_view array) const;
  [[nodiscard]] Array array(std::string_view name) const;
  /// The number behind a key of meta.txt; throws when it is missing.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] std::size_t size(std::string_view key) const { return static_cast<std::size_t>(number(key)); }

 private:
  std::filesystem::path folder_;
  std::string meta_;
};

/// The cases whose folder's name is the operation, '_' and more, sorted.
std::vector<Case> cases_of(std::string_view operation);

}  // namespace golden
