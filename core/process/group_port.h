// GroupPort: the door by which the collective library, which stands above this one, hears what reaches this process
// about its groups: words of other processes, connections that the daemon passes on, actors that moved, processes and
// nodes that died.
//
// Thread rule: set_group_port once, before run (by a static object). The port's functions are called without the lock,
// on whichever thread drains the rings, in the order in which frames of one source came; they must not wait. socket()
// is called by the service thread.
#pragma once
#include "core/base/fd.h"
#include "core/boot/boot_socket.h"
#include "core/base/ids.h"
#include "core/wire/group_messages.h"
#include "core/wire/messages.h"
#include <troupe/result.h>

namespace troupe::worker {

class Core;

class GroupPort {
 public:
  virtual ~GroupPort() = default;
  /// The answer goes back when it was asked for (a request), else it is dropped.
  virtual Result<wire::GroupAnswer> word(Core& core, ProcessId from, const wire::GroupWord& word) = 0;
  virtual void socket(Core& core, const wire::RankSocket& what, UniqueFd fd) = 0;
  virtual void actor_moved(Core& core, const wire::ActorLocation& location) = 0;
  /// A process is no more, or all of a node; `why` is for messages.
  virtual void process_died(Core& core, ProcessId process, const std::string& why) = 0;
  virtual void node_died(Core& core, std::uint32_t node, const std::string& why) = 0;
};

void set_group_port(GroupPort& port) noexcept;

// ---- for the dispatcher, lock held: the port hears of it when the lock is let go
void group_word_arrived(Core& core, const net::FrameHeader& header, ByteView payload, bool answer);
void group_member_moved(Core& core, const wire::ActorLocation& location);
void group_process_died(Core& core, ProcessId process, const std::string& why);
void group_node_died(Core& core, std::uint32_t node, const std::string& why);
/// For the service thread, lock not held.
void group_socket_arrived(Core& core, node::BootPacket packet);

}  // namespace troupe::worker
