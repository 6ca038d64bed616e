#include "core/net/ring/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#if defined(__SANITIZE_THREAD__)
#define TROUPE_NET_ONE_MAPPING 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TROUPE_NET_ONE_MAPPING 1
#endif
#endif

#ifdef TROUPE_NET_ONE_MAPPING
#include <map>
#include <mutex>
#endif

namespace troupe::net {
namespace {

Error system_error(const std::string& what) { return Error(what + ": " + std::strerror(errno)); }

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Result<UniqueFd> create_shared(const char* name, std::size_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return system_error("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return system_error("ftruncate of a memfd");
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) return system_error("sealing a memfd");
  return fd;
}

SharedMapping::Region::~Region() { ::munmap(data, size); }

Result<SharedMapping> SharedMapping::open(int fd, std::size_t size_min, std::size_t size_max) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("fstat of shared memory");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || info.st_size <= 0 || size < size_min || size > size_max) {
    return make_error<InvalidArgumentError>("shared memory of " + std::to_string(info.st_size) + " bytes, expected " +
                                            std::to_string(size_min) + " to " + std::to_string(size_max));
  }
  if (const int seals = ::fcntl(fd, F_GET_SEALS); seals < 0 || (seals & kSeals) != kSeals) {
    return make_error<InvalidArgumentError>("shared memory that can still change its size");
  }
  auto map = [&]() -> std::shared_ptr<Region> {
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : std::make_shared<Region>(static_cast<std::byte*>(at), size);
  };
  SharedMapping mapping;
#ifdef TROUPE_NET_ONE_MAPPING
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Region>> regions;
  std::lock_guard lock(mutex);
  auto& known = regions[{info.st_dev, info.st_ino}];
  mapping.region_ = known.lock();
  if (!mapping.region_) known = mapping.region_ = map();
#else
  mapping.region_ = map();
#endif
  if (!mapping.region_) return system_error("mapping shared memory");
  return mapping;
}

}  // namespace troupe::net
