// One actor as the directory knows it: plain data. Its life is the state machine of actors.h; the table that it lies in
// (actor_table.h) writes `process` and `node`, nobody else does.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/membership.h"
#include "core/head/state/actors/supervision.h"

namespace troupe::head {

struct ActorRecord {
  enum class Phase : std::uint8_t { kPending, kStarting, kAlive, kBackoff, kKilling };

  wire::ActorSpec spec;
  Phase phase = Phase::kPending;
  bool told_dead = false;       // callers have heard kDead; the process is not gone yet
  bool handles_gone = false;
  bool revive = false;          // kKilling: restart when the process is gone
  ProcessId process;            // kAlive, kKilling; kStarting once it is known
  std::int32_t pid = 0;
  std::uint32_t node = 0;       // where it was placed; 0: nowhere
  std::uint32_t last_node = 0;  // where it was last, for messages
  std::int32_t restarts = 0;
  std::uint32_t start_failures = 0;
  std::vector<std::uint32_t> failed_on;  // nodes of this round on which its start failed, for a reason of theirs (AC-9)
  Time waits_since{};           // for a place, since its last life or its creation; zero: it does not wait
  bool claims = false;          // kStarting: sent to a node whose tasks have what it needs (AP-4)
  std::uint64_t stamp = 0;      // of its latest timer that still counts
  RestartHistory history;
  std::unique_ptr<ErrorRecord> last_error;

  bool light() const { return spec.isolation == Isolation::kLight; }
  bool scoped() const { return spec.lifetime == Lifetime::kScoped; }
  /// For what tasks have there (AP-4), as far as is known here.
  bool waits_on_its_node() const { return phase == Phase::kStarting && claims && process == ProcessId{}; }
  bool ending() const { return told_dead || handles_gone; }
  /// For messages: its class and name.
  std::string called() const;
  /// What its callers are told.
  wire::ActorLocation location(const Membership& membership) const;
};

}  // namespace troupe::head
