// Memory that begins at a multiple of 64 bytes, which Arrow and vector instructions want. What resize() of such a
// vector adds has no values yet: it is written next, and zeros before would cost as much again.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace datagen {

template <class T> struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U> AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  template <class U> void construct(U* at) noexcept { ::new (static_cast<void*>(at)) U; }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kAlignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

using AlignedBytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

}  // namespace datagen
