// Pinning: a reader's side of the agreement with the freers of a slot (layout.h SL-3, SL-5, SL-6). Shared memory alone; no lock is
// taken and no daemon called, but where a pin that is taken back was the last one (last_drop).
#include <sched.h>

#include <chrono>
#include <optional>

#include "objectstore/client_core.h"

namespace troupe::store::detail {
namespace {

// A freer looks at the pin tables for about a microsecond, unless it loses its core in the middle: then only time tells.
constexpr int kDoomedSpins = 200;
constexpr auto kDoomedLast = std::chrono::seconds(2);  // it has died: its end frees the slot, or ends this node

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pin ClientCore::try_pin(BufferId id) noexcept {
  if (id.node != layout_.node || id.slot >= layout_.slots || id.is_nil()) return {};
  touch_block(id.slot);
  if (pin_count(id.slot).fetch_add(1, std::memory_order_seq_cst) == 0)
    users_.fetch_add(1, std::memory_order_relaxed);  // CC-1
  const IndexEntry& e = entry(id.slot);
  std::optional<std::chrono::steady_clock::time_point> give_up;
  for (int spin = 0;; ++spin) {
    SlotWord word = unpack(e.word.load(std::memory_order_seq_cst));  // SL-3
    if (word.generation != id.generation) break;
    if (word.state == SlotState::kSealed) {
      std::uint64_t offset = e.offset.load(std::memory_order_relaxed), size = e.size.load(std::memory_order_relaxed);
      if (offset > layout_.capacity || size > layout_.capacity - offset) break;
      const std::byte* base =
          made_here(id.slot).generation == id.generation ? writable_->data() : readable_.data();  // SC-3
      return Pin(this, base + offset, size, id);
    }
    if (word.state != SlotState::kDoomed) break;
    if (spin < kDoomedSpins) {
      cpu_relax();
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!give_up) give_up = now + kDoomedLast;
    if (now >= *give_up) break;
    ::sched_yield();
  }
  undo_pin(id.slot);
  return {};
}

/// A freer may have seen the pin and given up: then it must hear of the drop (SL-6).
void ClientCore::undo_pin(std::uint32_t slot) noexcept {
  if (pin_count(slot).fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  SlotWord now = unpack(entry(slot).word.load(std::memory_order_seq_cst));
  if (now.state == SlotState::kSealed || now.state == SlotState::kDoomed)
    last_drop({layout_.node, slot, now.generation});
  else leave();
}

}  // namespace troupe::store::detail
