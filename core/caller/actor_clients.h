// ActorClients: the calling side of actors. Where each one lives, the order of calls to it, and what becomes of them
// when it dies.
//
//             created, resolved          kActorMoved(alive)
//   CREATING ----------------> LOCATING ------------------> ALIVE --kActorMoved(restarting)--> RESTARTING --> ALIVE ...
//      | arguments failed, name taken |                       |                                    |
//      +------------------------------+-----------------------+---------- kActorMoved(dead) -------+--> DEAD
//
// A process that dies leaves the calls that were sent to it as *suspects*: with what it had begun they wait for the
// head's word (restarting or dead), which decides between sending again and failing.
//
// Invariants
//   CAC-1  Calls of one caller reach one incarnation of the actor in the order of their submission; a call that waits
//          for an argument holds back the later calls of its caller, and nobody else's. (Not with out_of_order.)
//   CAC-2  A call is sent to a new incarnation only when it had not begun in the old one, or has retries left.
//   CAC-3  An open call keeps the actor's handle.
//   CAC-5  What is said of a call is said of all its attempts: one of which an attempt may have begun is never said not
//          to have been executed.
//   CAC-4  A handle that the head gave by a name is held there from the head's answer on: the head hears of its drop,
//          also when the answer came too late for whoever asked. While such an answer is awaited, no drop is told: the
//          head may have counted the handle that it speaks of already.
//   CAC-6  What a light actor that has ended had not begun is its next life's, where the head gives it one: such calls
//          stay in their place among those that were sent until the head's word.
// Thread rule: lock held, but for create with get_if_exists, find and kill, which wait.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>

#include "core/caller/call_table.h"
#include "core/wire/handles.h"

namespace troupe::worker {

class ActorClients;

class ActorClient final : public detail::HandleBase {
 public:
  enum class State : std::uint8_t { kCreating, kLocating, kAlive, kRestarting, kDead };

  ActorClient(ActorClients& clients, wire::HandleDesc desc) : clients_(clients), desc_(std::move(desc)) {}
  ActorId id() const { return desc_.actor; }

  wire::HandleDesc& desc() { return desc_; }
  bool out_of_order() const { return (desc_.flags & wire::kHandleOutOfOrder) != 0; }
  bool light() const { return (desc_.flags & wire::kHandleLight) != 0; }
  bool holds_gpu() const { return (desc_.flags & wire::kHandleHoldsGpu) != 0; }

  State state = State::kLocating;
  ProcessId process;
  ProcessId next_process;                  // with awaits_death: where it lives by now
  bool process_dead = false;               // `process` died, the head's word is awaited
  /// The head has spoken, and what the old process has begun is not known yet: its death notice is awaited, of a light
  /// actor, whose process lives on, the answers to what was sent.
  bool awaits_death = false;
  bool counted = false, confirmed = false; // the head was told, has agreed, that this process holds a handle
  bool ever_alive = false;
  ErrorPtr death;                          // kDead: what calls fail with
  ErrorPtr last_death;                     // why the last incarnation died
  std::map<std::uint64_t, CallList> waiting;  // by caller: the first has an argument that is not there
  CallList queued;                         // in order, for an actor whose place is not known
  CallList sent;                           // in order of sending
  std::size_t returned = 0;                // of these (CAC-6)
  bool answers_due() const { return sent.size() > returned; }
  std::vector<ObjectEntryPtr> ready_refs;
  std::vector<std::uint64_t> arrivals;     // frames to acknowledge once the head has counted us
  std::shared_ptr<Outgoing> keep_arguments; // the creator pins what the constructor's arguments name
  std::size_t open = 0;                    // calls of this process that have not ended
  void call_closed() {
    if (open > 0) --open;
  }
  int lookups = 0;
  bool subscribed = false;
  bool direct = false;                     // a light actor that this process made in its host itself

 protected:
  void last_released() noexcept override;

 private:
  ActorClients& clients_;
  wire::HandleDesc desc_;
};

inline ActorClient& client_of(const detail::HandlePtr& handle) { return static_cast<ActorClient&>(*handle); }

class ActorClients {
 public:
  ActorClients(Runtime& runtime, Owner& owner, CallTable& calls) : runtime_(runtime), owner_(owner), calls_(calls) {}

