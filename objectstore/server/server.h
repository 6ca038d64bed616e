// StoreServer: the daemon's side of a node's store. Decides who gets which bytes and slots, and when they are free
// again.
//
// Events in, effects out: every function returns at once and none touches memory of the arena; what must be done or
// told is collected and fetched with take_effects(). A request that finds no room is queued, first in first out, and
// answered by a later effect. So is a request whose range has no pages yet: making them takes as long as the kernel
// needs to clear them, so that is an effect too (PagesWanted), for another thread.
//
//    request --room--> assigned --pages exist--> granted (LeaseGranted, BufferGranted, CopyGranted)
//       |                 | pages_made() waits here for the thread that makes them
//       +--no room--> queued --room--> assigned
//
// Thread rule: one thread at a time (the daemon's loop). arena().reserve and arena().populate may run on others.
//
//    client      add_client --> alive --client_closing--> closing --client_died--> gone
//                closing: no grants any more; its pins and buffers stay, for its messages are still on their way
//
// Invariants
//   SS-1  A buffer is freed only when no client's pin table and no holder has it (after writing doomed: layout.h SL-3),
//         and, while its maker lives, only after the maker shared its id (SL-1): until then the maker may be cutting
//         the same bytes anew.
//   SS-2  A chunk returns to the allocator when it was given back (or its client died) and all its buffers are freed.
//   SS-3  After client_died nothing is counted for that client: its unsealed slots, its unpinned buffers and its empty
//         chunks are free; a buffer that others pin lives on without an owner, and goes when the last of them drops it.
//   SS-4  Two queues, each given room in the order in which requests came: leases, and large buffers with copies.
//         Leases may overtake: they are small, and the work that will free memory may need one. What is freed serves
//         both at once. Of requests that have their room, one that waits for pages holds up nobody.
//   SS-5  The daemon stays within its own books whatever a client writes: a range read from the index is used only if
//         it lies in the arena (bytes) or in a chunk leased to the slot's owner (freeing). More is not promised: all
//         clients of a node map index and arena writable, so a faulty or hostile one can damage the objects of its
//         node's other processes. They are processes of one user, who could as well use a debugger.
//   SS-6  Copies of buffers of a node that is gone go with their last pin, also those that are made later from another
//         node's copy: nobody is left to say when they are unwanted.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "objectstore/arena/arena.h"
#include "objectstore/arena/buffer_id.h"
#include "objectstore/arena/layout.h"
#include "objectstore/arena/lease.h"
#include "objectstore/arena/store_handles.h"
#include "objectstore/server/allocator.h"
#include "objectstore/server/chunk_table.h"
#include "objectstore/server/copy_table.h"
#include "objectstore/server/hold_table.h"
#include "objectstore/server/pin_tables.h"
#include "objectstore/server/request_queue.h"
#include "objectstore/server/slot_index.h"
#include "objectstore/server/slot_table.h"

