// Slab<T>: many Ts of one kind at stable addresses, made and destroyed in any order, found by a handle that goes stale.
//
// Invariants
//   SL-1  A handle finds its own T or nothing: every reuse of a place changes its generation. Handle 0 finds nothing.
//   SL-2  A T never moves. Memory grows in blocks of kBlock and is kept for reuse, last in, first out.
// Thread rule: one thread, or under one lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace troupe {

template <class T>
class Slab {
 public:
  /// Low half: place + 1; high half: generation.
  using Handle = std::uint64_t;

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { clear(); }

  template <class... Args> std::pair<Handle, T*> emplace(Args&&... args) {
    const std::uint32_t index = free_.empty() ? grow() : free_.back();
    Cell& cell = at(index);
    T* value = ::new (static_cast<void*>(cell.space)) T(std::forward<Args>(args)...);
    free_.pop_back();  // after what may throw
    cell.used = true;
    ++size_;
    return {std::uint64_t(cell.generation) << 32 | (index + 1), value};
  }
  T* find(Handle handle) {
    const auto place = static_cast<std::uint32_t>(handle);
    if (place == 0 || place > blocks_.size() * kBlock) return nullptr;
    Cell& cell = at(place - 1);
    return cell.used && cell.generation == handle >> 32 ? cell.value() : nullptr;
  }
  /// False when the handle is stale.
  bool erase(Handle handle) {
    T* value = find(handle);
    if (!value) return false;
    const std::uint32_t index = static_cast<std::uint32_t>(handle) - 1;
    Cell& cell = at(index);
    cell.used = false;
    ++cell.generation;
    --size_;
    value->~T();
    free_.push_back(index);
    return true;
  }
  void clear() {
    for (std::uint32_t index = 0; index < blocks_.size() * kBlock; ++index) {
      if (Cell& cell = at(index); cell.used) erase(std::uint64_t(cell.generation) << 32 | (index + 1));
    }
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kBlock = 256;
  struct Cell {
    alignas(T) std::byte space[sizeof(T)];
    std::uint32_t generation = 0;
    bool used = false;
    T* value() { return std::launder(reinterpret_cast<T*>(space)); }
  };

  Cell& at(std::uint32_t index) { return blocks_[index / kBlock][index % kBlock]; }
  std::uint32_t grow() {
    const auto first = static_cast<std::uint32_t>(blocks_.size() * kBlock);
    free_.reserve(first + kBlock);  // so that erase never allocates
    blocks_.push_back(std::make_unique<Cell[]>(kBlock));
    for (std::uint32_t i = kBlock; i-- > 0;) free_.push_back(first + i);
    return first;
  }

  std::vector<std::unique_ptr<Cell[]>> blocks_;
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
};

}  // namespace troupe
