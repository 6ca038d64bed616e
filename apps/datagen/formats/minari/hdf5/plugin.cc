// libdatagen_hdf5.so: see hdf5_plugin.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/datagen/formats/minari/hdf5/handle.h"
#include "apps/datagen/formats/minari/hdf5_plugin.h"

namespace datagen {
namespace {

/// Debian's HDF5 is not made for several threads.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

constexpr std::size_t kDenseMax = 1032;  // by which deflate makes bytes less, at best: more is no data set of ours
constexpr std::size_t kMemoryStep = 1 << 20;  // by which a file in memory grows

/// NumPy's bool, as h5py has it.
Hdf5Handle bool_type() {
  Hdf5Handle type(H5Tenum_create(H5T_STD_I8LE), &H5Tclose, "make a type");
  std::int8_t value = 0;
  H5Tenum_insert(type.get(), "FALSE", &value);
  value = 1;
  H5Tenum_insert(type.get(), "TRUE", &value);
  return type;
}

Hdf5Handle type_in_file(Type type) {
  const auto copy = [](hid_t of) { return Hdf5Handle(H5Tcopy(of), &H5Tclose, "copy a type"); };
  switch (type) {
    case Type::kBool: return bool_type();
    case Type::kUInt8: return copy(H5T_STD_U8LE);
    case Type::kInt32: return copy(H5T_STD_I32LE);
    case Type::kInt64: return copy(H5T_STD_I64LE);
    case Type::kFloat32: return copy(H5T_IEEE_F32LE);
    case Type::kFloat64: return copy(H5T_IEEE_F64LE);
    default: troupe::InvalidArgumentError("a column of text has no place in an episode").raise();
  }
}

/// Properties of objects without times (HDP-1).
Hdf5Handle timeless(hid_t kind) {
  Hdf5Handle properties(H5Pcreate(kind), &H5Pclose, "make properties");
  hdf5_done(H5Pset_obj_track_times(properties.get(), false), "leave times away");
  return properties;
}

class MemoryFile {
 public:
  MemoryFile() {
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), &H5Pclose, "make properties");
    hdf5_done(H5Pset_fapl_core(access.get(), kMemoryStep, false), "keep a file in memory");
    // From the earliest on: in a newer superblock H5Fget_file_image changes a flag and leaves its checksum as it was.
    hdf5_done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18), "fix its format");
    const Hdf5Handle root = timeless(H5P_FILE_CREATE);
    file_ = Hdf5Handle(H5Fcreate("shard", H5F_ACC_TRUNC, root.get(), access.get()), &H5Fclose, "make a file in memory");
  }
  [[nodiscard]] hid_t get() const { return file_.get(); }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    hdf5_done(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush a file in memory");
    const ssize_t size = H5Fget_file_image(file_.get(), nullptr, 0);
    std::vector<std::byte> out(size > 0 ? static_cast<std::size_t>(size) : 0);
    if (size <= 0 || H5Fget_file_image(file_.get(), out.data(), out.size()) != size)
      troupe::SerializationError("HDF5 cannot give a file in memory").raise();
    return out;
  }

 private:
  Hdf5Handle file_;
};

template <class T> void put_attribute(hid_t group, const char* name, hid_t file_type, hid_t memory_type, T value) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), &H5Sclose, "make a space");
  const Hdf5Handle attribute(H5Acreate2(group, name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), &H5Aclose,
                             std::string("make the attribute ") + name);
  hdf5_done(H5Awrite(attribute.get(), memory_type, &value), std::string("write the attribute ") + name);
}
void put_number(hid_t group, const char* name, std::int64_t value) {
  put_attribute(group, name, H5T_STD_I64LE, H5T_NATIVE_INT64, value);
}
void put_number(hid_t group, const char* name, double value) {
  put_attribute(group, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, value);
}

void put_array(hid_t group, const char* name, const Hdf5View& array) {
  const std::vector<hsize_t> extent(array.shape.begin(), array.shape.end());
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), &H5Sclose,
                         "make a space");
  const Hdf5Handle type = type_in_file(array.type);
  const Hdf5Handle properties = timeless(H5P_DATASET_CREATE);
  const Hdf5Handle set(H5Dcreate2(group, name, type.get(), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                       &H5Dclose, std::string("make ") + name);
  hdf5_done(H5Dwrite(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.bytes.data()),
            std::string("write ") + name);
}

/// What minari's collector leaves as attributes: sum, mean, deviation, least and greatest.
void put_rewards(hid_t group, std::span<const std::byte> bytes) {
  std::vector<double> rewards(bytes.size() / sizeof(double));
  std::memcpy(rewards.data(), bytes.data(), bytes.size());
  double sum = 0, squares = 0;
  for (const double reward : rewards) sum += reward;
  const auto count = static_cast<double>(rewards.size());
  const double mean = sum / count;
  for (const double reward : rewards) squares += (reward - mean) * (reward - mean);
  put_number(group, "rewards_sum", sum);
  put_number(group, "rewards_mean", mean);
  put_number(group, "rewards_std", std::sqrt(squares / count));
  put_number(group, "rewards_max", *std::ranges::max_element(rewards));
  put_number(group, "rewards_min", *std::ranges::min_element(rewards));
}

