// Objects as this process sees them: the entries behind ObjectRef, and the ownership rules.
//
// The process that made a ref owns the object: it keeps the value (or the error), counts handles here and borrowers
// elsewhere, and answers borrowers' reads. A borrower keeps an entry of its own and reads the value once.
//
//   owned:     PENDING --result, put--> READY | FAILED         entry goes when no handle here and no borrower is left
//   borrowed:  UNKNOWN --a reader--> ASKED --kValue--> READY | FAILED; its owner died: FAILED(OwnerDied)
//
// Invariants
//   OW-1  value and error of an entry do not change after its state left PENDING.
//   OW-2  An owner's entry lives while a handle is here or any borrower's grants are not given back. Those of a process
//         that died are dropped a grace later (Owner): a ref that it had passed on may still be on its way, or whoever
//         got it about to say so (OW-4).
//   OW-3  Each sending of a ref by its owner is one grant; a borrower gives back as many as it received, in one
//         kRelease, and in one more what the owner confirms after that.
//   OW-4  A sender that is not the owner holds its own entry until the receiver has been confirmed by the owner
//         (holds.h).
// Thread rule: everything under the lock, but reading state, value and error of an entry that is READY or FAILED.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/exec/waiter.h"
#include "core/runtime/slab.h"
#include <troupe/detail/counted.h>
#include <troupe/result.h>

namespace troupe::worker {

class ObjectTable;
class Runtime;
struct PendingCall;   // of core/caller: here only a name to hand back

/// One waiting thread or fiber and how many of its objects are still missing.
struct WaitGroup {
  exec::Waiter* waiter = nullptr;
  std::size_t missing = 0;
  bool fetches = false;  ///< each value that lies on another node wakes it, too: it asks for that at once
};
struct WaitNode {
  WaitGroup* group = nullptr;
  WaitNode* next = nullptr;
};

class ObjectEntry final : public detail::ObjectBase {
 public:
  ObjectEntry(std::uint64_t handle, ObjectTable& table) : table_(table), handle_(handle) {}

  /// What few entries need.
  struct Rare {
    std::vector<std::pair<ProcessId, std::uint32_t>> borrowers;     // owned: grants by process
    // owned, pending: who asked for the value, with its token
    std::vector<std::pair<ProcessId, std::uint64_t>> readers;
    std::vector<PendingCall*> dependents;                           // calls here that wait for it
    std::vector<std::function<void()>> callbacks;
    std::uint32_t grants = 0;                                       // borrowed: to be given back
    bool asked = false, confirmed = false;
    std::vector<std::uint64_t> confirmations;                       // arrivals that wait for the owner's word
  };

  ObjectId id;
  bool owned = true;
  bool sent_away = false;             // its id left this process
  std::uint32_t mark = 0;             // of the last list that it was seen in (ObjectTable::next_mark)
  PendingCall* producer = nullptr;    // owned and pending: the call that makes it
  detail::Value value;
  ErrorPtr error;
  WaitNode* waiters = nullptr;

  Rare& rare() { if (!rare_) rare_ = std::make_unique<Rare>(); return *rare_; }
  Rare* rare_if() { return rare_.get(); }
  std::uint64_t handle() const { return handle_; }
  /// The process that this entry is of.
  Runtime& runtime() const;
  void set_state(State state) { state_.store(state, std::memory_order_release); }

 protected:
  void last_released() noexcept override;

