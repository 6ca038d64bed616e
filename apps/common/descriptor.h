// A file that is open, and errors of the system as typed ones: for the files of this folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <troupe/result.h>

namespace apps {

/// Closes what it holds. Movable; -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  void reset();

 private:
  int fd_ = -1;
};

/// From errno: "`what` `path`: why". OutOfDiskError where there is no room (disk, quota, limit of the file's size),
/// else InvalidArgumentError.
[[nodiscard]] troupe::Status system_error(const std::string& what, const std::filesystem::path& path);

}  // namespace apps
