// The three archives of troupe/serialize.h: Sizer adds up, Writer fills memory of exactly that size, Reader takes
// apart.
//
// Thread rule: an archive belongs to one thread; it is made for one value (or row of values) and then dropped.
//
// Invariants
//   SR-1  Sizer and Writer agree to the byte. A value that changes between the two passes gives a SerializationError,
//         never a write outside the memory given.
//   SR-2  Reader never reads outside its bytes and never throws by itself: its first failure is kept, everything
//         decoded after it is empty.
//   SR-3  No count is believed before it is held against the bytes left, no nesting deeper than kMaxDepth is followed.
//   SR-4  The elements that a Reader makes take at most `times` the bytes that it was given, and `spare` (Unfolding),
//         whatever the bytes say: an empty string is 4 bytes and becomes 32. A value that needs more is a failure.
//         (A vector that grows has its old memory beside the new for that moment. What a user's serialize function
//         makes without its archive is not counted, nor what is attached.)
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include <troupe/error.h>
#include <troupe/result.h>

namespace troupe::detail {

class Attachments;                 // what rides beside the bytes: arrays, refs and handles; may be absent
template <class T> struct Codec;   // how a T is written: serialize_codec.h, serialize_std.h

/// Stops the compilation, naming T, unless it is Serializable: serialize_codec.h.
template <class T> constexpr void require_serializable();

inline constexpr int kMaxDepth = 128;
inline constexpr std::size_t kLargeCopy = 1 << 20;  ///< from here on copy_large is worth its call; see base/copy.cc
inline constexpr std::uint32_t kLongCount = 0xFFFFFFFF;

/// SR-4: how much larger than its encoding a value may become.
struct Unfolding {
  std::size_t times = 64;
  std::size_t spare = std::size_t{64} << 20;
};

void copy_large(void* to, const void* from, std::size_t n) noexcept;

/// memcpy, which past a mebibyte bypasses the cache: whoever reads a large copy next is another core or process.
inline void copy_bytes(void* to, const void* from, std::size_t n) noexcept {
  if (n >= kLargeCopy) return copy_large(to, from, n);
  if (n != 0) std::memcpy(to, from, n);
}

[[noreturn]] void throw_too_deep();
[[noreturn]] void throw_changed_while_encoded();

class Sizer {
 public:
  static constexpr bool kReading = false;
  explicit Sizer(Attachments* attachments = nullptr) : attachments_(attachments) {}

  template <class... Ts>
  void operator()(const Ts&... values) {
    (require_serializable<Ts>(), ...);
    (Codec<Ts>::size(*this, values), ...);
  }

  void add(std::size_t n) { size_ += n; }
  void count(std::size_t n) { size_ += n < kLongCount ? 4 : 12; }
  void enter() {
    if (++depth_ > kMaxDepth) throw_too_deep();
  }
  void leave() { --depth_; }
  std::size_t size() const { return size_; }
  Attachments* attachments() const { return attachments_; }

 private:
  std::size_t size_ = 0;
  int depth_ = 0;
  Attachments* attachments_;
};

class Writer {
 public:
  static constexpr bool kReading = false;
  explicit Writer(std::span<std::byte> memory, Attachments* attachments = nullptr)
      : at_(memory.data()), end_(memory.data() + memory.size()), attachments_(attachments) {}

  template <class... Ts>
  void operator()(const Ts&... values) {
    (require_serializable<Ts>(), ...);
    (Codec<Ts>::write(*this, values), ...);
  }

  /// The next n bytes, to be filled by the caller.
  std::byte* take(std::size_t n) {
    if (n > left()) throw_changed_while_encoded();
    std::byte* p = at_;
    at_ += n;
    return p;
  }
  void bytes(const void* from, std::size_t n) { copy_bytes(take(n), from, n); }
  void byte(std::uint8_t b) { *take(1) = std::byte{b}; }
  void count(std::size_t n) {
    if (n < kLongCount) {
      const auto narrow = static_cast<std::uint32_t>(n);
      std::memcpy(take(4), &narrow, 4);
    } else {
      const std::uint64_t wide = n;
      std::memcpy(take(4), &kLongCount, 4);
      std::memcpy(take(8), &wide, 8);
    }
  }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  /// Called after the last value: SR-1 wants every byte written.
  void finish() const {
    if (at_ != end_) throw_changed_while_encoded();
  }
  Attachments* attachments() const { return attachments_; }

