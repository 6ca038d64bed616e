#include "apps/train/data/npy.h"

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "apps/train/data/files.h"

namespace troupe::train {
namespace {

constexpr std::size_t kPrefix = 10;                   // magic, version, length of the header
constexpr std::size_t kElementsMax = 1ull << 40;      // beyond any file: products of extents cannot wrap

// What stands behind 'key': up to the given end; empty where it is not there.
std::string_view header_value(std::string_view header, std::string_view key, char end) {
  const std::size_t at = header.find("'" + std::string(key) + "':");
  if (at == std::string_view::npos) return {};
  const std::size_t from = at + key.size() + 3, stop = header.find(end, from);
  return stop == std::string_view::npos ? std::string_view{} : header.substr(from, stop - from);
}

// The extents of "(3, 5)"; false where one is no number or all together are too many.
bool parse_shape(std::string_view text, std::vector<std::size_t>& shape) {
  std::size_t elements = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    std::size_t extent = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      extent = extent * 10 + static_cast<std::size_t>(text[i] - '0');
      if (extent > kElementsMax) return false;
    }
    shape.push_back(extent);
    if (extent != 0 && elements > kElementsMax / extent) return false;
    elements *= extent;
  }
  return true;
}

template <class To, class From>
std::vector<To> decode(std::string_view bytes) {
  std::vector<To> out(bytes.size() / sizeof(From));
  for (std::size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
  return out;
}

}  // namespace

template <class T>
Result<NpyArray<T>> read_npy(const std::filesystem::path& path) {
  const auto file = read_data_file(path);
  if (!file.ok()) return file.error_ptr();
  const std::string_view all = *file;
  const auto fail = [&](const std::string& why) { return InvalidArgumentError(path.string() + ": " + why); };
  if (all.size() < kPrefix || all.substr(0, 6) != "\x93NUMPY" || all[6] != 1) return fail("no NumPy file of format 1");
  const std::size_t length = static_cast<unsigned char>(all[8]) + 256u * static_cast<unsigned char>(all[9]);
  if (all.size() < kPrefix + length) return fail("the header is cut off");
  const std::string_view header = all.substr(kPrefix, length), data = all.substr(kPrefix + length);
  if (header_value(header, "fortran_order", ',').find("False") == std::string_view::npos) return fail("not in C order");
  NpyArray<T> out;
  if (!parse_shape(header_value(header, "shape", ')'), out.shape)) return fail("a shape that no file can have");
  std::size_t count = 1;
  for (const std::size_t extent : out.shape) count *= extent;
  const std::string_view type = header_value(header, "descr", ',');
  constexpr bool kAny = std::is_same_v<T, double>;
  const auto is = [&](std::string_view name) { return type.find(name) != std::string_view::npos; };
  const std::size_t width = is("<f8") ? 8 : 4;
  const bool known = (is("<f8") && kAny) || (is("<f4") && (kAny || std::is_same_v<T, float>)) ||
                     (is("<i4") && (kAny || std::is_same_v<T, std::int32_t>));
  if (!known) return fail("elements of type" + std::string(type) + " are not what is wanted here");
  if (data.size() != count * width) return fail("the length does not fit the shape: cut off, or not what it says");
  if (is("<f8")) out.values = decode<T, double>(data);
  else if (is("<f4")) out.values = decode<T, float>(data);
  else out.values = decode<T, std::int32_t>(data);
  return out;
}

template Result<NpyArray<float>> read_npy<float>(const std::filesystem::path&);
template Result<NpyArray<double>> read_npy<double>(const std::filesystem::path&);
template Result<NpyArray<std::int32_t>> read_npy<std::int32_t>(const std::filesystem::path&);

}  // namespace troupe::train
