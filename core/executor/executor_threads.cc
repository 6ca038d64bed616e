#include "core/executor/executor_threads.h"

#include <algorithm>

#include "core/executor/host.h"
#include "core/executor/hosted_actor.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr std::size_t kStackMin = 64 << 10;
}

void ExecutorThreads::bind(Runtime& runtime, Owner& owner, Host& host) {
  runtime_ = &runtime;
  host_ = &host;
  runner_ = std::make_unique<CallRunner>(runtime, owner, host);
}

std::size_t ExecutorThreads::stack_size() const {
  return std::max<std::size_t>(runtime_->welcome().stack_size, kStackMin);
}

exec::FiberThread& ExecutorThreads::main_fibers() {
  if (!main_fibers_) {
    main_fibers_ =
        std::make_unique<exec::FiberThread>(*runtime_, exec::FiberThread::Options{.stack_size = stack_size()});
    work_queued();  // the main thread leaves its loop and runs the fibers
  }
  return *main_fibers_;
}

void ExecutorThreads::work_queued() {
  for (exec::Waiter* waiter : idle_) waiter->notify();
}

void ExecutorThreads::stop() {
  if (main_fibers_) main_fibers_->stop();
  work_queued();
  for (exec::Waiter* waiter : idle_beside_) waiter->notify();
}

void ExecutorThreads::run_beside(std::function<void()> work) {
  beside_.push_back(std::move(work));
  if (beside_.size() <= idle_beside_.size()) {
    for (exec::Waiter* waiter : idle_beside_) waiter->notify();
    return;
  }
  std::lock_guard lock(rest_mutex_);
  rest_.emplace_back().threads.push_back({nullptr, std::thread([this] { beside_loop(); })});
}

void ExecutorThreads::beside_loop() {
  set_thread_runtime(runtime_);
  exec::Waiter waiter(*runtime_);
  for (;;) {
    std::function<void()> work;
    {
      CoreLock lock(*runtime_);
      std::erase(idle_beside_, &waiter);
      if (runtime_->is_cut_off() || host_->ending() || runtime_->shutting_down()) return;
      if (!beside_.empty()) {
        work = std::move(beside_.front());
        beside_.pop_front();
      } else {
        idle_beside_.push_back(&waiter);
      }
    }
    if (work) work();
    else waiter.wait(exec::kNever);  // ends with work, or with the process
  }
}

void ExecutorThreads::start_threads(HostedActor& actor) {
  const int threads = actor.spec().threads;
  if (actor.light() || threads <= 1) return;
  ActorThreads& own = own_[&actor];
  if (!actor.uses_fibers()) {
    for (int i = 1; i < threads; ++i) own.threads.push_back({nullptr, std::thread([this] { executor_loop(); })});
    return;
  }
  own.queue = std::make_unique<exec::SharedQueue>();
  for (int i = 0; i < threads; ++i) {
    auto fibers =
        std::make_unique<exec::FiberThread>(*runtime_, exec::FiberThread::Options{.stack_size = stack_size()});
    std::thread thread([runtime = runtime_, raw = fibers.get()] {
      set_thread_runtime(runtime);
      raw->run();
    });
    own.queue->add(*fibers);
    own.threads.push_back({std::move(fibers), std::move(thread)});
  }
}

void ExecutorThreads::post(HostedActor& actor, std::function<void()> work) {
  if (actor.uses_fibers() && (actor.light() || actor.spec().threads <= 1)) return main_fibers().post(std::move(work));
  if (!actor.uses_fibers()) {
    if (main_fibers_) return main_fibers_->post(std::move(work));  // HO-4
    return host_->queue_work(std::move(work));
  }
  auto own = own_.find(&actor);
  if (own == own_.end()) return;  // its threads have ended with the process
  own->second.queue->post(std::move(work));
}

void ExecutorThreads::join_threads(const HostedActor* actor) {
  ActorThreads own;
  {
    CoreLock lock(*runtime_);
    auto found = own_.find(actor);
    if (found == own_.end()) return;
    own = std::move(found->second);
    own_.erase(found);
  }
  bool by_itself = false;
  for (ActorThread& one : own.threads) {
    if (one.fibers) one.fibers->stop();
    if (one.thread.get_id() == std::this_thread::get_id()) by_itself = true;
    else one.thread.join();
  }
  if (own.queue) own.queue->close();
  if (!by_itself) return;
  // Ended by its own last call: this thread still stands on the fibers. The worker ends next.
  std::lock_guard lock(rest_mutex_);
  rest_.push_back(std::move(own));
}

void ExecutorThreads::join_rest() {
  std::vector<ActorThreads> rest;
  {
    std::lock_guard lock(rest_mutex_);
    rest.swap(rest_);
  }
  for (ActorThreads& of : rest)
    for (ActorThread& one : of.threads)
      if (one.thread.joinable()) one.thread.join();
}

void ExecutorThreads::executor_loop() {
  set_thread_runtime(runtime_);
  exec::Waiter waiter(*runtime_);
  std::function<void()> work;
  for (;;) {
    bool have = false;
    {
      CoreLock lock(*runtime_);
      std::erase(idle_, &waiter);
      if (runtime_->is_cut_off()) return;
      have = host_->next_work(work);
      if (!have) {
        if (host_->ending() || runtime_->shutting_down() || main_fibers_) return;
        idle_.push_back(&waiter);
      }
    }
    if (have) {
      work();
      work = nullptr;
    } else {
      waiter.wait(exec::kNever);  // ends with work, or with shutdown
    }
  }
}

int ExecutorThreads::run_main_loop() {
  executor_loop();
  exec::FiberThread* fibers = nullptr;
  {
    CoreLock lock(*runtime_);
    if (!host_->ending() && !runtime_->shutting_down()) fibers = main_fibers_.get();
  }
  if (fibers) fibers->run();
  return 0;
}

}  // namespace troupe::worker
