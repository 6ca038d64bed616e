// StateQueries: what the head asks of this node for `troupe list`: its workers, its store, and what its processes say
// of themselves.
//
// Thread rule: the loop's thread.
//
// Invariants
//   SQ-1  A query is answered once, within kQueryWait: a process that did not answer is named in the warnings.
#pragma once
#include <string>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/workers/leases.h"
#include "core/node/store/store_service.h"

namespace troupe::node {

class StateQueries {
 public:
  StateQueries(ProcessTable& table, Messenger& messenger, const Leases& leases, const StoreService& store,
               std::string node_id)
      : table_(table), messenger_(messenger), leases_(leases), store_(store), node_id_(std::move(node_id)) {}
  void answer(const net::FrameHeader& request, const wire::StateQuery& query);

 private:
  wire::StateReply workers(const wire::StateQuery& query) const;
  wire::StateReply stores(const wire::StateQuery& query) const;
  std::string state_of(const NodeProcess& process) const;
  void ask_processes(const net::FrameHeader& request, const wire::StateQuery& query);

  ProcessTable& table_;
  Messenger& messenger_;
  const Leases& leases_;
  const StoreService& store_;
  const std::string node_id_;
};

}  // namespace troupe::node
