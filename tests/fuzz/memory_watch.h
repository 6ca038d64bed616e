// MemoryWatch: how much memory a piece of code asked operator new for at most, on all threads. Link memory_watch.cc to
// the fuzzer: it replaces the operators of the program.
//
// Thread rule: one watch at a time.
#pragma once
#include <cstddef>

namespace troupe::fuzz {

class MemoryWatch {
 public:
  MemoryWatch();
  /// Bytes that were held at once since it was made, beyond those held then.
  std::size_t most() const;
  /// Ends the program, and says so, when it was more.
  void require(std::size_t limit, const char* what) const;

 private:
  std::size_t before_;
};

}  // namespace troupe::fuzz
