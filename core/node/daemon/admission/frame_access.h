// FrameAccess: who may ask a daemon what. Pure: one table, checked at the door for every frame that is for the daemon
// itself, and for what a process of this node sends to the head (docs/security.md shows it).
//
// A worker runs user code; a mistake there, or a frame that is none, must not end a node, start processes or declare
// others dead.
//
// Thread rule: pure functions.
//
// Invariants
//   FA-1  A method that is not in the table is refused.
//   FA-2  Only the head ends, starts or fences: kShutdown, kStartActor, kKillActorProcess, kJobEnded, kNodeDied,
//         kClusterView.
#pragma once
#include <cstdint>

#include "core/base/ids.h"
#include "core/wire/messages.h"

namespace troupe::node {

enum class Sender : std::uint8_t { kHead = 1, kDaemon = 2, kLocalProcess = 4, kRemoteProcess = 8 };

/// By the id that a frame carries; it was checked against where the frame came from (ML-2, sent_by_its_node).
Sender sender_of(ProcessId source, std::uint32_t this_node);
/// A frame from the link of `node` speaks for a process of that node. The head's link may carry frames of others.
bool sent_by_its_node(ProcessId source, std::uint32_t node);

/// Requests and notices for the daemon.
bool may_ask_daemon(wire::Method method, Sender sender);
/// What a process of this node may send to the head: all but what daemons say.
bool may_ask_head(wire::Method method);

}  // namespace troupe::node
