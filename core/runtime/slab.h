// Slab: things in chunks, found by a 64-bit handle of index and generation without hashing; a handle of an earlier use
// of a slot finds no later thing, until the slot's generation comes round (after 2^32 - 1 uses of it).
//
// Thread rule: none of its own; one lock guards it. Addresses are stable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace troupe::worker {

/// `Generation`: smaller ones are for tests.
template <class T, class Generation = std::uint32_t>
class Slab {
 public:
  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Makes a thing; its constructor gets its handle first. Handles are never 0.
  template <class... A> T* make(A&&... arguments) {
    if (free_.empty()) grow();
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = at(index);
    ++live_;
    slot.used = true;
    return ::new (static_cast<void*>(slot.memory))
        T(std::uint64_t(slot.generation) << 32 | index, std::forward<A>(arguments)...);
  }
  void destroy(T* thing, std::uint64_t handle) {
    Slot& slot = at(std::uint32_t(handle));
    thing->~T();
    slot.used = false;
    if (++slot.generation == 0) ++slot.generation;  // or slot 0 had handle 0
    --live_;
    free_.push_back(std::uint32_t(handle));
  }
  /// Null when the thing is gone.
  T* find(std::uint64_t handle) {
    const std::uint32_t index = std::uint32_t(handle);
    if (index >= chunks_.size() * kChunk) return nullptr;
    Slot& slot = at(index);
    if (!slot.used || slot.generation != handle >> 32) return nullptr;
    return std::launder(reinterpret_cast<T*>(slot.memory));
  }
  std::size_t live() const { return live_; }
  template <class F> void for_each(F&& f) {
    for (auto& chunk : chunks_)
      for (std::size_t i = 0; i < kChunk; ++i)
        if (chunk[i].used) f(*std::launder(reinterpret_cast<T*>(chunk[i].memory)));
  }

 private:
  static constexpr std::size_t kChunk = 256;
  struct Slot {
    alignas(T) std::byte memory[sizeof(T)];
    Generation generation = 1;
    bool used = false;
  };
  Slot& at(std::uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  void grow() {
    const std::uint32_t first = std::uint32_t(chunks_.size() * kChunk);
    chunks_.push_back(std::make_unique<Slot[]>(kChunk));
    free_.reserve(chunks_.size() * kChunk);
    for (std::uint32_t i = kChunk; i-- > 0;) free_.push_back(first + i);
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
};

}  // namespace troupe::worker
