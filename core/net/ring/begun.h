// Which of the numbered calls of a ring have begun at its consumer: exact although calls of several actors or groups
// begin out of their order, and readable after the consumer was killed at any instruction.
//
//   numbers   ...  low | window of 512: a bit each | ...  high
//             all begun   begun where the bit is set    none begun
//
// Invariants
//   BG-1  has(n) is true for every n that was noted, also when the writer was killed in the middle of a later note.
//   BG-2  has(n) is false for an n that was not noted, as long as no number was noted that is 512 or more beyond one
//         that was not.
// Thread rule: SharedBegun: note by one thread at a time, snapshot by anybody. BegunCalls: a plain value.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace troupe::net {

inline constexpr std::uint64_t kBegunWindow = 512;

/// What was known at one time.
struct BegunCalls {
  std::uint64_t low = 0, high = 0;
  std::array<std::uint64_t, kBegunWindow / 64> bits{};

  static BegunCalls all() { return {~std::uint64_t(0), ~std::uint64_t(0), {}}; }
  bool has(std::uint64_t number) const {
    if (number <= low) return true;
    if (number > high) return false;
    if (number - low > kBegunWindow) return true;
    return (bits[number % kBegunWindow / 64] >> number % 64 & 1) != 0;
  }
  /// Counts everything up to `number` as begun.
  void raise(std::uint64_t number) {
    for (std::uint64_t n = low + 1; n <= number && n <= low + kBegunWindow; ++n)
      word(n) &= ~(std::uint64_t(1) << n % 64);
    low = std::max(low, number);
    high = std::max(high, low);
  }
  /// Counts this one as begun.
  void add(std::uint64_t number) {
    if (number <= low) return;
    if (number - low <= kBegunWindow) word(number) |= std::uint64_t(1) << number % 64;
    high = std::max(high, number);
  }

 private:
  std::uint64_t& word(std::uint64_t number) { return bits[number % kBegunWindow / 64]; }
};

/// The same in shared memory: zeros are an empty one.
class SharedBegun {
 public:
  void note(std::uint64_t number) noexcept {
    std::uint64_t low = low_.load(std::memory_order_relaxed);
    if (number <= low) return;
    if (high_.load(std::memory_order_relaxed) < number) high_.store(number, std::memory_order_release);
    if (number - low > kBegunWindow) {  // out of the window: what is left behind counts as begun
      const std::uint64_t pushed = number - kBegunWindow;
      move_low(low, pushed);
      low = pushed;
    }
    if (number != low + 1) {
      set(number, true);
      return;
    }
    std::uint64_t next = number;
    while (next - low < kBegunWindow && (word(next + 1).load(std::memory_order_relaxed) & bit(next + 1))) ++next;
    move_low(low, next);
  }
  BegunCalls snapshot() const noexcept {
    BegunCalls now;
    now.low = low_.load(std::memory_order_acquire);
    now.high = high_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < now.bits.size(); ++i) now.bits[i] = bits_[i].load(std::memory_order_acquire);
    return now;
  }
  std::uint64_t highest() const noexcept { return high_.load(std::memory_order_acquire); }

 private:
  static std::uint64_t bit(std::uint64_t number) { return std::uint64_t(1) << number % 64; }
  std::atomic<std::uint64_t>& word(std::uint64_t number) { return bits_[number % kBegunWindow / 64]; }
  void set(std::uint64_t number, bool begun) {  // one writer
    const std::uint64_t old = word(number).load(std::memory_order_relaxed);
    word(number).store(begun ? old | bit(number) : old & ~bit(number), std::memory_order_release);
  }
  /// `low` first, then the bits: a bit that is left set stands for a number one window further (BG-1: too many, never
  /// too few).
  void move_low(std::uint64_t from, std::uint64_t to) noexcept {
    low_.store(to, std::memory_order_release);
    for (std::uint64_t number = from + 1; number <= to && number <= from + kBegunWindow; ++number)
      if (word(number).load(std::memory_order_relaxed) & bit(number))
        set(number, false);
  }

  std::atomic<std::uint64_t> low_, high_;
  std::atomic<std::uint64_t> bits_[kBegunWindow / 64];
};

}  // namespace troupe::net
