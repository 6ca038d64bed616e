#include "apps/datagen/formats/arrays/npy.h"

#include <string_view>

#include <fmt/format.h>

namespace datagen {
namespace {

std::string_view npy_type(Type type) {
  switch (type) {
    case Type::kBool: return "|b1";
    case Type::kUInt8: return "|u1";
    case Type::kInt32: return "<i4";
    case Type::kInt64: return "<i8";
    case Type::kFloat32: return "<f4";
    case Type::kFloat64: return "<f8";
    default: return "";
  }
}

}  // namespace

std::string npy_header(Type type, std::span<const std::size_t> shape) {
  std::string axes;
  for (const std::size_t axis : shape) axes += fmt::format("{}{}", axes.empty() ? "" : ", ", axis);
  if (shape.size() == 1) axes += ',';
  std::string words = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", npy_type(type), axes);
  constexpr std::size_t kBefore = 10;
  words.append(63 - (kBefore + words.size()) % 64, ' ') += '\n';  // NPY-1
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(words.size() & 0xff);
  out += static_cast<char>(words.size() >> 8);
  return out + words;
}

}  // namespace datagen