namespace troupe::store {

struct StoreServerOptions {
  std::uint32_t node = 1;
  std::uint64_t capacity = 0;
  std::uint32_t slots = kSlotLimitMax;
  std::uint64_t large_from = 64 << 10;
  std::uint64_t chunk_bytes_max = 1 << 20;  ///< no lease is longer
  std::uint32_t lease_slots_max = 1024;     ///< no lease has more: 4 KiB of slot numbers
  bool populate = false;                    ///< touch the whole arena at once
  MakePages make_pages = make_pages_of_file;  ///< of the arena; tests make it slow
};

/// The name of one job of making pages.
using PageTicket = std::uint64_t;

// ---- effects
struct LeaseGranted {
  ProcessId client;
  Token token = 0;
  Lease lease;
};
struct BufferGranted {
  ProcessId client;
  Token token = 0;
  Grant grant;
};
struct RequestFailed {
  ProcessId client;
  Token token = 0;
  ErrorPtr error;
};
/// A copy that waited may now be filled (see begin_copy).
struct CopyGranted {
  BufferId remote;
  BufferId local;
  std::span<std::byte> bytes;
};
/// A copy that waited for room cannot be had.
struct CopyFailed {
  BufferId remote;
  ErrorPtr error;
};
/// A buffer of this node that other nodes had held was freed: their copies are void (origin_gone there).
struct ExportedFreed {
  BufferId id;
};
/// The store is tight: ask this client to StoreClient::trim().
struct TrimAsked {
  ProcessId client;
};
/// Pages are wanted: arena().reserve(range) on another thread, then pages_made(ticket) with its result.
struct PagesWanted {
  PageTicket ticket = 0;
  Range range;
};
/// Nobody waits for these pages any more; pages_made may still come and does nothing.
struct PagesUnwanted {
  PageTicket ticket = 0;
};
using StoreEffect = std::variant<LeaseGranted, BufferGranted, RequestFailed, CopyGranted, CopyFailed, ExportedFreed,
                                 TrimAsked, PagesWanted, PagesUnwanted>;

struct StoreUsage {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;  ///< bytes of buffers: large from allocation, small from sealing; no lease overhead
  std::uint64_t spilled = 0;
  std::uint64_t objects = 0;   ///< sealed buffers
  std::uint64_t leased = 0;    ///< bytes of chunks in clients' hands or not yet empty
  std::uint64_t reserved = 0;  ///< memory taken from the machine
  std::uint64_t waiting = 0;   ///< requests without an answer yet
};

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> create(StoreServerOptions options);

  // ---- clients
  /// Makes its pin table. The handles go to the client by SCM_RIGHTS. InvalidArgumentError when it is already known.
  Result<StoreHandles> add_client(ProcessId client);
  /// The process is dead or leaving: it gets nothing more, its waiting requests vanish, nothing is freed yet.
  void client_closing(ProcessId client);
  /// Is it alive? What others ask for is ignored.
  bool may_ask(ProcessId client) const;
  /// Its last message was drained by everybody: drops its pins, holds, slots, chunks. client_closing need not come
  /// first.
  void client_died(ProcessId client);

