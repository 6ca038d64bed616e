// Counted things behind the public handles: object entries, store buffers, actor handles, streams.
//
// The public templates see only these bases; what they are is the runtime's business (core/owner). A Ptr is one owner.
//
// Invariants
//   CTD-1  last_released() is called when a count falls from 1 to 0, on the thread that dropped it; the runtime may
//          still find the thing in a table then: try_retain refuses it, and a new one takes its place.
// Thread rule: retain and release may be called from any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::detail {

class Counted {
 public:
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_released();
  }
  /// Adds an owner unless the last one is gone already.
  bool try_retain() noexcept {
    std::uint32_t seen = count_.load(std::memory_order_relaxed);
    while (seen != 0)
      if (count_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  std::uint32_t use_count() const noexcept { return count_.load(std::memory_order_relaxed); }

 protected:
  Counted() = default;
  virtual ~Counted() = default;
  virtual void last_released() noexcept = 0;
  std::atomic<std::uint32_t> count_{0};
};

template <class C>
class Ptr {
 public:
  Ptr() = default;
  explicit Ptr(C* thing) noexcept : thing_(thing) { if (thing_) thing_->retain(); }
  /// Takes over an owner that was counted already.
  static Ptr adopt(C* thing) noexcept { Ptr p; p.thing_ = thing; return p; }
  Ptr(const Ptr& other) noexcept : Ptr(other.thing_) {}
  Ptr(Ptr&& other) noexcept : thing_(std::exchange(other.thing_, nullptr)) {}
  Ptr& operator=(Ptr other) noexcept { std::swap(thing_, other.thing_); return *this; }
  ~Ptr() { if (thing_) thing_->release(); }

  C* get() const noexcept { return thing_; }
  C& operator*() const noexcept { return *thing_; }
  C* operator->() const noexcept { return thing_; }
  explicit operator bool() const noexcept { return thing_ != nullptr; }
  bool operator==(const Ptr&) const = default;
  /// Gives the counted owner away.
  C* detach() noexcept { return std::exchange(thing_, nullptr); }

 private:
  C* thing_ = nullptr;
};

/// An object that this process owns or borrows.
class ObjectBase : public Counted {
 public:
  enum State : std::uint8_t { kPending = 0, kReady = 1, kFailed = 2 };
  State state() const noexcept { return State(state_.load(std::memory_order_acquire)); }

 protected:
  std::atomic<std::uint8_t> state_{kPending};
};

/// Memory of an object store, mapped here (data) or known by name only (data is null until it was fetched).
class BufferBase : public Counted {
 public:
  const std::byte* data() const noexcept { return data_.load(std::memory_order_acquire); }
  std::size_t size() const noexcept { return size_; }

 protected:
  std::atomic<const std::byte*> data_{nullptr};
  std::size_t size_ = 0;
};

/// What a process knows of an actor that it holds a handle to.
class HandleBase : public Counted {};

/// The reading end of a generator.
class StreamBase : public Counted {};

using ObjectPtr = Ptr<ObjectBase>;
using BufferPtr = Ptr<BufferBase>;
using HandlePtr = Ptr<HandleBase>;
using StreamPtr = Ptr<StreamBase>;

/// What rides beside the bytes of a value: the bytes name these by index.
class Attachments {
 public:
  std::vector<ObjectPtr> objects;
  std::vector<BufferPtr> buffers;
  std::vector<HandlePtr> handles;
  bool empty() const { return objects.empty() && buffers.empty() && handles.empty(); }
};

/// A byte string that keeps short contents in itself.
class Bytes {
 public:
  static constexpr std::size_t kInline = 24;
  Bytes() = default;
  explicit Bytes(std::size_t size) : size_(size) { if (size > kInline) heap_ = new std::byte[size]; }
  Bytes(const std::byte* data, std::size_t size);
  Bytes(Bytes&& other) noexcept { take(other); }
  Bytes& operator=(Bytes&& other) noexcept { if (this != &other) { free(); take(other); } return *this; }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { free(); }

  std::byte* data() noexcept { return size_ > kInline ? heap_ : small_; }
  const std::byte* data() const noexcept { return size_ > kInline ? heap_ : small_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void free() noexcept { if (size_ > kInline) delete[] heap_; }
  void take(Bytes& other) noexcept;

  std::size_t size_ = 0;
  union { std::byte small_[kInline] = {}; std::byte* heap_; };
};

inline Bytes::Bytes(const std::byte* data, std::size_t size) : Bytes(size) {
  for (std::size_t i = 0; size <= kInline && i < size; ++i) small_[i] = data[i];
  if (size > kInline) __builtin_memcpy(heap_, data, size);
}
inline void Bytes::take(Bytes& other) noexcept {
  size_ = std::exchange(other.size_, 0);
  if (size_ > kInline) heap_ = other.heap_;
  else __builtin_memcpy(small_, other.small_, kInline);
}

/// An encoded value: body bytes here, or in a store buffer when large, and its attachments.
struct Value {
  Bytes body;
  BufferPtr large_body;
  std::unique_ptr<Attachments> attachments;

  const std::byte* data() const noexcept { return large_body ? large_body->data() : body.data(); }
  std::size_t size() const noexcept { return large_body ? large_body->size() : body.size(); }
};

}  // namespace troupe::detail
