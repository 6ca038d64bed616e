// Keeper: pins buffers for what actors need beyond the processes that gave it (core/head/state/actors/keeping.h): those
// that a creation or a checkpoint names, as the daemon passes it on to the head, and copies of other nodes' buffers
// when the head asks for them.
//
//   a frame passes --> PINNED where the buffers lie           --kKeepNoMore--> gone
//   kKeep --> COPYING --all are here--> PINNED here           --kKeepNoMore--> gone
//                `-- one cannot be had: none is pinned, an error
//
// Thread rule: the loop's thread.
//
// Invariants
//   KR-1  What a frame names is pinned, or asked to be pinned where it lies, before the frame leaves this node; so the
//         death of its sender, which is told later on the same ways, does not free it.
//   KR-2  A request is answered once: when all its buffers are pinned here, or none is.
//   KR-3  kKeepNoMore also ends what is still under way: it is let go when it comes.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/node/base/messenger.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::node {

class Keeper {
 public:
  using Brought = std::function<void(Result<store::BufferId>)>;
  /// The node's store as the keeper needs it.
  struct Store {
    std::function<bool(ProcessId holder, store::BufferId id)> hold;
    std::function<void(ProcessId holder, store::BufferId id)> release;
    /// A copy of another node's buffer; it is to be held in the turn in which it is told.
    std::function<void(const wire::BufferDesc& remote, Brought done)> bring;
  };
  Keeper(std::uint32_t node, Messenger& messenger, Store store);

  /// A frame that names these leaves for the head now (KR-1).
  void pass_on(const wire::KeptName& name, const std::vector<wire::BufferDesc>& buffers);
  void keep(const net::FrameHeader& request, const wire::KeepRequest& wanted);
  void no_more(const wire::KeptName& name);
  std::size_t names() const { return records_.size(); }

 private:
  struct Record {
    std::vector<wire::BufferDesc> pinned;     // here, or where they lie
    std::optional<net::FrameHeader> request;  // not answered yet
    wire::KeepReply reply;
    std::size_t missing = 0;
    std::optional<ErrorRecord> error;
    bool over = false;  // KR-3
  };
  void came(const wire::KeptName& name, const std::shared_ptr<Record>& record, std::size_t index,
            Result<store::BufferId> local);
  void settle(const wire::KeptName& name, const std::shared_ptr<Record>& record);
  void let_go(Record& record);

  const std::uint32_t node_;
  const ProcessId self_;  // in whose name pins are counted: no process has such an id
  Messenger& messenger_;
  const Store store_;
  std::map<wire::KeptName, std::shared_ptr<Record>> records_;
};

}  // namespace troupe::node
