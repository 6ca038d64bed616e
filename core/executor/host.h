// Host: the executing side of a worker process. Takes calls from frames, keeps them in order, has them run, answers.
//
//   kCall frame --> on_call --> task queue ---------> Executors: begin_run, the user's function, end_run --> reply
//                           --> HostedActor's groups --------^
//
// A worker is a task worker until it is told to host an actor; then it belongs to that actor (or, as a light host, to
// many).
//
// Invariants
//   HO-1  A worker holds at most one task that has begun, and those of shared leases, which run beside it at once. The
//         number of a call is noted on its ring before it begins; of tasks that are not shared, the reply is sent
//         before the next one begins (where its ring is full, it waits in this process's memory: HO-7).
//   HO-2  Calls that did not begin go back to their submitter when the running task waits or has run for kRecallAfter
//         (one that is taken and has yet to begin counts from the task before it: they may go back early).
//   HO-3  Every call that arrives is answered once, given back once, or dies with this process.
//   HO-4  (executor_threads.h) A process whose main thread runs fibers takes no tasks: one that came by mistake goes
//         back.
//   HO-7  Nothing is begun for a caller that does not take its replies (reply_room.h), until it does or is dead;
//         but for a task of a shared worker, of which there is one a lease.
//   HO-6  A task whose lease's CPUs were given to others while it waited is the last one of its lease: what comes under
//         it goes back, so that new tasks begin only under leases that have their CPUs.
//   HO-5  A call to an actor that its maker makes here directly waits for the frame that constructs it: the maker's
//         frames come in the order of its actors, so an actor below the last one made is over, one above is still to
//         come.
//   HO-9  A light actor that is ended before its construction has come is not constructed.
//   HO-10  A light actor's next life waits here for the end of the one before, which may take as long as a method runs:
//          then it is constructed. What ends the actor meanwhile ends both, and a life that waits at once, without a
//          constructor; so does the one after it.
//   HO-8  A task or generator whose submitter is dead ends: one that runs is interrupted; one that had yet to begin,
//         wherever it waited, is not run, or makes no item. Methods that give no stream run all the same.
// Thread rule: as noted.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/executor/incoming.h"
#include "core/executor/light_report.h"
#include "core/executor/replies.h"
#include "core/runtime/context.h"
#include "core/runtime/reply_room.h"
#include "core/runtime/task_waits.h"
#include "core/wire/messages.h"
#include <troupe/detail/invocation.h>

namespace troupe::worker {

class Caller;
class Executors;
class HostedActor;
class Owner;
class Runtime;

class Host final : public TaskWaits {
 public:
  Host(Runtime& runtime, Owner& owner, Caller& caller, Executors& executors);
  ~Host() override;

  Runtime& runtime() { return runtime_; }
  Owner& owner() { return owner_; }
  Executors& executors() { return executors_; }
  Replies& replies() { return replies_; }

  // ---- lock held
  void on_call(ProcessId ring, const net::FrameHeader& header, ByteView payload);
  void construct(wire::ConstructActor message);
  void cancel(ProcessId source, std::uint64_t call_id, std::uint64_t flags);
  void stream_credit(ProcessId source, std::uint64_t call_id, std::uint64_t taken);
  void stream_dropped(ProcessId source, std::uint64_t call_id);
  void handles_gone(ActorId actor);
  void end_actor(const wire::EndActor& message);
  /// Nobody wants the answers to their calls any more.
  void source_died(ProcessId source) {
    forget_sources([source](ProcessId one) { return one == source; });
  }
  void node_died(std::uint32_t node) {
    forget_sources([node](ProcessId one) { return one.node == node; });
  }
  /// The process ends: what runs is interrupted, the executors stop.
  void shutdown();
  /// May this process, which no lease is of, end? It owns nothing that others hold, runs nothing, nothing waits here to
  /// be sent, and who was sent what others own has counted it.
  bool idle() const;
  void describe_tasks(wire::StateReply& reply);
  /// Forgets what it queues, runs and hosts, when the process is taken apart.
  void clear();

  // ---- TaskWaits (HO-2)
  void task_waits() override;
  void task_blocked(CallContext& context, bool blocked) override;

