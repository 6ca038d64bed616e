// Membership: this node's place in the cluster: registration at the head, the loss of the head, and the head's verdict
// that a node is dead.
//
//   dialing --link up: kRegisterNode--> registered --link lost--> dialing again for kRedialHead --> registered | stop
//       `--refused, not reached--> stop          `--head_ended(): the head was a child of ours--> stop
//
// Thread rule: the loop's thread.
//
// Invariants
//   NDM-2  A lost link is not the head's death: it is dialled again. Only the end of its process is (head_ended), or
//          that it did not come back within kRedialHead.
//   NDM-1  `stop` is called at most once for each reason; a node that the head declared dead ends (it is fenced).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/daemon/peers/links.h"

namespace troupe::node {

class Membership {
 public:
  /// What the head is told of this node.
  struct Self {
    wire::RegisterNode registration;
    std::string head_address;
    bool embedded_head = false;    ///< the head is this cluster's own and ends with it
    bool links_in_memory = false;  ///< a link ends with its other side (local mode): its loss is the head's end
  };
  struct Events {
    std::function<Status(const wire::RegisterNodeReply&)> registered;  ///< the first time; an error stops the daemon
    std::function<void()> registered_again;
    std::function<std::map<std::string, double>()> available;
    std::function<void(const wire::NodeDied&)> node_died;              ///< another one
    std::function<void(const wire::NodeDied&)> head_died;              ///< of an embedded cluster: tell the processes
    std::function<void(const std::string& why)> refused;               ///< before it was ever registered
    std::function<void(const std::string& why)> stop;
  };
  Membership(Loop& loop, DaemonLinks& links, Self self, Events events)
      : loop_(loop), links_(links), self_(std::move(self)), events_(std::move(events)) {}

  Status join();
  void link_up();
  void link_down(const std::string& why);
  /// A link to another node is down for long, or up again: the head hears of it and judges.
  void report(std::uint32_t node, wire::LinkState state, const std::string& why);
  /// The head was a child of this process, or a thread of it.
  void head_ended(const std::string& why);
  /// The head's answer to kRegisterNode. False: the frame is another one.
  bool take_answer(const net::FrameHeader& header, ByteView payload);
  void on_node_died(const wire::NodeDied& death);

 private:
  void on_registered(Result<wire::RegisterNodeReply> reply);
  void redial_head(const std::string& why);
  bool is_registered() const { return self_.registration.info.node != 0; }

  Loop& loop_;
  DaemonLinks& links_;
  Self self_;
  const Events events_;
  std::optional<Loop::TimePoint> head_lost_;
};

}  // namespace troupe::node
