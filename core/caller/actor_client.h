// ActorClient: one actor as this process calls it; every handle of it here is a reference to this.
//
//   submit --> ActorCalls (order, fates) --> CallTable::send --> frames --> ... --> on_reply
//   the head's word, death notices --> ActorLife (where it lives) --> ActorCalls: send, send again, fail
//
// Invariants
//   CAC-3  An open call keeps the actor's handle.
//   CAC-8  Once kill() has returned here, or a monitor has told of the death, a new call fails with ActorDiedError,
//          even while the actor's process has not heard of it.
//   CAC-10  While its constructor's arguments are awaited the actor is this process's alone: a kill here ends it at
//           once, and monitors wait here. The head is told that it will come, and keeps what others ask of it.
//   CAC-11  What a light actor that has died has not answered fails a grace after its death, as what a killed process
//          ran does: its host lives, and may answer much later or never.
// Thread rule: lock held, but for what the last handle's release does.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/caller/actor_calls.h"
#include "core/caller/actor_life.h"
#include "core/caller/handle_counts.h"
#include "core/caller/untaken_arguments.h"
#include "core/wire/handles.h"

namespace troupe::worker {

class ActorClient;

/// What an ActorClient stands on: parts of its process, and the table that it is in.
class ActorHome {
 public:
  struct Parts {
    Runtime& runtime;
    Owner& owner;
    CallTable& calls;
    UntakenArguments& untaken;
  };
  explicit ActorHome(const Parts& parts) : parts_(parts) {}
  const Parts& parts() const { return parts_; }
  /// The client of that actor; null when nobody here holds a handle.
  virtual detail::Ptr<ActorClient> find(ActorId actor) = 0;
  /// The last handle here is gone. Any thread.
  virtual void drop(ActorClient& client) noexcept = 0;

 protected:
  ~ActorHome() = default;

 private:
  Parts parts_;
};

class ActorClient final : public detail::HandleBase {
 public:
  ActorClient(ActorHome& home, wire::HandleDesc desc)
      : home_(home), calls_(home.parts().calls), desc_(std::move(desc)) {}

  ActorId id() const { return desc_.actor; }
  const wire::HandleDesc& desc() const { return desc_; }
  bool out_of_order() const { return (desc_.flags & wire::kHandleOutOfOrder) != 0; }
  bool light() const { return (desc_.flags & wire::kHandleLight) != 0; }
  bool holds_gpu() const { return (desc_.flags & wire::kHandleHoldsGpu) != 0; }
  const ActorLife& life() const { return life_; }
  HeldHandle& held() { return held_; }
  /// The process that this handle is in.
  Runtime& runtime() { return home_.parts().runtime; }

  // ---- its creation, by this process
  /// The head is to be asked to create it, as soon as its arguments are there.
  void creating();
  /// They are not there yet. (CAC-10)
  void hold_back() { before_head_ = std::make_unique<BeforeHead>(); }
  bool held_back() const { return before_head_ && !before_head_->never_made; }
  /// The head has been asked: so it is for whoever monitors it.
  void go_ahead();
  /// The head will not be asked, or has not heard of it: monitors hear of that as of a death.
  void give_up(DeathCause cause, const ErrorPtr& why);
  /// The head has answered: it agreed, or there is one of that name already.
  void created() { life_.created(); }
  /// What its constructor's arguments name is pinned for as long as it may be constructed again.
  void pin_arguments(std::shared_ptr<Outgoing> arguments, bool for_restarts) {
    keep_arguments_ = std::move(arguments);
    kept_for_restarts_ = for_restarts;
  }
  /// It is made in its host directly: the construction is the first call on the way there.
  void construct_direct(detail::OutgoingCall construction);
  /// That is its host.
  void placed(ProcessId host);
  /// A handle came that names the host already: there is no need to ask the head, which may not have heard of it yet.
  void found_direct(ProcessId host);

  // ---- its calls
  /// Throws PendingCallsLimitError.
  void submit(detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options, detail::ObjectPtr* returns,
              StreamState* stream);
  void arguments_ready(PendingCall& call);
  void cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error = nullptr);
  void on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  /// A call of it was forgotten.
  void call_closed() {
    if (open_ > 0) --open_;
  }
  /// There when it is constructed; fails with its death.
  detail::ObjectPtr ready();
  /// There when it is dead: how it died.
  detail::ObjectPtr monitor();

  // ---- its life
  /// Asks the head where it lives, and to be told from now on.
  void locate();
  void moved(const wire::ActorLocation& word);
  /// Its process, or all of its node, is dead: what that had begun.
  void process_died(const net::BegunCalls& begun, ErrorPtr why);
  /// Where it lives, for a head that may not have heard of it yet.
  wire::LightHome home() const;
  /// The head has said here that it is dead, but not as news to whom it keeps posted: a light actor that was made
  /// directly has one life, and nobody subscribes to it. (CAC-8)
  void heard_dead(const std::string& why);
  /// It is dead, or cannot be reached for good: its calls fail, but those whose answers may still be on their way.
  void die(const ErrorPtr& why);
  /// The process is taken apart: nothing is waited for.
  void clear(const ErrorPtr& why);

 protected:
  void last_released() noexcept override { home_.drop(*this); }

 private:
  /// CAC-10. Few have it: it is apart so that handles stay small.
  struct BeforeHead {
    std::vector<detail::ObjectPtr> monitors;
    std::optional<ActorDeath> never_made;
  };

  Owner& owner() { return home_.parts().owner; }
  CallTable& table() { return home_.parts().calls; }
  ActorEnd end_by(const ErrorPtr& why) const { return {id(), desc_.class_name, why, life_.ever_alive()}; }

  PendingCall& make_call(detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options,
                         detail::ObjectPtr* returns, StreamState* stream);
  void start_deadline(PendingCall& call, Duration timeout);
  void route(PendingCall& call);
  void flush_caller(std::uint64_t caller);
  void flush();
  void take_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  bool comes_back(const PendingCall& call, const ReplyHead& head) const;
  void is_constructed();
  void not_located(const ErrorPtr& error);
  void await_death();
  void await_last_answers();
  void ask_for_death(const detail::ObjectPtr& ref);
  void tell_death(const detail::ObjectPtr& ref, const ActorDeath& death);
  void old_process_settled();
  void old_light_settled();
  void resend_or_fail();

  ActorHome& home_;
  ActorCalls calls_;
  ActorLife life_;
  HeldHandle held_;
  wire::HandleDesc desc_;
  std::vector<ObjectEntryPtr> ready_refs_;
  std::unique_ptr<BeforeHead> before_head_;
  // The creator pins what the constructor's arguments name: of an actor that never comes back until it is constructed.
  std::shared_ptr<Outgoing> keep_arguments_;
  bool kept_for_restarts_ = false;
  std::size_t open_ = 0;                      // calls of this process that have not ended
  int lookups_ = 0;
  bool subscribed_ = false;                   // the head was asked
};

inline ActorClient& client_of(const detail::HandlePtr& handle) { return static_cast<ActorClient&>(*handle); }

}  // namespace troupe::worker
