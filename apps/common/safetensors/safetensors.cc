#include "apps/common/safetensors/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <xxhash.h>
#include <boost/json.hpp>

namespace apps {

using troupe::NotFoundError;
using troupe::OutOfDiskError;
using troupe::Result;
using troupe::RuntimeEnvError;
using troupe::SerializationError;
using troupe::Status;

namespace {

namespace json = boost::json;
static_assert(std::endian::native == std::endian::little, "the numbers of the format are little-endian");
constexpr const char* kHashKey = "troupe.xxh3";
constexpr std::size_t kHeaderMax = 100'000'000, kHead = 8;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status system_error(const std::string& what, const std::filesystem::path& path, int code) {
  const std::string text = what + " " + path.string() + ": " + std::strerror(code);
  if (code == ENOSPC || code == EDQUOT) return OutOfDiskError(text);
  if (code == ENOENT) return NotFoundError(text);
  return RuntimeEnvError(text);
}

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  std::string text() const { return hex(XXH3_64bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

Status write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t(1) << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error("cannot write", path, n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(std::size_t(n));
  }
  return {};
}

Status read_all(int fd, std::span<std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::read(fd, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t(1) << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot read", path, errno);
    if (n == 0) return SerializationError(path.string() + " is truncated");
    bytes = bytes.subspan(std::size_t(n));
  }
  return {};
}

std::string header_of(const std::map<std::string, std::string>& metadata, std::span<const ArrayView> arrays) {
  json::object header, words;
  Hash hash;
  for (const auto& [key, value] : metadata) words[key] = value;
  for (const ArrayView& array : arrays) hash.add(array.bytes);
  words[kHashKey] = hash.text();
  header["__metadata__"] = std::move(words);
  std::size_t at = 0;
  for (const ArrayView& array : arrays) {
    json::array shape;
    for (const std::size_t n : array.shape) shape.push_back(n);
    header[array.name] = json::object{{"dtype", array.dtype},
                                      {"shape", std::move(shape)},
                                      {"data_offsets", json::array{at, at + array.bytes.size()}}};
    at += array.bytes.size();
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Status write_and_sync(const std::filesystem::path& aside, const std::string& header,
                      std::span<const ArrayView> arrays) {
  ::unlink(aside.c_str());  // what somebody else laid there, a link as well, is not written to
  const File file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) return system_error("cannot write", aside, errno);
  const std::uint64_t size = header.size();
  Status status = write_all(file.get(), std::as_bytes(std::span(&size, 1)), aside);
  if (status.ok()) status = write_all(file.get(), std::as_bytes(std::span(header)), aside);
  for (const ArrayView& array : arrays)
    if (status.ok()) status = write_all(file.get(), array.bytes, aside);
  if (status.ok() && ::fsync(file.get()) != 0) status = system_error("cannot sync", aside, errno);
  return status;
}

std::optional<std::size_t> element_size(const std::string& dtype) {
  static constexpr std::array<std::pair<const char*, std::size_t>, 12> kSizes{{{"F64", 8},
                                                                               {"F32", 4},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"I64", 8},
                                                                               {"I32", 4},
                                                                               {"I16", 2},
                                                                               {"I8", 1},
                                                                               {"U64", 8},
                                                                               {"U32", 4},
                                                                               {"U8", 1},
                                                                               {"BOOL", 1}}};
  for (const auto& [name, size] : kSizes)
    if (dtype == name) return size;
  return std::nullopt;
}

/// Throws std::exception for what makes no entry.
ArrayFile::Entry entry_of(const std::string& name, const json::value& value) {
  const json::object& object = value.as_object();
  const auto number = [](const json::value& v) { return v.to_number<std::size_t>(); };
  ArrayFile::Entry entry{.name = name,
                         .dtype = std::string(object.at("dtype").as_string()),
                         .shape = {},
                         .begin = number(object.at("data_offsets").as_array().at(0))};
  const std::size_t end = number(object.at("data_offsets").as_array().at(1));
  const auto element = element_size(entry.dtype);
  if (!element) throw std::invalid_argument("type " + entry.dtype + " of " + name);
  std::size_t bytes = *element;
  for (const json::value& axis : object.at("shape").as_array()) {
    entry.shape.push_back(number(axis));
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes)) throw std::invalid_argument("shape of " + name);
  }
  if (end < entry.begin || end - entry.begin != bytes) throw std::invalid_argument("extent of " + name);
  entry.size = bytes;
  return entry;
}

struct Opened {
  ArrayFile contents;
  std::size_t data_size = 0;
};

/// The header, checked against the file's size.
Result<Opened> read_header(int fd, const std::filesystem::path& path) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return system_error("cannot read", path, errno).error_ptr();
  const auto bad = [&](const std::string& what) {
    return SerializationError(path.string() + " is no safetensors file: " + what);
  };
  const std::size_t size = std::size_t(facts.st_size);
  std::uint64_t header_size = 0;
  if (!S_ISREG(facts.st_mode) || size < kHead) return bad("it has " + std::to_string(size) + " bytes");
  if (Status status = read_all(fd, std::as_writable_bytes(std::span(&header_size, 1)), path); !status.ok())
    return status.error_ptr();
  if (header_size > kHeaderMax || header_size < 2) return bad("a header of " + std::to_string(header_size) + " bytes");
  if (header_size > size - kHead)
    return SerializationError(path.string() + " is truncated in its header, or no safetensors file");
  std::string text(header_size, ' ');
  if (Status status = read_all(fd, std::as_writable_bytes(std::span(text)), path); !status.ok())
    return status.error_ptr();
  Opened opened;
  try {
    const json::value header = json::parse(text);
    for (const auto& [key, value] : header.as_object()) {
      if (key != "__metadata__") opened.contents.entries.push_back(entry_of(std::string(key), value));
      else
        for (const auto& [word, said] : value.as_object())
          opened.contents.metadata[std::string(word)] = std::string(said.as_string());
    }
  } catch (const std::exception& error) { return bad(error.what()); }
  auto& entries = opened.contents.entries;
  std::ranges::sort(entries, {}, [](const ArrayFile::Entry& e) { return std::pair(e.begin, e.size); });
  for (const auto& entry : entries) {
    if (entry.begin != opened.data_size) return bad("a gap or overlap before " + entry.name);
    opened.data_size += entry.size;
    if (opened.data_size > size)
      return SerializationError(path.string() + " is truncated: " + entry.name + " is not all there");
  }
  const std::size_t expected = kHead + header_size + opened.data_size;
  if (size < expected)
    return SerializationError(path.string() + " is truncated: " + std::to_string(size) + " bytes of " +
                              std::to_string(expected));
  if (size > expected) return bad(std::to_string(size - expected) + " bytes too many");
  return opened;
}

}  // namespace

