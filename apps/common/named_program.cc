#include "apps/common/named_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace apps {
namespace {

namespace fs = std::filesystem;

/// Whether others than this user and root have a say in what is under this name.
bool is_ours(const struct stat& status) {
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
  if (S_ISLNK(status.st_mode)) return true;  // its mode says nothing; its folder's does
  const bool sticky_folder = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  const bool own_group = status.st_gid == 0 || status.st_gid == ::getegid();  // many users have one of their own
  return sticky_folder || (status.st_mode & (own_group ? S_IWOTH : S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

troupe::Status check_named_program(const std::string& program, const std::string& remedy) {
  if (program.find('/') == std::string::npos) return {};
  const fs::path path(program);
  const auto refused = [&](const std::string& why) {
    return troupe::InvalidArgumentError(
        fmt::format("a file names the program {}, which is not run: {}. {}",
                    boost::json::serialize(boost::json::value(program)), why, remedy));
  };
  if (!path.is_absolute() || path.lexically_normal() != path) return refused("it is no whole path");
  // The link and what it leads to: of a virtual environment the folder of the link decides what is loaded.
  std::error_code failed;
  const fs::path target = fs::canonical(path, failed);
  if (failed) return troupe::NotFoundError(fmt::format("there is no program {}. {}", program, remedy));
  for (const fs::path& whole : {path, target}) {
    fs::path place;
    for (const fs::path& part : whole) {
      place /= part;
      struct stat status {};
      if (::lstat(place.c_str(), &status) != 0) return refused(place.string() + ": " + std::strerror(errno));
      if (!is_ours(status)) return refused(place.string() + " is somebody else's, or others may write there");
    }
  }
  return {};
}

}  // namespace apps