 private:
  std::byte* at_;
  std::byte* end_;
  Attachments* attachments_;
};

class Reader {
 public:
  static constexpr bool kReading = true;
  explicit Reader(std::span<const std::byte> bytes, Attachments* attachments = nullptr, Unfolding unfolding = {})
      : begin_(bytes.data()),
        at_(bytes.data()),
        end_(bytes.data() + bytes.size()),
        room_(bytes.size() * unfolding.times + unfolding.spare),
        attachments_(attachments) {}

  template <class... Ts>
  void operator()(Ts&... values) {
    (require_serializable<Ts>(), ...);
    (Codec<Ts>::read(*this, values), ...);
  }

  /// The next n bytes, or nullptr after a failure. (Of no bytes: a pointer not to be followed.)
  const std::byte* take(std::size_t n) {
    if (n > left()) {
      fail("ends too early");
      return nullptr;
    }
    const std::byte* p = at_;
    at_ += n;
    return p;
  }
  std::uint8_t byte() {
    const std::byte* p = take(1);
    return p ? std::to_integer<std::uint8_t>(*p) : 0;
  }
  /// A yes or no; another value is a failure.
  bool flag() {
    const std::uint8_t b = byte();
    if (b > 1) fail("has a flag that is neither 0 nor 1");
    return b == 1;
  }
  /// The number of elements, each of at least min_size (> 0) bytes; 0 after a failure.
  std::size_t count(std::size_t min_size) { return checked_count(raw_count(), min_size, 1); }
  /// The number of things of which eight fit into a byte.
  std::size_t count_of_bits() { return checked_count(raw_count(), 1, 8); }
  void enter() {
    if (++depth_ > kMaxDepth) fail("is nested too deeply");
  }
  void leave() { --depth_; }
  /// Counts the memory of n elements of kEach bytes before they are made; false after a failure. SR-4.
  template <std::size_t kEach> bool unfold(std::size_t n) {
    if (n > room_ / kEach) fail("unfolds into more memory than a value of its size may take (SR-4)");
    else room_ -= n * kEach;
    return !failed();
  }

  /// Gives up. `reason` is a literal that completes "the encoded value ...". User code may call it from serialize().
  void fail(const char* reason) {
    if (reason_) return;
    reason_ = reason;
    failed_at_ = static_cast<std::size_t>(at_ - begin_);
    at_ = end_;
  }
  bool failed() const { return reason_ != nullptr; }
  const char* reason() const { return reason_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  /// Called after the last value: a SerializationError that names `type` when something was wrong or bytes are left
  /// over.
  Status finish(std::string_view type);
  Attachments* attachments() const { return attachments_; }

 private:
  std::uint64_t raw_count() {
    std::uint32_t narrow = 0;
    if (const std::byte* from = take(sizeof narrow)) std::memcpy(&narrow, from, sizeof narrow);
    if (narrow != kLongCount) return narrow;
    std::uint64_t wide = 0;
    if (const std::byte* from = take(sizeof wide)) std::memcpy(&wide, from, sizeof wide);
    if (wide < kLongCount) fail("has a short count in the long form");
    return wide;
  }
  std::size_t checked_count(std::uint64_t n, std::size_t bytes, std::size_t things) {
    if (n > left() / bytes * things) fail("has a count larger than the bytes left");
    return failed() ? 0 : static_cast<std::size_t>(n);
  }

  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
  const char* reason_ = nullptr;
  std::size_t failed_at_ = 0;
  std::size_t room_;  // what unfold may still take
  int depth_ = 0;
  Attachments* attachments_;
};

}  // namespace troupe::detail