std::string episode_name(std::uint64_t id) { return fmt::format("episode_{}", id); }

class ShardInMemory final : public Hdf5ShardFile {
 public:
  void add(const MinariEpisodeView& episode) override {
    const std::lock_guard lock(library_mutex());
    const Hdf5Handle properties = timeless(H5P_GROUP_CREATE);
    const std::string name = episode_name(episode.id);
    const Hdf5Handle group(H5Gcreate2(file_->get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                           &H5Gclose, "make " + name);
    put_number(group.get(), "id", static_cast<std::int64_t>(episode.id));
    if (episode.seed) put_number(group.get(), "seed", *episode.seed);
    put_number(group.get(), "total_steps", static_cast<std::int64_t>(episode.rewards.shape[0]));
    put_rewards(group.get(), episode.rewards.bytes);
    put_array(group.get(), "observations", episode.observations);
    put_array(group.get(), "actions", episode.actions);
    put_array(group.get(), "rewards", episode.rewards);
    put_array(group.get(), "terminations", episode.terminations);
    put_array(group.get(), "truncations", episode.truncations);
  }

  std::vector<std::byte> finish() override {
    const std::lock_guard lock(library_mutex());
    std::vector<std::byte> out = file_->bytes();
    file_.reset();
    return out;
  }

  ShardInMemory() {
    const std::lock_guard lock(library_mutex());
    file_.emplace();
  }
  ~ShardInMemory() override {
    const std::lock_guard lock(library_mutex());
    file_.reset();
  }

 private:
  std::optional<MemoryFile> file_;
};

std::optional<Type> type_from_file(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_ENUM: return size == 1 ? std::optional(Type::kBool) : std::nullopt;
    case H5T_INTEGER:
      if (size == 1 && H5Tget_sign(type) == H5T_SGN_NONE) return Type::kUInt8;
      if (H5Tget_sign(type) == H5T_SGN_NONE) return std::nullopt;
      return size == 4 ? std::optional(Type::kInt32) : size == 8 ? std::optional(Type::kInt64) : std::nullopt;
    case H5T_FLOAT:
      return size == 4 ? std::optional(Type::kFloat32) : size == 8 ? std::optional(Type::kFloat64) : std::nullopt;
    default: return std::nullopt;
  }
}

/// An external link may lead to a file beside the one that has it, and nowhere else (HDP-2). Without this HDF5 follows
/// whole paths, "..", and looks into the working folder too.
herr_t allow_link(const char* parent_file, const char*, const char* child_file, const char*, unsigned*, hid_t, void*) {
  const std::filesystem::path child(child_file);
  std::error_code failed;
  const bool plain = !child.empty() && child == child.filename();
  return plain && std::filesystem::is_regular_file(std::filesystem::path(parent_file).parent_path() / child, failed)
             ? 0
             : -1;
}

/// Properties of access, by which links are followed as allow_link says.
Hdf5Handle careful_access(hid_t kind) {
  Hdf5Handle properties(H5Pcreate(kind), &H5Pclose, "make properties");
  hdf5_done(H5Pset_elink_cb(properties.get(), &allow_link, nullptr), "say which links are followed");
  return properties;
}

/// Bytes of so many numbers; none: more than a file of `most_bytes` gives.
std::optional<std::size_t> bytes_within(std::span<const hsize_t> extent, std::size_t size, std::size_t most_bytes) {
  if (std::ranges::find(extent, hsize_t{0}) != extent.end()) return 0;
  std::size_t bytes = size;
  for (const hsize_t axis : extent) {
    if (axis > most_bytes / bytes) return std::nullopt;
    bytes *= axis;
  }
  return bytes;
}

