// Mapping and memfd helpers: the only place of the store that calls mmap and memfd_create.
//
// Thread rule: a Mapping is a value; protect/advise are system calls and may run anywhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include <troupe/result.h>
#include "core/base/fd.h"

namespace troupe::store {

/// An anonymous shared file of this size, sparse, close-on-exec, sealed against shrinking and growing.
Result<UniqueFd> make_memfd(const char* name, std::uint64_t size);
/// The same file through a descriptor that cannot write.
Result<UniqueFd> reopen_read_only(const UniqueFd& fd);
Result<UniqueFd> duplicate(const UniqueFd& fd);
Result<std::uint64_t> file_size(const UniqueFd& fd);

/// Owns one mmap'd range of addresses.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  static Result<Mapping> read_write(const UniqueFd& fd, std::uint64_t size);
  static Result<Mapping> read_only(const UniqueFd& fd, std::uint64_t size);
  /// Private zeroed memory, used where touched.
  static Result<Mapping> anonymous(std::uint64_t size);
  /// Addresses only: nothing may be touched until map_over.
  static Result<Mapping> address_space(std::uint64_t size);
  /// Puts the file's range at the same offset of this mapping, writable. Page aligned.
  Status map_over(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size);

  /// For a forked child. The range becomes a private view of the file: reads see the file's bytes, writes are this
  /// process's own. No lock, no allocation; if it cannot be had, the range is unmapped: a touch then faults.
  void make_private(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, bool writable) noexcept;
  /// The same, with zeros instead of a file's bytes, for all of it.
  void make_private_zero() noexcept;

  /// Asks for huge pages; has no effect where they are off.
  void advise_huge(std::uint64_t offset, std::uint64_t size) const;
  Status protect(std::uint64_t offset, std::uint64_t size, bool writable) const;
  /// Makes all pages present and writable without changing them. An error where the machine has none left.
  Status populate(std::uint64_t offset, std::uint64_t size) const;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  Mapping(std::byte* data, std::uint64_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace troupe::store