  // ---- requests of clients; answered by LeaseGranted, BufferGranted or RequestFailed with the same token
  void lease(ProcessId client, Token token, const LeaseRequest& request, TimePoint deadline = kNever);
  void allocate(ProcessId client, Token token, std::uint64_t size, TimePoint deadline = kNever);
  /// The caller no longer waits. False: it was answered already (or never asked); a grant is then the caller's to give
  /// back.
  bool cancel_request(ProcessId client, Token token);
  void maybe_free(ProcessId client, std::span<const BufferId> ids);
  void give_back(ProcessId client, std::span<const ReturnedChunk> chunks, std::span<const std::uint32_t> unused_slots);
  /// Fails the requests whose deadline has passed (ObjectStoreFullError).
  void expire(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  /// The answer to PagesWanted.
  void pages_made(PageTicket ticket, const Status& status);

  // ---- holders: pins without a pin table (processes of other nodes, messages on their way, the daemon itself)
  /// Counted per (process, buffer). False: the buffer is not here, or not sealed.
  bool hold(ProcessId holder, BufferId id);
  void release(ProcessId holder, BufferId id);
  void holder_gone(ProcessId holder);
  void holders_of_node_gone(std::uint32_t node);

  // ---- the daemon's own access
  /// The bytes of a sealed buffer of this node; empty optional when not here. Hold it while using them.
  std::optional<std::span<const std::byte>> bytes(BufferId id) const;
  bool contains(BufferId id) const { return bytes(id).has_value(); }

  // ---- copies of buffers of other nodes
  //
  //    absent --begin_copy--> waiting (room, pages) --> filling --finish_copy--> present --evicted--> absent
  //                                                   +------abort_copy-------------------------------> absent
  struct CopyTicket {
    enum class State { kStarted, kShared, kWaiting, kPresent } state = State::kStarted;
    BufferId local;              ///< known unless kWaiting
    std::span<std::byte> bytes;  ///< kStarted: to be filled by the caller
  };
  /// kStarted: the caller fills bytes, then calls finish_copy or abort_copy. kShared: somebody is filling it. kWaiting:
  /// not yet; CopyGranted or CopyFailed follows. kPresent: pin local.
  Result<CopyTicket> begin_copy(BufferId remote, std::uint64_t size, TimePoint deadline = kNever);
  /// Seals it. The copy may be evicted as soon as nobody pins or holds it: hold it for each requester in the same turn.
  Result<BufferId> finish_copy(BufferId remote);
  void abort_copy(BufferId remote);
  std::optional<BufferId> find_copy(BufferId remote);  ///< present ones; counts as a use
  /// The origin freed it or died: the copy goes as soon as nobody pins it, and is found no more.
  void origin_gone(BufferId remote);
  void origin_node_gone(std::uint32_t node);  ///< SS-6

  // ---- state
  StoreUsage usage() const;  ///< looks at every slot in use: for state queries, not for each call
  std::vector<StoreEffect> take_effects();
  const StoreLayout& layout() const { return layout_; }
  Arena& arena() { return *arena_; }
  /// What populating ahead should touch next: fresh memory beside the warm part, at most `ahead` bytes of it.
  /// Call arena().populate with it on another thread; empty when there is nothing to do.
  std::optional<Range> populate_ahead(std::uint64_t ahead) const;
  /// Checks the books against each other and against the index: what is wrong, empty when all is well. For tests.
  std::string audit() const;

 private:
  struct Client {
    bool closing = false;
  };
  enum class Outcome { kDone, kNoRoom };
  /// A slot together with a range of its own.
  struct Placed {
    BufferId id;
    Range range;
  };
  /// A request that has its room and waits for pages.
  struct Assigned {
    MemoryRequest request;
    StoreEffect answer;
  };

  explicit StoreServer(const StoreServerOptions& options);
  Status open();

  bool valid(BufferId id) const { return id.node == layout_.node && id.slot < slots_.frontier() && !id.is_nil(); }
  BufferId id_of(std::uint32_t slot, std::uint32_t generation) const { return {layout_.node, slot, generation}; }
  std::span<std::byte> memory(Range range) const { return {arena_->data() + range.offset, range.size}; }

  // granting
  void ask(RequestQueue& queue, MemoryRequest request);
  Outcome try_grant(const MemoryRequest& request);
  Outcome grant_lease(const MemoryRequest& request);
  Outcome grant_buffer(const MemoryRequest& request);
  Outcome grant_copy(const MemoryRequest& request);
  void answer_when_ready(const MemoryRequest& request, Range range, StoreEffect answer);
  void take_back(const StoreEffect& answer);
  void fail(const MemoryRequest& request, ErrorPtr error);
  std::optional<Range> find_room(std::uint64_t size, Allocator::Kind kind);
  std::optional<Placed> place(SlotKind kind, ProcessId owner, std::uint64_t size);
  std::vector<std::uint32_t> lease_slots(ProcessId client, std::uint32_t count);
  void serve_queues();
  bool drop_requests(const std::function<bool(const MemoryRequest&)>& which);
  ErrorPtr too_late(const MemoryRequest& request) const;

  // freeing
  bool try_free(std::uint32_t slot);
  bool unlink_if_unpinned(std::uint32_t slot, SlotWord sealed);
  void release_slot(std::uint32_t slot, std::uint32_t generation);
  void free_unused_slot(std::uint32_t slot, std::uint32_t generation);
  void reclaim_slots_of(ProcessId client);
  std::uint64_t reclaim_slot(std::uint32_t slot);
  bool evict_one_copy();
  void drop_hold(std::uint32_t slot, std::uint32_t count);

  StoreServerOptions options_;
  StoreLayout layout_;
  std::unique_ptr<Arena> arena_;
  SlotIndex index_;
  Allocator allocator_;
  SlotTable slots_;
  ChunkTable chunks_;
  CopyTable copies_;
  PinTables pins_;
  HoldTable holds_;
  std::unordered_map<ProcessId, Client, IdHash> clients_;
  RequestQueue waiting_leases_;
  RequestQueue waiting_large_;  ///< buffers and copies
  std::map<PageTicket, Assigned> assigned_;
  PageTicket last_ticket_ = 0;
  std::set<std::uint32_t> gone_nodes_;  ///< SS-6; a number is not given out again
  std::vector<StoreEffect> effects_;
};

}  // namespace troupe::store