  // ---- for HostedActor; lock held
  void note_begun(const IncomingCall& call);
  std::uint64_t next_run() { return ++last_run_; }
  void actor_ended(HostedActor& actor);
  /// Null when it is not here, or here no more.
  HostedActor* hosted(ActorId actor) {
    auto found = actors_.find(actor);
    return found == actors_.end() ? nullptr : found->second.get();
  }
  LightReport& light_report() { return light_report_; }
  /// HO-7
  bool any_held() const { return room_.any(); }
  bool is_held(ProcessId caller) const { return room_.is_held(caller); }
  /// A reply of so many bytes has left for the caller, or waits.
  void replied(ProcessId caller, std::size_t bytes) {
    if (bytes >= ReplyRoom::kLarge) [[unlikely]] look_at_room(caller);
  }
  /// Calls of the actor that have not begun end with `unbegun`, those that run are interrupted with `begun`.
  void interrupt_calls(HostedActor& actor, const ErrorPtr& unbegun, const ErrorPtr& begun);
  /// The call has its place in the actor and is on its way to a thread.
  void queue_admitted(IncomingCall& call) { link_admitted(call); }
  /// A call that comes to its turn in a process that is cut off. Called without the lock.
  void never_runs(IncomingCall& call, HostedActor* actor);

  // ---- for Executors
  /// Queues work that any executor may do. Lock held.
  void queue_work(std::function<void()> work);
  /// What an executor does next. False: nothing to do now. Lock held.
  bool next_work(std::function<void()>& work);
  /// Is the process to end, once its executors have done what they do? Lock held.
  bool ending() const { return ending_; }
  /// The fibers of an actor were given the main thread: queued tasks go back. Lock held.
  void give_back_tasks();
  /// The two ends of a call, around the user's function; the context lives from one to the other. When it began. Lock
  /// not held.
  exec::Deadline begin_run(const IncomingPtr& call, HostedActor* actor, CallContext& context);
  void end_run(const IncomingPtr& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation,
               const ErrorPtr& error);
  /// exit_actor: the actor of the running call leaves after it.
  void exit_current_actor();
  /// Local mode, after the executors have stopped: waits for actors that still end, and for the threads of others.
  void join_actors();

 private:
  IncomingPtr parse(ProcessId ring, const net::FrameHeader& header, ByteView payload);
  void on_task(IncomingPtr call);
  void construct_light(IncomingPtr call);
  void not_constructed(IncomingCall& construction, ErrorPtr why);
  bool is_to_come(ActorId actor) const;
  void end_next_life(ActorId actor, DeathCause cause, const std::string& message);
  void lease_spent(std::uint64_t lease);
  using AreDead = std::function<bool(ProcessId)>;
  void forget_sources(const AreDead& dead);
  static bool ends_with_source(const IncomingCall& call);
  void fail_early(const AreDead& dead);
  void arm_recall();
  void look_at_room(ProcessId caller);
  void look_at_held();
  void answer(IncomingCall& call, HostedActor* actor, detail::Invocation& invocation, const ErrorPtr& error);
  /// Calls that their actor has admitted, until they run: they are on their way to a thread and can still be dropped.
  void link_admitted(IncomingCall& call);
  void unlink_admitted(IncomingCall& call);
  template <class Pred> void drop_admitted(Pred&& pred, const ErrorPtr& why) {
    for (IncomingCall* call = admitted_; call; call = call->next_admitted)
      if (pred(*call)) {
        call->dropped = true;
        call->dropped_why = why;
      }
  }
  IncomingPtr find_running(ProcessId source, std::uint64_t call_id);

  Runtime& runtime_;
  Owner& owner_;
  Caller& caller_;
  Executors& executors_;
  Replies replies_;
  LightReport light_report_;
  ReplyRoom room_;
  std::deque<IncomingPtr> tasks_;
  IncomingPtr current_task_;
  std::vector<IncomingPtr> beside_;    // shared tasks on their way to a thread
  exec::Deadline current_since_{};
  std::uint64_t spent_lease_ = 0;      // HO-6: no task of it begins here any more; 0: none
  bool recall_timer_ = false;
  bool ending_ = false;
  std::uint64_t calls_from_daemon_ = 0;
  std::uint64_t last_run_ = 0;
  std::deque<std::function<void()>> runnable_;
  std::vector<IncomingPtr> running_;
  IncomingCall* admitted_ = nullptr;
  boost::unordered_flat_map<ActorId, std::unique_ptr<HostedActor>, IdHash> actors_;
  boost::unordered_flat_map<ActorId, std::unique_ptr<HostedActor>, IdHash> next_lives_;  // HO-10: not started
  // HO-5: calls to actors still to come
  boost::unordered_flat_map<ActorId, std::vector<IncomingPtr>, IdHash> early_;
  boost::unordered_flat_map<ActorId, ErrorPtr, IdHash> ended_early_;               // HO-9: why
  boost::unordered_flat_map<ProcessId, std::uint64_t, IdHash> last_made_;          // HO-5: by maker
  std::shared_ptr<const wire::ActorSpec> light_spec_;  // of all light actors made directly
  std::mutex parting_mutex_;
  std::condition_variable parted_;
  int parting_ = 0;  // actors that have ended and are being destroyed; under parting_mutex_
};

}  // namespace troupe::worker