 private:
  friend class ObjectTable;
  ObjectTable& table_;
  std::uint64_t handle_;
  std::unique_ptr<Rare> rare_;
};

using ObjectEntryPtr = detail::Ptr<ObjectEntry>;
inline ObjectEntry& entry_of(const detail::ObjectPtr& object) { return static_cast<ObjectEntry&>(*object); }

/// What the table asks of its surroundings. Called under the lock, when the table is whole: what is called may come
/// back into it (a call that goes on may grant or fail other objects), but does not destroy entries before the lock is
/// free.
class OwnershipEffects {
 public:
  virtual ~OwnershipEffects() = default;
  virtual void send_release(ProcessId owner, ObjectId id, std::uint32_t grants) = 0;
  virtual void send_borrow(ProcessId owner, ObjectId id) = 0;
  virtual void send_value_request(ProcessId owner, ObjectId id) = 0;
  virtual void send_value(ProcessId reader, std::uint64_t token, ObjectEntry& entry) = 0;
  /// An object that this call has as an argument was settled.
  virtual void dependency_ready(PendingCall& call) = 0;
  virtual void run_callback(std::function<void()> callback) = 0;
  /// Nobody holds this result of the call any more.
  virtual void result_unwanted(PendingCall& call, ObjectEntry& entry) = 0;
  virtual void arrival_confirmed(std::uint64_t arrival) = 0;
};

class ObjectTable {
 public:
  using Whose = std::function<bool(ProcessId)>;
  ObjectTable(Runtime& runtime, OwnershipEffects& effects) : runtime_(runtime), effects_(effects) {}
  Runtime& runtime() const { return runtime_; }
  /// A number for the entries of one list. It comes again after 2^32 of them: an equal mark is a hint, not a proof.
  std::uint32_t next_mark() { return ++last_mark_; }

  /// A new pending object owned here, with one handle.
  ObjectEntry* make_owned();
  /// The entry of an id of this process; null when it is gone.
  ObjectEntryPtr find_owned(ObjectId id);
  /// The entry of an id of another process, made when it is not known. `granted`: the owner itself sent it.
  ObjectEntryPtr borrow(ObjectId id, bool granted);
  /// Must the owner still confirm this borrow? Then `arrival` is told by the result of confirm().
  bool needs_confirmation(ObjectEntry& entry, std::uint64_t arrival);
  /// The owner answered: the arrivals that waited.
  std::vector<std::uint64_t> confirmed(ObjectId id);

  void complete(ObjectEntry& entry, detail::Value value);
  void fail(ObjectEntry& entry, ErrorPtr error);
  /// Somebody here wants the value: asks the owner once.
  void want(ObjectEntry& entry);
  void add_waiter(ObjectEntry& entry, WaitNode& node);
  void remove_waiter(ObjectEntry& entry, WaitNode& node);

  // owner's side
  void grant(ObjectEntry& entry, ProcessId borrower);
  void released(ProcessId borrower, ObjectId id, std::uint32_t grants);
  /// A borrower wants the value, now or when it is there. False: no such object.
  bool value_wanted(ProcessId reader, ObjectId id, std::uint64_t token);

  /// The last handle here is gone: the entry goes, at once or when the caller lets go of the lock. Any thread.
  void drop(ObjectEntry& entry) noexcept;
  /// These died: their objects fail, and they read no more.
  void died(const Whose& gone, const std::function<ErrorPtr()>& owner_died);
  /// Their grants are dropped.
  void drop_borrowers(const Whose& gone);

  std::size_t live() const { return entries_.live(); }
  /// The books, for who checks them: is this object of ours here; what a process borrows of it; do we borrow it?
  bool knows(ObjectId id) { return entries_.find(id.seq) != nullptr; }
  std::optional<ErrorCode> code_of(ObjectId id) {
    ObjectEntry* entry = entries_.find(id.seq);
    return entry && entry->error ? std::optional(entry->error->code()) : std::nullopt;
  }
  std::uint32_t grants_of(ObjectId id, ProcessId borrower);
  bool borrows(ObjectId id) const { return borrowed_.contains(id); }
  /// Drops what others hold and want of this process's objects, when the process is taken apart.
  void forget_others();
  bool has_borrowers() const { return borrowed_out_ != 0; }
  template <class F> void for_each(F&& f) { entries_.for_each(f); }

 private:
  void dropped(ObjectEntry& entry);
  void settle(ObjectEntry& entry, detail::ObjectBase::State state);
  void destroy(ObjectEntry& entry);
  void drop_readers(const Whose& gone);
  void fail_borrowed(const Whose& gone, const std::function<ErrorPtr()>& owner_died);

  Runtime& runtime_;
  OwnershipEffects& effects_;
  std::uint32_t last_mark_ = 0;
  Slab<ObjectEntry> entries_;
  boost::unordered_flat_map<ObjectId, ObjectEntry*, IdHash> borrowed_;
  std::size_t borrowed_out_ = 0;  // owned entries that somebody else borrows
};

}  // namespace troupe::worker
