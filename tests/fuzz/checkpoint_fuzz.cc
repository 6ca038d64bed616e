// RCK-2, TST-2, TCK-3 and the other files that a program is given: whatever is in them, reading gives a value or a
// typed error, within memory that the file's size bounds. The files are valid ones with a few edits; where a hash
// guards what is behind it, it is often made right again, so that the edits are seen by more than the hash.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <xxhash.h>

#include "apps/rl/training/checkpoint.h"
#include "apps/train/checkpoint/checkpoint.h"
#include "apps/common/safetensors/safetensors.h"
#include "apps/train/data/digits.h"
#include "apps/train/data/npy.h"
#include "core/base/check.h"
#include "core/base/fd.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using fuzz::Input;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kRlHead = 32;

Bytes bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Files that are written once and read many times, without a disk.
class File {
 public:
  explicit File(const Bytes& bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    (void)!::write(fd_.get(), bytes.data(), bytes.size());
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

/// A folder for what the program's own functions write.
class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "troupe-fuzz-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

const train::Layout& layout() {
  static const train::Layout instance{{"w", {2, 4}, 0, 8, true}, {"b", {2}, 8, 2, false}};
  return instance;
}
const std::map<std::string, std::string> kSetting{{"schedule", "constant"}, {"sampler", "all"}};

struct Samples {
  Samples() {
    const Folder folder;
    rl::Checkpoint checkpoint;
    checkpoint.policy.spec = rl::task_of(checkpoint.config).value().policy;
    checkpoint.learner = rl::make_learner(checkpoint.config, checkpoint.policy.spec)->save();
    checkpoint.policy.params = checkpoint.learner.get<float>("params");
    checkpoint.log.recent = {10, 20};
    checkpoint.log.curve = {{100, 15.0f}, {200, 20.0f}};
    checkpoint.log.metrics = {"kl", "entropy"}, checkpoint.log.learning = {{100, {0.01f, 0.6f}}};
    TROUPE_CHECK(rl::save_checkpoint(folder / "rl", checkpoint).ok(), "the sample is written");
    TROUPE_CHECK(rl::save_policy(folder / "policy", checkpoint.policy).ok(), "the sample is written");
    train::Snapshot<float> snapshot;
    snapshot.step = 7;
    snapshot.words = {{"model", "tiny"}};
    snapshot.parameters.assign(10, 0.5f);
    snapshot.moments[0].assign(10, 1.0f);
    TROUPE_CHECK(train::save_snapshot(folder / "train", layout(), snapshot, kSetting).ok(), "the sample is written");
    rl_checkpoint = bytes_of_file(folder / "rl");
    policy = bytes_of_file(folder / "policy");
    train_checkpoint = bytes_of_file(folder / "train");
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    header.resize(117, ' ');
    header += '\n';
    const std::string start = std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + '\0' + header;
    const auto text = std::as_bytes(std::span(start));
    npy.assign(text.begin(), text.end());
    npy.resize(npy.size() + 24);
    TROUPE_CHECK(rl::load_checkpoint(File(rl_checkpoint).path()).ok(), "the sample is good");
    TROUPE_CHECK(rl::load_policy(File(policy).path()).ok(), "the sample is good");
    TROUPE_CHECK(train::load_snapshot<float>(File(train_checkpoint).path(), layout(), kSetting).ok(), "it is good");
    TROUPE_CHECK(train::read_npy<float>(File(npy).path()).ok(), "the sample is good");
  }
  Bytes rl_checkpoint, policy, train_checkpoint, npy;
};

/// The head of a file of apps/rl says the size and the hash of what follows.
void mend_head(Bytes& bytes) {
  if (bytes.size() < kRlHead) return;
  const std::uint64_t size = bytes.size() - kRlHead, hash = XXH3_64bits(bytes.data() + kRlHead, size);
  std::memcpy(bytes.data() + 16, &size, 8);
  std::memcpy(bytes.data() + 24, &hash, 8);
}
/// The header of a safetensors file says its own size.
void mend_size(Bytes& bytes, std::size_t data) {
  if (bytes.size() < 8 + data) return;
  const std::uint64_t size = bytes.size() - 8 - data;
  std::memcpy(bytes.data(), &size, 8);
}

void judge(const ErrorPtr& error) {
  if (!error) return;
  const ErrorCode code = error->code();
  TROUPE_CHECK(code == ErrorCode::kSerialization || code == ErrorCode::kInvalidArgument, "a bad file has a type");
}

void run(Input input) {
  static const Samples samples;
  const std::uint8_t which = input.byte();
  const bool mended = which & 64;
  Bytes bytes;
  switch (which % 6) {
    case 0: bytes = samples.rl_checkpoint; break;
    case 1: bytes = samples.policy; break;
    case 2:
    case 3: bytes = samples.train_checkpoint; break;
    case 4: bytes = samples.npy; break;
    default: break;
  }
  if (which % 6 == 5) {
    Bytes text;
    for (const char c : std::string_view("p0,p1,digit\n")) text.push_back(std::byte(c));
    for (int line = 0; line < 3; ++line) {
      for (int pixel = 0; pixel < 64; ++pixel) text.push_back(std::byte('7')), text.push_back(std::byte(','));
      text.push_back(std::byte('3')), text.push_back(std::byte('\n'));
    }
    fuzz::edit_all(text, input);
    const fuzz::Exact exact(text);
    const fuzz::MemoryWatch memory;
    const auto digits =
        train::parse_digits({reinterpret_cast<const char*>(exact.view().data()), exact.view().size()}, "fuzz");
    judge(digits.ok() ? nullptr : digits.error_ptr());
    return memory.require(64 * text.size() + (64 << 10), "the digits");
  }
  fuzz::edit_all(bytes, input);
  if (mended && which % 6 < 2) mend_head(bytes);
  if (mended && which % 6 / 2 == 1) mend_size(bytes, 80);
  const File file(bytes);
  const fuzz::MemoryWatch memory;
  switch (which % 6) {
    case 0:
    case 1: {
      const auto policy = rl::load_policy(file.path());
      const auto checkpoint = rl::load_checkpoint(file.path());
      judge(policy.ok() ? nullptr : policy.error_ptr());
      judge(checkpoint.ok() ? nullptr : checkpoint.error_ptr());
      break;
    }
    case 2: {
      const auto snapshot = train::load_snapshot<float>(file.path(), layout(), kSetting);
      judge(snapshot.ok() ? nullptr : snapshot.error_ptr());
      if (snapshot.ok()) TROUPE_CHECK(snapshot->parameters.size() == 10, "a snapshot fits its layout");
      break;
    }
    case 3: {
      const auto arrays = apps::read_safetensors(file.path());
      const auto words = apps::read_metadata(file.path());
      judge(arrays.ok() ? nullptr : arrays.error_ptr());
      judge(words.ok() ? nullptr : words.error_ptr());
      if (arrays.ok())
        for (const auto& entry : arrays->entries)
          TROUPE_CHECK(arrays->bytes(entry).size() == entry.size, "an array lies in its file");
      break;
    }
    default: {
      const auto array = train::read_npy<float>(file.path());
      judge(array.ok() ? nullptr : array.error_ptr());
      if (!array.ok()) break;
      std::size_t count = 1;
      for (const std::size_t n : array->shape) count *= n;
      TROUPE_CHECK(count == array->values.size(), "an array has what its shape says");
    }
  }
  memory.require(64 * bytes.size() + (256 << 10), "a file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run({data, size});
  return 0;
}
