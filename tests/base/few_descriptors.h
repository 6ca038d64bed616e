// For tests of what happens when a process has used up its descriptors.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>

#include <vector>

#include "core/base/fd.h"

namespace troupe {

/// GCC's sanitizer of undefined behaviour looks at an object of a class that it has not seen before through a pipe: it
/// ends the process where no descriptor is left for that.
#ifdef TROUPE_SANITIZE_UNDEFINED
inline constexpr bool kSanitizerNeedsDescriptors = true;
#else
inline constexpr bool kSanitizerNeedsDescriptors = false;
#endif

/// As long as it lives, this process can open `left` descriptors more.
class FewDescriptors {
 public:
  explicit FewDescriptors(int left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    for (; left > 0; --left) kept_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit limit = before_;
    limit.rlim_cur = rlim_t(next.get());  // descriptors are given from the lowest: all below are in use
    ::setrlimit(RLIMIT_NOFILE, &limit);
    kept_.clear();
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<UniqueFd> kept_;
};

}  // namespace troupe
