#include "apps/rl/envs/gym/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

/// Arrays one after the other.
class Places {
 public:
  explicit Places(std::size_t begin) : end_(begin) {}
  /// 0 once it has become too much; nothing overflows: a row is less than 2^32 numbers.
  std::size_t take(std::size_t row_bytes, std::size_t rows) {
    constexpr std::size_t kAlignment = 64;
    if (too_much_ || row_bytes > HostLayout::kBytesMost / rows) {
      too_much_ = true;
      return 0;
    }
    const std::size_t begin = end_;
    end_ = (end_ + row_bytes * rows + kAlignment - 1) / kAlignment * kAlignment;
    too_much_ = end_ > HostLayout::kBytesMost;
    return begin;
  }
  [[nodiscard]] bool too_much() const { return too_much_; }
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::size_t end_;
  bool too_much_ = false;
};

}  // namespace

troupe::Result<HostLayout> HostLayout::of(const Space& observation, const Space& action, std::size_t n) {
  if (n == 0) return troupe::InvalidArgumentError("at least one environment is needed");
  const std::size_t obs_bytes = elements_of(observation) * size_of(dtype_of(observation));
  const std::size_t action_bytes = elements_of(action) * size_of(dtype_of(action));
  Places places(sizeof(HostHeader));
  HostLayout layout{.num_envs = n,
                    .seeds = places.take(sizeof(std::uint64_t), n),
                    .spare_seeds = places.take(sizeof(std::uint64_t), n),
                    .actions = places.take(action_bytes, n),
                    .reward = places.take(sizeof(double), n),
                    .terminated = places.take(1, n),
                    .truncated = places.take(1, n),
                    .is_reset = places.take(1, n),
                    .threw = places.take(1, n),
                    .ended = places.take(sizeof(std::uint32_t), n),
                    .obs = places.take(obs_bytes, n),
                    .final_obs = places.take(obs_bytes, n),
                    .lives = places.take(sizeof(std::int32_t), n),
                    .reasons = places.take(kReasonBytes, n),
                    .bytes = 0};
  layout.bytes = places.end();
  if (places.too_much())  // HMM-1
    return troupe::InvalidArgumentError(
        fmt::format("{} environments with observations of {} bytes and actions of {} bytes: more than the {} GiB that "
                    "one process of environments may share",
                    n, obs_bytes, action_bytes, kBytesMost >> 30));
  return layout;
}

boost::json::object HostLayout::to_json() const {
  return {{"bytes", bytes},
          {"offsets",
           {{"seeds", seeds},
            {"spare_seeds", spare_seeds},
            {"actions", actions},
            {"reward", reward},
            {"terminated", terminated},
            {"truncated", truncated},
            {"is_reset", is_reset},
            {"threw", threw},
            {"ended", ended},
            {"obs", obs},
            {"final_obs", final_obs},
            {"lives", lives},
            {"reasons", reasons}}}};
}

troupe::Result<HostMemory> HostMemory::create() {
  OwnedFd fd(::memfd_create("troupe-gym", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_failure("memfd_create");
  return HostMemory(std::move(fd));
}

troupe::Status HostMemory::grow(const HostLayout& layout, const Space& observation, const Space& action) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(layout.bytes)) != 0) return system_failure("ftruncate");
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)  // HMM-2
    return system_failure("F_ADD_SEALS");
  void* base = ::mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) return system_failure("mmap");
  base_ = static_cast<std::byte*>(base);
  layout_ = layout;
  obs_type_ = dtype_of(observation), obs_width_ = elements_of(observation);
  action_type_ = dtype_of(action), action_width_ = elements_of(action);
  header().magic = HostHeader::kMagic;
  header().version = kHostProtocolVersion;
  return {};
}

HostMemory::HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(layout_, other.layout_);
  std::swap(obs_type_, other.obs_type_);
  std::swap(action_type_, other.action_type_);
  std::swap(obs_width_, other.obs_width_);
  std::swap(action_width_, other.action_width_);
  return *this;
}

HostMemory::~HostMemory() {
  if (base_) ::munmap(base_, layout_.bytes);
}

std::string_view HostMemory::reason(std::size_t env) const {
  const char* text = reinterpret_cast<const char*>(base_ + layout_.reasons + env * kReasonBytes);
  return {text, ::strnlen(text, kReasonBytes)};
}

}  // namespace rl
