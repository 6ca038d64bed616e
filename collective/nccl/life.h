// The life of one NCCL communicator, as a state machine: events in, what to do out.
//
//              initialized            close              finalized
//   kInit ------------------> kReady -------> kClosing ------------> kClosed
//     |  |                      |                 |
//     |  | close                | failed          | failed, limit
//     |  +------------+         |                 |
//     | failed        v         v                 v        aborted
//     +-----------> kFailing <--+-----------------+ ----------------> kAborted
//                     | limit                                           ^
//                     v                      aborted                    |
//                   kStuck ----------------------------------------------
//
// Invariants
//   NL-1  Abort is begun once, and only after it nothing but its return is waited for: no state leads back to kReady.
//   NL-2  A communicator is destroyed by exactly one of finalize (then destroy) and abort.
//   NL-3  An abort that does not return is reported (kStuck); when it does return after all, that is the end as well.
// Pure.
#pragma once
#include <cstdint>

namespace troupe::collective {

enum class Life : std::uint8_t { kInit, kReady, kFailing, kAborted, kStuck, kClosing, kClosed };
enum class LifeEvent : std::uint8_t { kInitialized, kFailed, kAborted, kClose, kFinalized, kLimit };
enum class LifeEffect : std::uint8_t { kNone, kAbort, kFinalize, kReport };

struct LifeStep {
  Life state;
  LifeEffect effect = LifeEffect::kNone;
};

/// What follows; an event that means nothing in a state changes nothing.
LifeStep next(Life state, LifeEvent event);

/// Is there nothing left that could touch memory of an operation?
constexpr bool is_over(Life state) {
  return state == Life::kAborted || state == Life::kClosed || state == Life::kStuck;
}
const char* life_name(Life state);

}  // namespace troupe::collective
