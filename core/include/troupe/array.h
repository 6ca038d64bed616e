// Arrays in shared memory. ArrayBuilder<T> is writable memory of this node's object store; seal() turns it into an
// Array<T>, which is read-only and can be put, passed and got without copying, also deep inside an aggregate.
//
// An Array pins its memory: it stays readable after the last ref to its object is gone, for as long as the Array lives.
// Thread rule: an Array may be read and copied by any thread; a builder belongs to one thread at a time.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

#include <troupe/detail/counted.h>
#include <troupe/error.h>
#include <troupe/object_ref.h>
#include <troupe/serialize.h>

namespace troupe {

namespace detail {
/// Unsealed memory of the store, 64-byte aligned. Throws ObjectStoreFullError. bytes > 0.
struct OpenBuffer { BufferPtr buffer; std::byte* data = nullptr; };
OpenBuffer allocate_buffer(std::size_t bytes);
void seal_buffer(BufferBase& buffer);

/// Sizes of up to eight dimensions, kept in place.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;
  Shape() = default;
  template <class Range> explicit Shape(const Range& sizes) {
    if (std::size(sizes) > kMaxRank) throw InvalidArgumentError("an array has at most 8 dimensions");
    for (std::size_t n : sizes) sizes_[rank_++] = n;
  }
  /// The number of elements; throws InvalidArgumentError when bytes would not fit in size_t.
  std::size_t elements(std::size_t element_size) const {
    std::size_t n = 1;
    for (std::size_t d : span())
      if (__builtin_mul_overflow(n, d, &n)) throw InvalidArgumentError("the array's size overflows");
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(n, element_size, &bytes)) throw InvalidArgumentError("the array's size overflows");
    return n;
  }
  std::span<const std::size_t> span() const noexcept { return {sizes_.data(), rank_}; }

  /// In an object's bytes: rank, sizes.
  std::size_t byte_size() const noexcept { return 1 + 8 * rank_; }
  void write(Writer& ar) const {
    ar(std::uint8_t(rank_));
    for (std::size_t n : span()) ar(std::uint64_t(n));
  }
  /// Bytes that nobody has checked: the reader fails where they are no shape. The number of elements; without
  /// dimensions 0.
  std::size_t read(Reader& ar) {
    std::uint8_t rank = 0;
    ar(rank);
    if (rank > kMaxRank) return ar.fail("an array of more than 8 dimensions"), 0;
    std::size_t elements = rank ? 1 : 0;
    for (rank_ = 0; rank_ < rank; ++rank_) {
      std::uint64_t size = 0;
      ar(size);
      sizes_[rank_] = size;
      if (__builtin_mul_overflow(elements, size, &elements)) return ar.fail("an array's size overflows"), 0;
    }
    return elements;
  }

 private:
  std::array<std::size_t, kMaxRank> sizes_{};
  std::size_t rank_ = 0;
};
}  // namespace detail

template <class T> class ArrayBuilder;

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>, "elements of an Array are trivially copyable");

 public:
  using value_type = T;

  Array() = default;
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::span<const T> span() const noexcept { return {data_, size_}; }
  std::span<const std::size_t> shape() const noexcept { return shape_.span(); }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  friend class ArrayBuilder<T>;
  friend struct detail::Attached<Array<T>>;

  detail::BufferPtr buffer_;
  const T* data_ = nullptr;
  std::size_t size_ = 0;
  detail::Shape shape_;
};

template <class T>
class ArrayBuilder {
  static_assert(std::is_trivially_copyable_v<T>, "elements of an Array are trivially copyable");

 public:
  using value_type = T;

  /// Memory for `size` elements, not initialized. Waits while the store is full; ObjectStoreFullError when it can never
  /// fit.
  explicit ArrayBuilder(std::size_t size) : ArrayBuilder(std::initializer_list<std::size_t>{size}) {}
  explicit ArrayBuilder(std::initializer_list<std::size_t> shape)
      : ArrayBuilder(std::span<const std::size_t>(shape.begin(), shape.size())) {}
  explicit ArrayBuilder(std::span<const std::size_t> shape) : shape_(shape), size_(shape_.elements(sizeof(T))) {
    if (size_ > 0) {
      open_ = detail::allocate_buffer(size_ * sizeof(T));
      data_ = reinterpret_cast<T*>(open_.data);
    }
  }
  ArrayBuilder(ArrayBuilder&& other) noexcept
      : shape_(other.shape_),
        size_(std::exchange(other.size_, 0)),
        open_(std::move(other.open_)),
        data_(std::exchange(other.data_, nullptr)) {}
  ArrayBuilder& operator=(ArrayBuilder&& other) noexcept {
    shape_ = other.shape_;
    size_ = std::exchange(other.size_, 0);
    open_ = std::move(other.open_);
    data_ = std::exchange(other.data_, nullptr);
    return *this;
  }

  T* data() noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::span<T> span() noexcept { return {data_, size_}; }
  std::span<const std::size_t> shape() const noexcept { return shape_.span(); }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }

  /// Ends writing. The builder is empty afterwards.
  Array<T> seal() && {
    Array<T> array;
    if (open_.buffer) {
      detail::seal_buffer(*open_.buffer);
      array.data_ = reinterpret_cast<const T*>(open_.buffer->data());
      array.buffer_ = std::move(open_.buffer);
    }
    array.size_ = std::exchange(size_, 0);
    array.shape_ = shape_;
    data_ = nullptr;
    return array;
  }

 private:
  detail::Shape shape_;
  std::size_t size_ = 0;
  detail::OpenBuffer open_;
  T* data_ = nullptr;
};

namespace detail {
/// In bytes: index among the value's buffers (or kNoAttachment), then the shape.
template <class T>
struct Attached<Array<T>> {
  static constexpr std::size_t kMinSize = sizeof(std::uint32_t) + 1;
  static void size(Sizer& ar, const Array<T>& array) { ar.add(sizeof(std::uint32_t) + array.shape_.byte_size()); }
  static void write(Writer& ar, const Array<T>& array) {
    std::uint32_t index = kNoAttachment;
    if (array.buffer_) {
      auto& buffers = writable_attachments(ar).buffers;
      index = std::uint32_t(buffers.size());
      buffers.push_back(array.buffer_);
    }
    ar(index);
    array.shape_.write(ar);
  }
  static void read(Reader& ar, Array<T>& array) {
    std::uint32_t index = 0;
    Shape shape;
    ar(index);
    const std::size_t elements = shape.read(ar);
    if (ar.failed()) return;
    array = {};
    array.shape_ = shape;
    array.size_ = elements;
    if (index == kNoAttachment) {
      if (elements != 0) ar.fail("an array without its buffer");
      return;
    }
    const Attachments* attachments = ar.attachments();
    if (!attachments || index >= attachments->buffers.size()) return ar.fail("an array's buffer out of range");
    const BufferPtr& buffer = attachments->buffers[index];
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(elements, sizeof(T), &bytes) || bytes > buffer->size())
      return ar.fail("an array larger than its buffer");
    if (reinterpret_cast<std::uintptr_t>(buffer->data()) % alignof(T) != 0) return ar.fail("a misaligned array");
    array.buffer_ = buffer;
    array.data_ = reinterpret_cast<const T*>(buffer->data());
  }
};
}  // namespace detail
}  // namespace troupe
