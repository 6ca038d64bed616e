// Checks of what only a bug in this code can break. Bad input and bad weather are a Status, never a check.
//
// TROUPE_CHECK(condition, "what it means"): stays in release builds; when it fails, prints the place and aborts.
#pragma once
#include <cstdio>
#include <cstdlib>

namespace troupe::detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* condition, const char* meaning,
                                                                const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, condition, meaning);
  std::fflush(stderr);
  std::abort();
}

}  // namespace troupe::detail

// A macro: a function would see neither the text of the condition nor its place.
#define TROUPE_CHECK(condition, meaning)             \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::troupe::detail::check_failed(#condition, meaning, __FILE__, __LINE__))
