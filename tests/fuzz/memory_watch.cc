#include "tests/fuzz/memory_watch.h"

#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> held{0}, most_held{0};

void* taken(void* memory) {
  if (!memory) throw std::bad_alloc();
  const std::size_t now = held.fetch_add(::malloc_usable_size(memory)) + ::malloc_usable_size(memory);
  std::size_t most = most_held.load();
  while (now > most && !most_held.compare_exchange_weak(most, now)) {}
  return memory;
}
void* taken_or_null(std::size_t size) noexcept {
  void* memory = std::malloc(size ? size : 1);
  return memory ? taken(memory) : nullptr;
}
void give_back(void* memory) noexcept {
  if (!memory) return;
  held.fetch_sub(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The aligned forms keep the library's own. The nothrow ones end in these as well, but for a sanitizer's, whose memory
// may not be given back here.
void* operator new(std::size_t size) { return taken(std::malloc(size ? size : 1)); }
void* operator new[](std::size_t size) { return taken(std::malloc(size ? size : 1)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return taken_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return taken_or_null(size); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory); }

namespace troupe::fuzz {

MemoryWatch::MemoryWatch() : before_(held.load()) { most_held.store(before_); }

std::size_t MemoryWatch::most() const {
  const std::size_t now = most_held.load();
  return now > before_ ? now - before_ : 0;
}

void MemoryWatch::require(std::size_t limit, const char* what) const {
  if (most() <= limit) return;
  std::fprintf(stderr, "%s: %zu bytes were taken, at most %zu may be\n", what, most(), limit);
  std::abort();
}

}  // namespace troupe::fuzz
