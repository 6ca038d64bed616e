#include "apps/datagen/files/temporaries.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "apps/datagen/files/file_error.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

/// The number behind the last dot, which is cut off with it.
std::optional<std::uint64_t> cut_number(std::string_view& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  name = name.substr(0, dot);
  return out;
}

/// Removes the files that are meant; how many they were. A missing folder has none.
template <class Meant> troupe::Result<std::uint64_t> sweep(const std::set<fs::path>& folders, const Meant& meant) {
  std::uint64_t removed = 0;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (!meant(at->path().filename().string())) continue;
      if (::unlink(at->path().c_str()) == 0) ++removed;
      else if (errno != ENOENT) return file_error(errno, "cannot remove", at->path());
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return file_error(error.value(), "cannot look into the folder", folder);
  }
  return removed;
}

}  // namespace

std::optional<std::uint64_t> epoch_of_temporary(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  if (!cut_number(name)) return std::nullopt;
  const std::optional<std::uint64_t> epoch = cut_number(name);
  return name.size() > 1 ? epoch : std::nullopt;
}

troupe::Result<std::uint64_t> sweep_temporaries(const std::set<fs::path>& folders, std::uint64_t epoch) {
  return sweep(folders, [&](std::string_view name) {
    const std::optional<std::uint64_t> of = epoch_of_temporary(name);
    return of && *of <= epoch;
  });
}

troupe::Status sweep_asides(const std::set<fs::path>& folders) {
  const auto swept = sweep(folders, [](std::string_view name) {
    return cut_number(name) && name.size() > 4 && name.ends_with(".tmp") && !name.starts_with('.');
  });
  return swept.ok() ? troupe::Status() : troupe::Status(swept.error_ptr());
}

}  // namespace datagen
