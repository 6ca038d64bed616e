#include "objectstore/arena/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace troupe::store {
namespace {

Error system_error(const std::string& what) { return Error("object store: " + what + ": " + std::strerror(errno)); }

Result<std::byte*> map(int fd, std::uint64_t size, int protection, int flags, const char* what) {
  void* data = mmap(nullptr, size, protection, flags, fd, 0);
  if (data == MAP_FAILED) return system_error(std::string("mmap of ") + what + ", " + std::to_string(size) + " bytes");
  return static_cast<std::byte*>(data);
}

}  // namespace

Result<UniqueFd> make_memfd(const char* name, std::uint64_t size) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return system_error("memfd_create");
  if (ftruncate(fd.get(), off_t(size)) != 0)
    return system_error("sizing a memfd to " + std::to_string(size) +
                        " bytes (see ulimit -f, and choose a smaller object store)");
  // A client that could shrink it could make the daemon fault.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing a memfd");
  return fd;
}

Result<UniqueFd> reopen_read_only(const UniqueFd& fd) {
  UniqueFd read_only(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (read_only.get() < 0) return system_error("reopening a memfd read-only (is /proc mounted?)");
  return read_only;
}

Result<UniqueFd> duplicate(const UniqueFd& fd) {
  UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) return system_error("duplicating a descriptor");
  return copy;
}

Result<std::uint64_t> file_size(const UniqueFd& fd) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return system_error("fstat");
  return std::uint64_t(status.st_size);
}

Mapping::~Mapping() {
  if (data_) munmap(data_, size_);
}

Result<Mapping> Mapping::read_write(const UniqueFd& fd, std::uint64_t size) {
  auto data = map(fd.get(), size, PROT_READ | PROT_WRITE, MAP_SHARED, "shared memory");
  if (!data.ok()) return data.error_ptr();
  return Mapping(*data, size);
}

Result<Mapping> Mapping::read_only(const UniqueFd& fd, std::uint64_t size) {
  auto data = map(fd.get(), size, PROT_READ, MAP_SHARED, "shared memory (read-only)");
  if (!data.ok()) return data.error_ptr();
  return Mapping(*data, size);
}

Result<Mapping> Mapping::anonymous(std::uint64_t size) {
  auto data = map(-1, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, "private memory");
  if (!data.ok()) return data.error_ptr();
  return Mapping(*data, size);
}

Result<Mapping> Mapping::address_space(std::uint64_t size) {
  auto data = map(-1, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, "address space");
  if (!data.ok()) return data.error_ptr();
  return Mapping(*data, size);
}

Status Mapping::map_over(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size) {
  void* at = mmap(data_ + offset, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), off_t(offset));
  if (at == MAP_FAILED) return system_error("mapping a leased range");
  advise_huge(offset, size);
  return {};
}

void Mapping::make_private(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, bool writable) noexcept {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* at = mmap(data_ + offset, size, protection, MAP_PRIVATE | MAP_FIXED, fd.get(), off_t(offset));
  if (at == MAP_FAILED) munmap(data_ + offset, size);
}

void Mapping::make_private_zero() noexcept {
  if (!data_) return;
  void* at = mmap(data_, size_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED) munmap(data_, size_);
}

void Mapping::advise_huge(std::uint64_t offset, std::uint64_t size) const {
  (void)madvise(data_ + offset, size, MADV_HUGEPAGE);  // a wish: refused where huge pages are off
}

Status Mapping::protect(std::uint64_t offset, std::uint64_t size, bool writable) const {
  if (mprotect(data_ + offset, size, writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0)
    return system_error("mprotect");
  return {};
}

Status Mapping::populate(std::uint64_t offset, std::uint64_t size) const {
  while (madvise(data_ + offset, size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINTR && errno != EAGAIN) return system_error("populating " + std::to_string(size) + " bytes");
  }
  return {};
}

}  // namespace troupe::store
