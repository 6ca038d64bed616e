// What libdatagen_hdf5.so does for the format `minari`: everything that needs HDF5.
//
// Any thread: the library is entered by one at a time. Errors are thrown: typed ones.
//
// HDP-1  What it makes are bytes in memory, a function of what it was given: no times in them, and the bounds of HDF5's
//        file format are fixed (at most 1.8).
// HDP-2  A file that is read may be anybody's: memory is asked for by the size that the file has, not by what it says;
//        nothing outside of the file's folder is opened, neither by links nor as the bytes of an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/table/schema.h"

namespace datagen {

/// A data set of HDF5; `shape` begins with the steps.
struct Hdf5View {
  Type type = Type::kFloat32;
  std::vector<std::size_t> shape = {};
  std::span<const std::byte> bytes = {};
};
struct Hdf5Array {
  Type type = Type::kFloat32;
  std::vector<std::size_t> shape = {};
  std::vector<std::byte> bytes = {};
};

/// An episode of T steps; observations have T + 1.
template <class Array> struct MinariEpisodeOf {
  std::uint64_t id = 0;
  std::optional<std::int64_t> seed = {};
  Array observations, actions, rewards, terminations, truncations;  // rewards: float64; the last two: bool
};
using MinariEpisodeView = MinariEpisodeOf<Hdf5View>;
using MinariEpisode = MinariEpisodeOf<Hdf5Array>;

/// A file of episodes, in memory.
class Hdf5ShardFile {
 public:
  virtual ~Hdf5ShardFile() = default;
  virtual void add(const MinariEpisodeView& episode) = 0;
  /// The file. Once.
  virtual std::vector<std::byte> finish() = 0;
};

class Hdf5Episodes {
 public:
  virtual ~Hdf5Episodes() = default;
  /// SerializationError for what is not there, or of a kind that tables have not.
  virtual MinariEpisode read(std::uint64_t id) = 0;
};

/// "episode_ID" of the main file is that of `file`, which lies beside it.
struct Hdf5Link {
  std::uint64_t id = 0;
  std::string file;
};

class Hdf5Plugin {
 public:
  virtual ~Hdf5Plugin() = default;
  [[nodiscard]] virtual std::string library_version() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Hdf5ShardFile> create() const = 0;
  [[nodiscard]] virtual std::vector<std::byte> links(std::span<const Hdf5Link> links) const = 0;
  /// NotFoundError, or SerializationError for what is no HDF5.
  [[nodiscard]] virtual std::unique_ptr<Hdf5Episodes> open(const std::filesystem::path& path) const = 0;
};

inline constexpr int kHdf5PluginVersion = 1;
inline constexpr const char* kHdf5PluginFunction = "datagen_hdf5_plugin";

/// RuntimeEnvError where it cannot be opened (PLG-2); opened once a process.
[[nodiscard]] troupe::Result<const Hdf5Plugin*> hdf5_plugin();

}  // namespace datagen
