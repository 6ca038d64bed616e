// Buffers as attachments of values: memory of this node's store, or the name of memory on another node until it is
// fetched.
//
//   OPEN --seal--> LOCAL                       made here
//   REMOTE --hold asked--> HELD --fetch--> LOCAL(copy)   arrived from another node; the hold keeps the original there
//   own node's, not to be pinned now: REMOTE --fetch, without a hold--> LOCAL
//   REMOTE --fetch fails, not for good--> REMOTE
//   LOST                                       the daemon says that it is gone: reading gives ObjectLostError
//
// Invariants
//   OB-1  A buffer of this node is pinned before its frame is acknowledged, never other bytes.
//   OB-2  A pin that fails is no proof: the daemon may have been stopped while it looked whether to free the buffer. It
//         is asked, and only its word makes the buffer LOST.
//   OB-3  A fetch that fails because there is no room here or the bytes did not come in time is no loss: those who wait
//         for it get that error, and the next reading fetches again.
// Thread rule: as each function says; data() and size() of an entry from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/waiter.h"
#include "core/owner/holds.h"
#include "core/wire/messages.h"
#include "objectstore/client/client.h"
#include <troupe/detail/counted.h>
#include <troupe/result.h>

namespace troupe::worker {

class BufferTable;
class Runtime;
struct WaitNode;

class BufferEntry final : public detail::BufferBase {
 public:
  enum class State : std::uint8_t { kOpen, kLocal, kRemote, kLost };

  explicit BufferEntry(BufferTable& table) : table_(table) {}

  State state = State::kOpen;
  wire::BufferDesc desc;                 // where it was made
  store::WritableBuffer open;
  store::Pin pin;                        // local memory: the original, or a copy of a remote one
  bool held = false;                     // the other node's daemon pins it for this process
  std::uint64_t arrival = 0;             // to be confirmed when the fetch has ended (OB-1)
  /// A fetch that is under way, with those who wait for its end.
  struct Fetching {
    std::vector<WaitNode*> waiters;
    std::vector<std::function<void()>> callbacks;
  };
  std::unique_ptr<Fetching> fetching;
  /// For the error, should the memory be lost; of memory on other nodes only.
  struct Story {
    std::string made_by;                 // "the task 'f'": whose result it is, where this process made the call
    ErrorPtr why;                        // what the daemon said when it was last asked in vain
  };
  std::unique_ptr<Story> story;

  void set_memory(const std::byte* data, std::size_t size) {
    size_ = size;
    data_.store(data, std::memory_order_release);
  }
  void set_size(std::size_t size) { size_ = size; }
  /// The process that this entry is of.
  Runtime& runtime() const;

 protected:
  void last_released() noexcept override;

 private:
  friend class BufferTable;
  BufferTable& table_;
};

inline BufferEntry& buffer_of(const detail::BufferPtr& buffer) { return static_cast<BufferEntry&>(*buffer); }

/// Makes, takes in, fetches and drops the buffers of a process.
class BufferTable {
 public:
  BufferTable(Runtime& runtime, HoldTable& holds) : runtime_(runtime), holds_(holds) {}
  Runtime& runtime() const { return runtime_; }

  /// New writable memory; any thread, lock not held; may wait for room. ObjectStoreFullError when there is none.
  Result<detail::BufferPtr> allocate(std::size_t bytes);
  /// From here on its bytes do not change. Any thread.
  void seal(BufferEntry& entry);
  /// Its id leaves this process: no other buffer may get it. Lock held.
  void mark_shared(BufferEntry& entry);

  /// A buffer that came in a value. Lock held.
  detail::BufferPtr arrived(const wire::BufferDesc& desc, std::uint64_t arrival);
  /// Is the memory of all buffers of this value here? Any thread.
  static bool all_here(const detail::Value& value);
  /// Waits until it is. Lock not held. False when the deadline passed; ObjectLostError when memory is gone, another
  /// error when it could not be brought here now (OB-3). A wait like any other (WaitScope): throws what interrupts the
  /// caller, and gives the CPUs of a task back.
  Result<bool> fetch_all(const detail::Value& value, exec::Deadline deadline);
  /// Likewise without waiting: `done` is called under the lock, now or later, with null or the error. Lock held.
  void fetch_then(const detail::Value& value, std::function<void(const ErrorPtr&)> done);
  /// It is the result of this call (BufferEntry::Story). Lock held.
  void made_by(const detail::Value& value, const std::function<std::string()>& call);
  /// What is lost with it says so, and why. Lock held.
  void node_died(std::uint32_t node, const ErrorPtr& error);
  /// The last handle is gone. Any thread.
  void drop(BufferEntry& entry) noexcept;

 private:
  void dropped(BufferEntry& entry);
  BufferEntry::Fetching& begin_fetch(BufferEntry& entry);
  void fetch(BufferEntry& entry, int attempt);
  void fetched(BufferEntry& entry);
  bool pin_here(BufferEntry& entry, store::BufferId local);
  void failed(BufferEntry& entry, const ErrorPtr& why);
  ErrorPtr error_among(const std::vector<detail::BufferPtr>& buffers) const;
  ErrorPtr lost_error(const BufferEntry& entry) const;

  struct NodeDeath { ErrorPtr error; exec::Deadline at; };
  std::map<std::uint32_t, NodeDeath> node_deaths_;
  Runtime& runtime_;
  HoldTable& holds_;
};

}  // namespace troupe::worker
