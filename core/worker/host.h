// Host: the executing side of a worker process. Takes calls from frames, keeps them in order, runs them, answers.
//
//   kCall frame --> on_call --> task queue ----------------> executor thread: run --> reply
//                           --> HostedActor's groups --> runnable queue or fibers --^
//
// A worker is a task worker until it is told to host an actor; then it belongs to that actor (or, as a light host, to many).
//
// Invariants
//   HO-1  A worker holds at most one task that has begun. The number of a call is noted on its ring before it begins, and its
//         reply is published before the next one begins.
//   HO-2  Calls that did not begin go back to their submitter when the running task waits or has run for kRecallAfter.
//   HO-3  Every call that arrives is answered once, given back once, or dies with this process.
//   HO-4  Fibers, of light actors or of an actor with one thread, run on the main thread, which serves the rings too: a call
//         needs no second thread. There the queue of the executors is not used; a task that came by mistake goes back.
// Thread rule: as noted; run_main_loop belongs to the process's main thread.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/exec/fibers.h"
#include "core/wire/messages.h"
#include "core/worker/context.h"
#include "core/worker/incoming.h"
#include "core/worker/objects.h"
#include <troupe/detail/invocation.h>

namespace troupe::worker {

struct HostedActor;

class Host {
 public:
  explicit Host(Core& core);
  ~Host();

  // ---- lock held
  void on_call(ProcessId ring, const net::FrameHeader& header, ByteView payload);
  void construct(wire::ConstructActor message);
  void cancel(ProcessId source, std::uint64_t call_id, std::uint64_t flags);
  void stream_credit(ProcessId source, std::uint64_t call_id, std::uint64_t taken);
  void stream_dropped(ProcessId source, std::uint64_t call_id);
  void handles_gone(ActorId actor);
  void end_actor(const wire::EndActor& message);
  void source_died(ProcessId source);
  void task_blocked(CallContext& context, bool blocked);
  void shutdown();
  /// May this process end? It owns nothing that others hold and runs nothing.
  bool idle() const;
  void describe_tasks(wire::StateReply& reply);

  // ---- any thread, lock not held
  /// The running task is about to wait: calls behind it go back (HO-2).
  void give_back_queue();
  /// Runs calls until the process is told to end; its exit code.
  int run_main_loop();
  void exit_current_actor();
  /// Local mode, after run_main_loop: waits for all other threads of this worker.
  void join_threads();
  /// A thread of an actor that its own last call has ended.
  void adopt(std::thread thread, std::unique_ptr<exec::FiberThread> fibers);

  // ---- for HostedActor; lock held
  void make_runnable(std::function<void()> work);
  void reply_error(IncomingCall& call, const ErrorPtr& error, bool early = false);
  void reply_values(IncomingCall& call, const std::vector<detail::Value>& values, std::uint64_t run_us);
  void note_begun(const IncomingCall& call);
  std::uint64_t next_run() { return ++last_run_; }
  Core& core() { return core_; }
  void actor_ended(HostedActor& actor);
  /// Light actors made directly are told to the head in batches.
  void light_ended(HostedActor& actor);
  bool hosts(ActorId actor) const { return actors_.contains(actor); }
  void interrupt_calls(HostedActor& actor, const ErrorPtr& error);
  /// The fibers of the main thread, for light actors or for the one actor of this process; made at first use (HO-4).
  exec::FiberThread& main_fibers();
  void end_process();

  // ---- for the runner; lock not held
  /// Runs one call to its end and answers it.
  void run(const IncomingPtr& call, HostedActor* actor);
  /// Its two ends, around the user's function; the context lives from one to the other. When it began.
  exec::Deadline begin_run(const IncomingPtr& call, HostedActor* actor, CallContext& context);
  void end_run(const IncomingPtr& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation, const ErrorPtr& error, std::uint64_t run_us);
  /// What an executor would do next, once. False: nothing to do. For a simulated process, which has no executors.
  bool run_one();
  /// Forgets what it queues, runs and hosts (Core::let_go); lock held.
  void let_go();

 private:
  friend struct HostedActor;
  IncomingPtr parse(ProcessId ring, const net::FrameHeader& header, ByteView payload);
  void on_task(IncomingPtr call);
  void give_back_locked();
  void arm_recall();
  void send_reply(IncomingCall& call, ReplyHead head, FrameWriter& out);
  void wake_executors();
  bool next_work(std::function<void()>& work);
  void executor_loop();
  void start_deadline(const IncomingPtr& call);
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
  ErrorPtr invoke(IncomingCall& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation);
  void answer(IncomingCall& call, HostedActor* actor, detail::Invocation& invocation, const ErrorPtr& error, std::uint64_t run_us);
  void stream_items(IncomingCall& call, CallContext& context, detail::GeneratorBase& generator);
  ErrorPtr error_of_exception(const IncomingCall& call, const CallContext& context);
  ErrorPtr in_context(ErrorRecord record, const IncomingCall& call, const CallContext& context);

  Core& core_;
  std::deque<IncomingPtr> tasks_;
  IncomingPtr current_task_;
  exec::Deadline current_since_{};
  bool recall_timer_ = false;
  bool ending_ = false;
  std::uint64_t calls_from_daemon_ = 0;
  std::uint64_t last_run_ = 0;
  std::deque<std::function<void()>> runnable_;
  std::vector<exec::Waiter*> idle_executors_;
  std::vector<IncomingPtr> running_;
  IncomingCall* admitted_ = nullptr;
  boost::unordered_flat_map<ActorId, std::unique_ptr<HostedActor>, IdHash> actors_;
  std::unique_ptr<exec::FiberThread> main_fibers_;  // HO-4
  std::mutex parting_mutex_;
  std::condition_variable parted_;
  int parting_ = 0;                           // actors that have ended and are being destroyed; under parting_mutex_, as adopted_
  std::vector<std::pair<std::thread, std::unique_ptr<exec::FiberThread>>> adopted_;
  void construct_light(IncomingPtr call);
  void report_light_soon();
  std::shared_ptr<const wire::ActorSpec> light_spec_;             // of all light actors made directly
  std::map<std::uint32_t, wire::LightActors> light_report_;       // by constructor: not told to the head yet
  bool light_timer_ = false;
};

}  // namespace troupe::worker
