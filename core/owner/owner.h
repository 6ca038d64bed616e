// Owner: the objects of a process with everything that moves them: refs and their counts (objects.h), buffers, values
// in frames, what frames on their way hold; and the frames by which owners and borrowers talk.
//
//   borrower --kBorrow--------> owner        counts the borrower, if the object is there; answered by kBorrowed
//   borrower --kValueRequest--> owner        answered by kValue, now or when the object is settled
//   borrower --kRelease-------> owner        gives grants back
//
// A reader that does not take what it asked for is answered later (late_answers.h).
//
// Thread rule: lock held, but for buffers() where it says so.
#pragma once
#include "core/owner/buffers.h"
#include "core/owner/calling_side.h"
#include "core/owner/holds.h"
#include "core/owner/late_answers.h"
#include "core/owner/objects.h"
#include "core/owner/values.h"

namespace troupe::worker {

inline constexpr Duration kBorrowGrace = std::chrono::seconds(1);  ///< how long a dead borrower counts (OW-2)

class Owner final : private OwnershipEffects {
 public:
  explicit Owner(Runtime& runtime);
  /// Before anything else is called: who submits the calls whose results and arguments these objects are.
  void set_calling_side(CallingSide& calls);

  ObjectTable& objects() { return objects_; }
  HoldTable& holds() { return holds_; }
  BufferTable& buffers() { return buffers_; }
  ValueCodec& values() { return values_; }
  /// Are there readers that were not answered yet, because they take nothing?
  bool answers_wait() const { return late_.any(); }

  // ---- incoming frames
  void on_value_request(const net::FrameHeader& header, ByteView payload);
  void on_value(const net::FrameHeader& header, ByteView payload);
  void on_release(ProcessId borrower, ByteView payload);
  void on_borrow(ProcessId borrower, ByteView payload);
  void on_borrowed(ProcessId owner, ByteView payload);

  void process_died(ProcessId process, const std::function<ErrorPtr()>& owner_died);
  void node_died(std::uint32_t node, const std::function<ErrorPtr()>& owner_died);
  /// Waits for objects of others end with `why`; results of calls are the calling side's to end.
  void begin_shutdown(const ErrorPtr& why);
  /// Lets go of what others hold here, when the process is taken apart.
  void clear();

 private:
  void send_release(ProcessId owner, ObjectId id, std::uint32_t grants) override;
  void send_borrow(ProcessId owner, ObjectId id) override;
  void send_value_request(ProcessId owner, ObjectId id) override;
  void send_value(ProcessId reader, std::uint64_t token, ObjectEntry& entry) override;
  void answer(ProcessId reader, std::uint64_t token, ObjectEntry& entry);
  void look_at_late_soon();
  void died(const ObjectTable::Whose& gone, const std::function<ErrorPtr()>& owner_died);
  void dependency_ready(PendingCall& call) override { calls_->dependency_ready(call); }
  void run_callback(std::function<void()> callback) override;
  void result_unwanted(PendingCall& call, ObjectEntry& entry) override { calls_->result_unwanted(call, entry); }
  void arrival_confirmed(std::uint64_t arrival) override { holds_.confirmed(arrival); }

  Runtime& runtime_;
  ObjectTable objects_;
  HoldTable holds_;
  BufferTable buffers_;
  ValueCodec values_;
  LateAnswers late_;
  CallingSide* calls_ = nullptr;
};

}  // namespace troupe::worker
