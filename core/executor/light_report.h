// LightReport: tells the head in batches which light actors began and ended in this process: those that their creators
// made here directly, which the head does not hear of otherwise.
//
// Thread rule: lock held.
#pragma once
#include <map>

#include "core/wire/messages.h"

namespace troupe::worker {

class Runtime;

class LightReport {
 public:
  explicit LightReport(Runtime& runtime) : runtime_(runtime) {}
  void started(ActorId actor, std::uint32_t constructor);
  void ended(ActorId actor);
  /// Tells the head now what it has not heard yet.
  void send();

 private:
  void send_soon();

  Runtime& runtime_;
  std::map<std::uint32_t, wire::LightActors> by_constructor_;  // not told to the head yet
  bool timer_ = false;
};

}  // namespace troupe::worker
