// A node's memory in the cores' world: a real store::StoreServer, and for each process a real store::StoreClient whose
// requests for memory are answered at once.
//
//   the daemon   runs --stop(): it has doomed a buffer and not yet looked who pins it--> stopped --go_on()--> runs
//
// While it is stopped nothing else that it is asked happens; that comes afterwards, in its order.
//
// Thread rule: one thread.
//
// Invariants
//   SNM-1  What a process pinned when it died stays for kDrained: until all who got something of it have taken it in
//          (DA-2, as node::DeathAcks has it).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/random.h"
#include "objectstore/arena/shared_memory.h"
#include "objectstore/client/client.h"
#include "objectstore/server/server.h"
#include "tests/sim/event_queue.h"

namespace troupe::sim {

class NodeMemory;

/// A process's client, and its requests of the daemon.
class ProcessMemory final : public store::StoreDaemon {
 public:
  ProcessMemory(NodeMemory& node, ProcessId id, store::StoreHandles handles);
  ~ProcessMemory() override;
  store::StoreClient& client() { return *client_; }

  Result<store::Lease> lease(const store::LeaseRequest& request) override;
  void lease_ahead(const store::LeaseRequest& request) override;
  Result<store::Grant> allocate(std::uint64_t size) override;
  void maybe_free(std::span<const store::BufferId> ids) override;
  void give_back(std::span<const store::ReturnedChunk> chunks, std::span<const std::uint32_t> slots) override;

 private:
  friend class NodeMemory;
  bool pins(std::uint32_t slot) const;

  NodeMemory& node_;
  const ProcessId id_;
  bool alive_ = true;
  store::Mapping pins_;
  std::unique_ptr<store::StoreClient> client_;
};

class NodeMemory {
 public:
  using Work = std::function<void(store::StoreServer&)>;
  NodeMemory(EventQueue& queue, std::uint32_t node);

  std::unique_ptr<ProcessMemory> attach(ProcessId process);
  /// Now, or when the daemon goes on.
  void ask(Work work);
  /// Stops in the middle of the look at some buffer that somebody pins, for so long.
  void stop(Random& random, Duration time);
  void died(ProcessMemory& process);
  /// As StoreService: held for a process that asked, until it says that it has pinned it, or for kHandedOut at most.
  bool hand_out(ProcessId process, store::BufferId id);
  void unhold(ProcessId process, store::BufferId id);
  store::StoreUsage usage() const { return server_->usage(); }

 private:
  friend class ProcessMemory;
  template <class Effect> std::optional<Effect> answer(store::Token token);
  void apply();
  void go_on();
  store::IndexEntry& entry(std::uint32_t slot) const;
  /// What is sealed and has left its maker: the daemon's to free.
  std::vector<store::BufferId> shared() const;

  EventQueue& queue_;
  const std::uint32_t node_;
  std::unique_ptr<store::StoreServer> server_;
  store::Mapping index_;
  std::vector<ProcessMemory*> processes_;
  std::map<store::Token, store::StoreEffect> answers_;
  std::optional<store::BufferId> doomed_;  ///< stopped
  std::vector<Work> later_;
  struct HandOut { std::uint64_t number = 0; ProcessId process; store::BufferId id; };
  std::vector<HandOut> handed_out_;
  std::uint64_t last_hand_out_ = 0;
  store::Token last_token_ = 0;
};

}  // namespace troupe::sim