/// HDP-2: the bytes of an array are in its own file, and not more than can be in it.
std::size_t checked_size(hid_t set, std::span<const hsize_t> extent, std::size_t size, const std::string& what) {
  const Hdf5Handle made(H5Dget_create_plist(set), &H5Pclose, "tell the layout of " + what);
  const Hdf5Handle file(H5Iget_file_id(set), &H5Fclose, "tell the file of " + what);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  hsize_t file_bytes = 0;
  hdf5_done(H5Fget_filesize(file.get(), &file_bytes), "tell the size of the file of " + what);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(made.get()) != 0)
    troupe::SerializationError(what + " says that its bytes are in other files, which are not read").raise();
  const bool in_chunks = layout == H5D_CHUNKED;
  const std::size_t most = std::min<hsize_t>(file_bytes, SIZE_MAX / kDenseMax) * (in_chunks ? kDenseMax : 1);
  std::optional<std::size_t> bytes = bytes_within(extent, size, most);
  if (in_chunks && bytes) {
    std::vector<hsize_t> chunk(extent.size());
    if (H5Pget_chunk(made.get(), static_cast<int>(chunk.size()), chunk.data()) != static_cast<int>(chunk.size()) ||
        !bytes_within(chunk, size, most))
      bytes.reset();
  }
  if (!bytes)
    troupe::SerializationError(
        fmt::format("{} has the extents [{}], more than its file of {} bytes can hold", what, fmt::join(extent, ", "),
                    file_bytes))
        .raise();
  if (*bytes > 0 && H5Dget_storage_size(set) == 0) troupe::SerializationError(what + " has no data").raise();
  return *bytes;
}

class EpisodesOfFile final : public Hdf5Episodes {
 public:
  explicit EpisodesOfFile(const std::filesystem::path& path) : path_(path.string()) {
    const std::lock_guard lock(library_mutex());
    if (!std::filesystem::exists(path)) troupe::NotFoundError("there is no file " + path_).raise();
    file_ = Hdf5Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), &H5Fclose, "open " + path_);
  }
  ~EpisodesOfFile() override {
    const std::lock_guard lock(library_mutex());
    file_ = Hdf5Handle();
  }

  MinariEpisode read(std::uint64_t id) override {
    const std::lock_guard lock(library_mutex());
    const std::string name = episode_name(id);
    const Hdf5Handle access = careful_access(H5P_GROUP_ACCESS);
    const Hdf5Handle group(H5Gopen2(file_.get(), name.c_str(), access.get()), &H5Gclose,
                           "open " + name + " of " + path_);
    MinariEpisode out;
    out.id = id;
    out.observations = array(group.get(), name, "observations");
    out.actions = array(group.get(), name, "actions");
    out.rewards = array(group.get(), name, "rewards");
    out.terminations = array(group.get(), name, "terminations");
    out.truncations = array(group.get(), name, "truncations");
    return out;
  }

 private:
  Hdf5Array array(hid_t group, const std::string& episode, const char* name) const {
    const std::string what = fmt::format("{} of {} in {}", name, episode, path_);
    const Hdf5Handle access = careful_access(H5P_DATASET_ACCESS);
    const Hdf5Handle set(H5Dopen2(group, name, access.get()), &H5Dclose, "open " + what + " as an array");
    const Hdf5Handle in_file(H5Dget_type(set.get()), &H5Tclose, "tell the type of " + what);
    const Hdf5Handle native(H5Tget_native_type(in_file.get(), H5T_DIR_ASCEND), &H5Tclose, "read the type of " + what);
    const Hdf5Handle space(H5Dget_space(set.get()), &H5Sclose, "tell the extent of " + what);
    const auto type = type_from_file(native.get());
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (!type || rank < 1) troupe::SerializationError(what + " has a type that is not read here").raise();
    std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
    Hdf5Array out{.type = *type, .shape = {extent.begin(), extent.end()}};
    out.bytes.resize(checked_size(set.get(), extent, size_of(*type), what));
    hdf5_done(H5Dread(set.get(), native.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.bytes.data()), "read " + what);
    return out;
  }

  std::string path_;
  Hdf5Handle file_;
};

class Hdf5Library final : public Hdf5Plugin {
 public:
  Hdf5Library() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }  // errors are ours to tell

  [[nodiscard]] std::string library_version() const override {
    const std::lock_guard lock(library_mutex());
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
  }
  [[nodiscard]] std::unique_ptr<Hdf5ShardFile> create() const override { return std::make_unique<ShardInMemory>(); }

  [[nodiscard]] std::vector<std::byte> links(std::span<const Hdf5Link> links) const override {
    const std::lock_guard lock(library_mutex());
    const MemoryFile file;
    for (const Hdf5Link& link : links) {
      const std::string name = episode_name(link.id);
      hdf5_done(H5Lcreate_external(link.file.c_str(), ("/" + name).c_str(), file.get(), name.c_str(), H5P_DEFAULT,
                                   H5P_DEFAULT),
                "link " + name);
    }
    return file.bytes();
  }

  [[nodiscard]] std::unique_ptr<Hdf5Episodes> open(const std::filesystem::path& path) const override {
    return std::make_unique<EpisodesOfFile>(path);
  }
};

}  // namespace
}  // namespace datagen

extern "C" __attribute__((visibility("default"))) void* datagen_hdf5_plugin(int version) {
  if (version != datagen::kHdf5PluginVersion) return nullptr;
  static const datagen::Hdf5Library library;
  return const_cast<datagen::Hdf5Plugin*>(static_cast<const datagen::Hdf5Plugin*>(&library));
}
