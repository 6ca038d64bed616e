// ExecutorThreads: the threads and fibers on which the calls of a worker process run.
//
//   tasks, actors without fibers         executor threads: the main thread, and `threads` - 1 more for an actor
//                                        that asks
//   tasks of a shared worker             a thread each, which is used again
//   light actors, actors with fibers     fibers of the main thread, or of the actor's own threads
//
// Invariants
//   HO-4  Fibers, of light actors or of an actor with one thread, run on the main thread, which serves the rings too: a
//         call needs no second thread. There the queue of the executors is not used; a task that came by mistake goes
//         back.
// Thread rule: as Executors says; run_main_loop belongs to the process's main thread.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/exec/fibers.h"
#include "core/exec/shared_queue.h"
#include "core/executor/call_runner.h"
#include "core/executor/executors.h"

namespace troupe::worker {

class Host;
class Runtime;

class ExecutorThreads final : public Executors {
 public:
  /// `kill_process`: as Executors says.
  explicit ExecutorThreads(std::function<void()> kill_process) : kill_process_(std::move(kill_process)) {}
  /// Before anything else is called: whose calls these are.
  void bind(Runtime& runtime, Owner& owner, Host& host);

  /// Runs calls until the process is told to end; its exit code.
  int run_main_loop();
  /// Local mode, after run_main_loop and Host::join_actors: waits for threads whose actor was ended by its own last
  /// call.
  void join_rest();

  void work_queued() override;
  bool takes_tasks() const override { return !main_fibers_; }
  void start_threads(HostedActor& actor) override;
  void post(HostedActor& actor, std::function<void()> work) override;
  void run_beside(std::function<void()> work) override;
  void stop() override;
  void kill_process() override { kill_process_(); }
  void run(const IncomingPtr& call, HostedActor* actor) override { runner_->run(call, actor); }
  void join_threads(const HostedActor* actor) override;

 private:
  struct ActorThread { std::unique_ptr<exec::FiberThread> fibers; std::thread thread; };
  struct ActorThreads {
    std::vector<ActorThread> threads;
    std::unique_ptr<exec::SharedQueue> queue;  // of those with fibers
  };

  exec::FiberThread& main_fibers();
  std::size_t stack_size() const;
  void executor_loop();
  void beside_loop();

  const std::function<void()> kill_process_;
  Runtime* runtime_ = nullptr;
  Host* host_ = nullptr;
  std::unique_ptr<CallRunner> runner_;
  std::vector<exec::Waiter*> idle_;                  // executors without work
  std::unique_ptr<exec::FiberThread> main_fibers_;   // made at first use (HO-4)
  std::deque<std::function<void()>> beside_;         // tasks that run beside others; each has a thread
  std::vector<exec::Waiter*> idle_beside_;           // threads for such tasks without one
  std::map<const HostedActor*, ActorThreads> own_;   // actors that asked for more threads than the main one
  std::mutex rest_mutex_;
  std::vector<ActorThreads> rest_;                   // of actors that their own last call has ended
};

}  // namespace troupe::worker
