#include "core/base/output.h"

#include <stdio_ext.h>

#include <cstdio>
#include <iostream>
#if defined(__GLIBCXX__)
#include <ext/stdio_sync_filebuf.h>
#endif

namespace troupe {
namespace {

/// std::cout that writes through stdio has no buffer of its own; after sync_with_stdio(false) it has.
bool cout_has_a_buffer() {
#if defined(__GLIBCXX__)
  static const std::streambuf* const seen = std::cout.rdbuf();
  static const bool was_synced = dynamic_cast<const __gnu_cxx::stdio_sync_filebuf<char>*>(seen) != nullptr;
  return !was_synced || std::cout.rdbuf() != seen;
#else
  return true;
#endif
}

}  // namespace

void line_buffer_output() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cout_has_a_buffer();  // remembers what it is now
}

void flush_call_output() {
  if (::__fpending(stdout) != 0) std::fflush(stdout);
  if (cout_has_a_buffer()) [[unlikely]] std::cout.flush();
}

void flush_output() {
  if (::ftrylockfile(stdout) != 0) return;
  ::fflush_unlocked(stdout);
  ::funlockfile(stdout);
}

}  // namespace troupe