  // ---- the API; these take the lock themselves
  detail::HandlePtr create(detail::OutgoingCall construction, const ActorOptions* options,
                           const std::string& class_name);
  /// The actor of that name; InvalidArgumentError when it is of another class.
  Result<detail::HandlePtr> find(const wire::NamedActor& name, const std::string& class_name);
  void kill(const detail::HandlePtr& handle, bool restart);

  // ---- lock held
  using Found = std::function<void(Result<detail::HandlePtr>)>;
  void ask_name(wire::NamedActor name, const std::string& class_name, Found found);
  void submit(const detail::HandlePtr& handle, detail::OutgoingCall outgoing, CallKind kind, const CallOptions* options,
              detail::ObjectPtr* returns, StreamState* stream);
  detail::ObjectPtr ready(const detail::HandlePtr& handle);
  detail::ObjectPtr monitor(const detail::HandlePtr& handle);
  void arguments_ready(PendingCall& call);
  void cancel(PendingCall& call, const CancelOptions& options, ErrorPtr error = nullptr);
  void on_reply(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source);
  void on_moved(const wire::ActorLocation& location);
  void process_died(const wire::ProcessDied& died, const net::BegunCalls& begun);
  void node_died(std::uint32_t node, const ErrorPtr& error);
  std::size_t known() const { return clients_.size(); }
  /// What the creation names is held for it no more.
  void arguments_taken(ActorId actor) { untaken_.erase(actor); }
  /// Creations whose refs and handles only this process holds.
  std::size_t untaken() const { return untaken_.size(); }
  /// Drops what it holds itself, when the process is taken apart.
  void clear(const ErrorPtr& why);

  /// The handle for a description that came in a value; `wait`: the arrival must wait for the head's count.
  detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait);
  const wire::HandleDesc& describe(const detail::HandlePtr& handle) { return client_of(handle).desc(); }
  /// The last handle here is gone. Any thread.
  void drop(ActorClient& client) noexcept;

 private:
  struct Creation;
  void dropped(ActorClient& client);
  detail::Ptr<ActorClient> client(wire::HandleDesc desc);
  detail::HandlePtr create_light(detail::OutgoingCall construction, const std::string& class_name);
  void hosts_known();
  void start_creation(const std::shared_ptr<Creation>& creation);
  detail::HandlePtr existing_or(const detail::HandlePtr& own, const std::shared_ptr<Creation>& creation,
                                exec::Waiter& waiter);
  void locate(ActorClient& client);
  void route(ActorClient& client, PendingCall& call);
  void flush_caller(ActorClient& client, std::uint64_t caller);
  void flush_queue(ActorClient& client);
  void old_process_settled(ActorClient& client);
  void old_light_settled(ActorClient& client);
  void mark_suspects(ActorClient& client, const net::BegunCalls& begun);
  void resend_or_fail(ActorClient& client);
  bool comes_back(ActorClient& client, PendingCall& call, const ReplyHead& head);
  void fail_returned(ActorClient& client, const ErrorPtr& error);
  void die(ActorClient& client, const ErrorPtr& error);
  void end_of_process(ActorClient& client);
  ErrorPtr error_for(ActorClient& client, PendingCall& call, const ErrorPtr& death, Outcome outcome) const;
  detail::HandlePtr held_by_head(const wire::HandleDesc& desc);
  void name_answered();
  void count(ActorId actor, bool held);
  void count_soon();
  void flush_counts();

  Runtime& runtime_;
  Owner& owner_;
  CallTable& calls_;
  boost::unordered_flat_map<ActorId, ActorClient*, IdHash> clients_;
  std::uint64_t last_actor_ = 0;
  std::map<ActorId, std::shared_ptr<Outgoing>> untaken_;  // by actor, until it was constructed: refs and handles
  std::map<ActorId, bool> counts_;         // to be told to the head: held or dropped
  bool counts_timer_ = false, counting_soon_ = false;
  std::size_t names_asked_ = 0;            // CAC-4: answers that are awaited
  std::vector<ProcessId> light_hosts_;     // of this node, for light actors made directly
  bool hosts_asked_ = false;
  std::size_t next_host_ = 0;
  std::vector<detail::Ptr<ActorClient>> without_host_;
};

}  // namespace troupe::worker