const ArrayFile::Entry* ArrayFile::find(const std::string& name) const {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

Status write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                         std::span<const ArrayView> arrays) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const File opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return system_error("cannot open the folder", folder, errno);
  std::filesystem::path aside = path;
  aside += ".tmp." + std::to_string(::getpid());
  Status status = write_and_sync(aside, header_of(metadata, arrays), arrays);
  if (status.ok() && ::rename(aside.c_str(), path.c_str()) != 0) status = system_error("cannot rename to", path, errno);
  if (!status.ok()) {
    std::filesystem::remove(aside, ignored);
    return status;
  }
  // Some file systems of networks have nothing to sync there, and say so.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) return system_error("cannot sync the folder", folder, errno);
  return {};
}

Result<ArrayFile> read_safetensors(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not to wait for a pipe
  if (file.get() < 0) return system_error("cannot open", path, errno).error_ptr();
  auto opened = read_header(file.get(), path);
  if (!opened.ok()) return opened.error_ptr();
  ArrayFile contents = std::move(opened->contents);
  contents.data.resize(opened->data_size);
  if (Status status = read_all(file.get(), contents.data, path); !status.ok()) return status.error_ptr();
  if (const auto hash = contents.metadata.find(kHashKey); hash != contents.metadata.end()) {
    Hash found;
    found.add(contents.data);
    if (found.text() != hash->second)
      return SerializationError(path.string() + " is damaged: its data does not match its hash");
  }
  return contents;
}

Result<std::map<std::string, std::string>> read_metadata(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not to wait for a pipe
  if (file.get() < 0) return system_error("cannot open", path, errno).error_ptr();
  auto opened = read_header(file.get(), path);
  if (!opened.ok()) return opened.error_ptr();
  return std::move(opened->contents.metadata);
}

}  // namespace apps
