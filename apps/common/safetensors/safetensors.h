// Safetensors files: named arrays of numbers and a few words about them, in the format that the field reads.
//
//   8 bytes     size of the header, little-endian
//   header      JSON: {"__metadata__": {key: text}, name: {"dtype": "F32", "shape": [...], "data_offsets": [begin,
//               end]}, ...}
//   data        the arrays, without gaps
//
// Invariants
//   TST-1  A file appears whole or not at all: written aside in the same folder, synced, renamed, the folder synced.
//          What was there before stays until then.
//   TST-2  A truncated, damaged or foreign file is a SerializationError that says which, a missing one a NotFoundError.
//          Reading is bounded by the bytes that are there. Files of ours carry a hash of their data; it is checked.
// Thread rule: pure but for the file; one thread a file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

namespace apps {

/// An array to be written; its bytes are only looked at. dtype: "F32", "F64", "I64", "U64", ...
struct ArrayView {
  std::string name;
  std::string dtype;
  std::vector<std::size_t> shape;
  std::span<const std::byte> bytes;
};

struct ArrayFile {
  struct Entry {
    std::string name, dtype;
    std::vector<std::size_t> shape;
    std::size_t begin = 0, size = 0;  ///< in `data`
  };
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;  ///< by their place in the file
  std::vector<std::byte> data;

  const Entry* find(const std::string& name) const;
  std::span<const std::byte> bytes(const Entry& entry) const {
    return std::span(data).subspan(entry.begin, entry.size);
  }
};

/// OutOfDiskError when there is no room, RuntimeEnvError when the folder cannot be written.
troupe::Status write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                         std::span<const ArrayView> arrays);
troupe::Result<ArrayFile> read_safetensors(const std::filesystem::path& path);
/// The words alone, without the data (whose size is checked, its hash is not).
troupe::Result<std::map<std::string, std::string>> read_metadata(const std::filesystem::path& path);

}  // namespace apps
