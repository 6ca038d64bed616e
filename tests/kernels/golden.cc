#include "tests/kernels/golden.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace golden {
namespace {

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path folder() {
  const char* named = std::getenv("TROUPE_GOLDEN_DIR");
  const std::filesystem::path root = named == nullptr || *named == '\0' ? TROUPE_DEFAULT_GOLDEN_DIR : named;
  for (const char* below : {"train/kernels", "kernels"}) {
    if (std::filesystem::is_directory(root / below)) return root / below;
  }
  return root;
}

template <class T>
std::vector<double> decode(std::string_view bytes, std::size_t count) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
  return out;
}

// What stands behind 'key': in the header, up to the given end.
std::string header_value(const std::string& header, const std::string& key, char end) {
  const auto at = header.find("'" + key + "':");
  const auto stop = at == std::string::npos ? at : header.find(end, at + key.size() + 3);
  return stop == std::string::npos ? "" : header.substr(at + key.size() + 3, stop - at - key.size() - 3);
}

}  // namespace

Array read_npy(const std::filesystem::path& file) {
  const std::string all = read_all(file);
  const auto fail = [&](const char* why) { return std::runtime_error(file.string() + ": " + why); };
  if (all.size() < 10 || all.compare(0, 6, "\x93NUMPY") != 0 || all[6] != 1) throw fail("no NumPy file of format 1");
  const std::size_t length = static_cast<unsigned char>(all[8]) + 256u * static_cast<unsigned char>(all[9]);
  if (all.size() < 10 + length) throw fail("the header is cut off");
  const std::string header = all.substr(10, length);
  if (header_value(header, "fortran_order", ',').find("False") == std::string::npos) throw fail("not in C order");
  Array out;
  std::string shape = header_value(header, "shape", ')');
  for (char& c : shape) c = c >= '0' && c <= '9' ? c : ' ';
  const char* at = shape.c_str();
  for (char* next = nullptr;; at = next) {
    const auto extent = std::strtoull(at, &next, 10);
    if (next == at) break;
    out.shape.push_back(extent);
  }
  const std::size_t count =
      std::accumulate(out.shape.begin(), out.shape.end(), std::size_t{1}, [](auto a, auto b) { return a * b; });
  const std::string type = header_value(header, "descr", ',');
  const std::string_view data = std::string_view(all).substr(10 + length);
  const auto is = [&](const char* name, std::size_t size) {
    if (type.find(name) == std::string::npos) return false;
    if (data.size() != count * size) throw fail("the length does not fit the shape");
    return true;
  };
  if (is("<f8", 8)) out.values = decode<double>(data, count);
  else if (is("<f4", 4)) out.values = decode<float>(data, count);
  else if (is("<i4", 4)) out.values = decode<std::int32_t>(data, count);
  else if (is("<i8", 8)) out.values = decode<std::int64_t>(data, count);
  else if (is("|u1", 1)) out.values = decode<std::uint8_t>(data, count);
  else throw fail("an element type that is not known");
  return out;
}

Case::Case(std::filesystem::path folder) : folder_(std::move(folder)), meta_("\n" + read_all(folder_ / "meta.txt")) {}

bool Case::has(std::string_view array) const {
  return std::filesystem::exists(folder_ / (std::string(array) + ".npy"));
}

Array Case::array(std::string_view name) const { return read_npy(folder_ / (std::string(name) + ".npy")); }

double Case::number(std::string_view key) const {
  const auto at = meta_.find("\n" + std::string(key) + " = ");
  if (at == std::string::npos) throw std::runtime_error(folder_.string() + "/meta.txt has no " + std::string(key));
  return std::strtod(meta_.c_str() + at + key.size() + 4, nullptr);
}

std::vector<Case> cases_of(std::string_view operation) {
  std::vector<std::filesystem::path> found;
  if (std::filesystem::is_directory(folder())) {
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      const std::string name = entry.path().filename().string();
      const std::string prefix = std::string(operation) + "_";
      // softmax_ must not take softmax_causal_: what follows the operation is its size.
      const bool sized = name.size() > prefix.size() && name.starts_with(prefix);
      const bool other = operation == "softmax" && sized &&
          !std::isdigit(static_cast<unsigned char>(name[prefix.size()]));
      if (sized && !other) found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return {found.begin(), found.end()};
}

}  // namespace golden
