#include "apps/rl/training/json_lines.h"

#include <cmath>
#include <string>
#include <utility>

namespace rl {
namespace {

void finite_or_null(boost::json::value& value) {
  if (value.is_double() && !std::isfinite(value.get_double())) value = nullptr;
  if (value.is_array())
    for (boost::json::value& item : value.get_array()) finite_or_null(item);
  if (value.is_object())
    for (auto& member : value.get_object()) finite_or_null(member.value());
}

}  // namespace

troupe::Result<JsonLines> JsonLines::open(const std::filesystem::path& path) {
  troupe::Result<apps::AppendFile> file = apps::AppendFile::open(path, apps::Existing::kAfterLastLine);
  if (!file.ok()) return file.error_ptr();
  return JsonLines(std::move(file).value());
}

troupe::Status JsonLines::add(const boost::json::object& line) {
  boost::json::value copy = line;
  finite_or_null(copy);
  return file_.append(boost::json::serialize(copy) + "\n");
}

}  // namespace rl
