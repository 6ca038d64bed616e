// What goes wrong inside of an environment and does not end training: an episode is broken off and its environment
// begins anew.
//
// Plain values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rl {

enum class FaultKind : std::uint8_t {
  kThrew,    // its step threw an error
  kExited,   // the process that runs it ended
  kStalled,  // the process that runs it did not answer in time, and was ended
};

/// "threw", "exited", "stalled".
[[nodiscard]] std::string_view name_of(FaultKind kind);

/// An episode that was broken off in the last step (BE-7).
struct Fault {
  std::uint32_t env = 0;
  FaultKind kind = FaultKind::kThrew;
  double partial_return = 0;  // of its good steps: no episode's return
  std::int64_t length = 0;    // good steps
  std::string what;           // for people; may be empty
};

/// What becomes of the good steps of an episode that was broken off.
enum class FaultPrefix : std::uint8_t {
  kBootstrap,  // learned from, up to the value of what the last action was chosen for
  kDrop,       // not learned from, as far as nobody has done so yet
};

/// Faults on purpose, for tests of whatever must survive them: the probabilities of a step of one environment.
struct FaultRates {
  double threw = 0, exited = 0, stalled = 0;
  std::chrono::milliseconds stall{1000};  // how much longer such a step takes

  [[nodiscard]] bool any() const { return threw > 0 || exited > 0 || stalled > 0; }
};

}  // namespace rl
