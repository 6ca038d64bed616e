// A client of the simulated store: what store::detail::ClientCore does to the shared memory, one instruction a step,
// with a real LocalLeases for what it has leased. It may die between any two steps.
//
// Thread rule: one thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "objectstore/arena/layout.h"
#include "objectstore/arena/shared_memory.h"
#include "objectstore/arena/store_handles.h"
#include "objectstore/client/local_leases.h"
#include "tests/sim/script.h"

namespace troupe::sim {

class StoreWorld;

/// A request for memory on its way: what its client knows of it.
struct Asked {
  std::uint64_t token = 0;
  bool done = false;  ///< answered, or given up
  bool given_up = false;
  std::optional<store::Lease> lease;
  std::optional<store::Grant> grant;
};
using AskedPtr = std::shared_ptr<Asked>;

/// An id under way from one client to another. The sender's pin stays until the receiver has pinned it or is dead.
struct Parcel {
  std::uint64_t number = 0;
  store::BufferId id;
  ProcessId from, to;
};

class SimStoreClient {
 public:
  SimStoreClient(StoreWorld& world, ProcessId id, store::StoreHandles handles);

  // ---- what its threads do
  Script put(std::uint64_t size);
  Script send(store::BufferId id, ProcessId to);
  Script take_in(Parcel parcel);
  enum class Whose { kUsers, kFrames };
  Script drop(store::BufferId id, Whose whose = Whose::kUsers);
  /// Pins what the daemon keeps for it: a copy.
  Script pin_copy(store::BufferId local);
  /// Tries an id that may be long gone.
  Script try_stale(store::BufferId id);
  /// Starts one of them.
  void start(Script script);

  std::uint32_t users_pins(store::BufferId of) const;

  // ---- what comes from the daemon
  void answered(const AskedPtr& asked);
  void trim();
  void flush();
  void dies();

  bool alive = true;
  const ProcessId id;
  std::map<std::uint64_t, Script> scripts;
  std::map<store::BufferId, std::uint32_t> pins;      ///< that this process holds, and knows to be sealed
  std::map<store::BufferId, std::uint32_t> frames;    ///< those of them that belong to ids on their way
  std::map<store::BufferId, store::Range> open;       ///< being made
  std::map<store::BufferId, store::Range> made_bytes; ///< of what it pins or has open: what was written
  std::map<std::uint64_t, AskedPtr> asked;            ///< without an answer
  store::LocalLeases leases;

 private:
  struct Made {
    std::uint32_t generation = 0, chunk = 0;
    bool shared = false;
  };
  enum class Pinned { kYes, kNo, kUnsure };

  store::IndexEntry& entry(std::uint32_t slot) const {
    return reinterpret_cast<store::IndexEntry*>(index_.data())[slot];
  }
  store::SlotWord word(std::uint32_t slot) const { return store::unpack(entry(slot).word.load()); }
  std::atomic<std::uint8_t>& touched(std::uint32_t slot) const {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(table_.data())[slot / store::kPinBlockSlots];
  }
  std::atomic<std::uint32_t>& count(std::uint32_t slot) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(table_.data() + store::PinTableLayout::kTouchedBytes)[slot];
  }
  Script pin(store::BufferId id, bool* pinned, bool* done);
  Script last_drop(store::BufferId id);
  AskedPtr ask_lease(const store::LeaseRequest& request);
  AskedPtr ask_buffer(std::uint64_t size);
  void give_back();
  void mark_shared(store::BufferId id);
  store::Range bytes_of(std::uint32_t slot) const { return {entry(slot).offset.load(), entry(slot).size.load()}; }

  StoreWorld& world_;
  store::StoreLayout layout_;
  store::Mapping index_, table_;
  std::map<std::uint32_t, Made> made_;  ///< by slot
  std::vector<store::BufferId> dropped_;
  std::uint64_t last_script_ = 0;
};

}  // namespace troupe::sim
