// OutputTail: the end of what a process has printed, for messages about its death.
//
// Pure. One thread at a time.
//
//   OTL-1  It holds at most `most` bytes, however much was printed; of a line whose beginning is lost nothing is shown,
//          unless it is the only one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

class OutputTail {
 public:
  explicit OutputTail(std::size_t most = 16 * 1024) : most_(most) {}

  void add(std::string_view bytes);
  /// The last lines, at most `count`, oldest first.
  [[nodiscard]] std::vector<std::string> lines(std::size_t count) const;

 private:
  std::size_t most_;
  bool cut_ = false;
  std::string bytes_;
};

}  // namespace rl
