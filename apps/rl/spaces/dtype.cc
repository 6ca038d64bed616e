#include "apps/rl/spaces/dtype.h"

#include <array>
#include <string>

namespace rl {
namespace {

struct ElementType {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<ElementType, 6> kElementTypes{
    {{"bool", 1}, {"uint8", 1}, {"int32", 4}, {"int64", 8}, {"float32", 4}, {"float64", 8}}};

}  // namespace

std::size_t size_of(DType dtype) { return kElementTypes[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kElementTypes[static_cast<std::size_t>(dtype)].name; }

troupe::Result<DType> dtype_of(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kElementTypes.size(); ++i) {
    if (kElementTypes[i].name == name) return static_cast<DType>(i);
    known += (known.empty() ? "" : ", ") + std::string(kElementTypes[i].name);
  }
  return troupe::InvalidArgumentError("no element type \"" + std::string(name) + "\"; there are " + known);
}

}  // namespace rl
