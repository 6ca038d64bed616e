// A file gets a name that nobody has: of several that try, in whatever processes, one does.
//
// Any thread.
#pragma once

#include <filesystem>

namespace datagen {

/// Renames `from` to `to` when there is no `to`. 0 or errno: EEXIST when there is one, which stays as it is.
[[nodiscard]] int take_free_name(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace datagen
