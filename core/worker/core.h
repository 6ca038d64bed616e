// Core: the runtime of one driver or worker process; the place where its parts are put together.
//
//   user thread --- api.cc ---> TaskSubmitter, ActorClients, ObjectTable ---> Transit ---> Courier ---> rings, daemon
//   rings ---> on_message ---> the same parts (replies, notices) and Host (calls to run) ---> executor threads
//
// The parts are state machines under one lock (core_lock.h). Frames are handed to them by on_message, on whichever thread
// drains the rings. The service thread drains when nobody else does, runs timers and callbacks, and watches the unix socket:
// when that closes, the daemon is gone, and so is this process.
//
// Thread rule: public functions from any thread; those that say so want the lock held.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/exec/waiter.h"
#include "core/net/endpoint.h"
#include "core/node/boot_socket.h"
#include "core/wire/messages.h"
#include "core/worker/core_lock.h"
#include "core/worker/call_table.h"
#include "core/worker/courier.h"
#include "core/worker/requests.h"
#include "core/worker/timers.h"
#include "objectstore/client.h"

namespace troupe::worker {

class ActorClients;
class BufferEntry;
class Host;
class ObjectEntry;
class ObjectTable;
class Outlet;
class StoreLink;
class TaskSubmitter;
class Transit;

struct CoreOptions {
  wire::Hello hello;
  std::string socket_path;   // driver: where the daemon listens
  UniqueFd socket;           // worker: its end of the pair
  wire::ForkRequest fork;    // worker
  bool local = false;        // worker: threads of a process that goes on when it ends (core/node/local_node.h)
  Duration connect_timeout = std::chrono::seconds(20);
  std::function<void()> on_daemon_lost;  // called once, on the service thread
};

class Core final : public net::Handler, public exec::ThreadBlocker {
 public:
  /// Says hello, maps the store, starts the service thread.
  static Result<std::unique_ptr<Core>> start(CoreOptions options);
  /// A simulated process (outlet.h): the outlet, which outlives it, stands for everything outside.
  static std::unique_ptr<Core> simulate(CoreOptions options, wire::Welcome welcome, Outlet& outlet);
  ~Core() override;

  // ---- who this is
  const wire::Welcome& welcome() const { return welcome_; }
  ProcessId self() const { return welcome_.self; }
  ProcessId daemon() const { return daemon_of(welcome_.self.node); }
  bool is_driver() const { return is_driver_; }
  const wire::ForkRequest& fork() const { return fork_; }

  // ---- parts
  net::Endpoint& endpoint() override { return *endpoint_; }
  net::Handler& handler() override { return *this; }
  store::StoreClient& store() { return *store_; }
  Courier& courier() { return courier_; }
  Requests& requests() { return requests_; }
  CallTable& calls() { return *calls_; }
  ObjectTable& objects() { return *objects_; }
  Transit& transit() { return *transit_; }
  TaskSubmitter& tasks() { return *tasks_; }
  ActorClients& actors() { return *actors_; }
  Host& host() { return *host_; }
  /// Null but in the simulator.
  Outlet* outlet() const { return outlet_; }

  // ---- time, as the parts see it
  exec::Deadline now() const { return outlet_ ? simulated_now() : exec::Deadline::clock::now(); }
  exec::Deadline deadline_after(Duration timeout) const;
  /// Uniform in [0, 1).
  double chance();

  // ---- lock held
  /// Runs `action` at `when` on the service thread, under the lock.
  Timers::Id add_timer(exec::Deadline when, std::function<void()> action);
  void cancel_timer(Timers::Id id) { timers_.cancel(id); }
  /// Runs `callback` on the service thread, without the lock.
  void run_later(std::function<void()> callback);
  /// Runs when this thread lets go of the lock, without the lock.
  void defer(std::function<void()> action) { deferred_.push_back(std::move(action)); }

  void cancel_entry(ObjectEntry& entry, const CancelOptions& options);

  // ---- any thread
  void drop(ObjectEntry& entry) noexcept;
  void drop(BufferEntry& entry) noexcept;
  void warn(const std::string& text);
  /// Begins the end of the process: no new work, waits fail. Idempotent.
  void begin_shutdown(ErrorPtr why);
  /// The thread that runs callbacks and timers: it may not wait for what it does itself.
  bool on_service_thread() const { return std::this_thread::get_id() == service_.get_id(); }
  bool shutting_down() const { return shutting_down_.load(std::memory_order_acquire); }
  /// For a local worker what SIGKILL is to a process: from now on nothing leaves, no call begins, every wait fails; its threads
  /// end when they return from user code, and destructors of its actors do not run. Idempotent; also with the lock held.
  void cut_off();
  bool is_cut_off() const { return cut_off_.load(std::memory_order_relaxed); }
  bool is_local() const { return options_.local; }
  ErrorPtr shutdown_reason();
  /// Stops the service thread and closes the socket.
  void stop();

  // ---- simulated processes
  /// Does what a service thread would: timers that are due, callbacks. When the next timer is due.
  exec::Deadline step();
  /// Lets go of everything, so that many processes can end within one. What is left then has leaked: how many things.
  std::size_t let_go();

  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override;
  void on_broken(ProcessId peer, const ErrorPtr& why) override;

 private:
  friend class CoreLock;
  explicit Core(CoreOptions options);
  Status connect();
  exec::Deadline simulated_now() const;
  Status open_store(node::BootPacket& packet);
  void service_loop();
  void read_socket();
  void run_timers_and_callbacks();
  void wake_service();
  void arm_flush() noexcept;
  void on_notice(const net::FrameHeader& header, ByteView payload);
  void on_request(const net::FrameHeader& header, ByteView payload);
  void on_control(const net::FrameHeader& header, ByteView payload);
  void on_group_word(const net::FrameHeader& header, ByteView payload, bool answer);
  void on_rank_socket(node::BootPacket packet);
  void group_member_moved(const wire::ActorLocation& location);
  void group_process_died(ProcessId process, const std::string& why);
  void group_node_died(std::uint32_t node, const std::string& why);
  void describe_state(const wire::StateQuery& query, wire::StateReply& reply);
  void on_process_died(const wire::ProcessDied& died);
  void on_node_died(const wire::NodeDied& died);
  void release_lock();
  /// Lets go of the lock for something that takes it itself.
  void without_lock(const std::function<void()>& action);

  bool is_driver_ = false;
  CoreOptions options_;
  wire::ForkRequest fork_;
  Outlet* outlet_ = nullptr;
  wire::Welcome welcome_;
  UniqueFd socket_;
  UniqueFd wake_;
  UniqueFd flush_timer_;                  // armed by the first drop of a buffer: the store's client is flushed soon after
  std::atomic<bool> flush_armed_{false};

  std::mutex mutex_;
  std::vector<ObjectEntry*> dropped_objects_;
  std::vector<BufferEntry*> dropped_buffers_;
  std::vector<std::function<void()>> deferred_;
  std::deque<std::function<void()>> callbacks_;
  Timers timers_;
  ErrorPtr shutdown_reason_;
  std::atomic<bool> shutting_down_{false};
  std::atomic<bool> stopped_{false}, stop_called_{false};
  std::atomic<bool> cut_off_{false};

  std::unique_ptr<net::Endpoint> endpoint_;
  Courier courier_;
  Requests requests_;
  std::unique_ptr<StoreLink> store_link_;
  std::unique_ptr<store::StoreClient> store_;
  std::unique_ptr<ObjectTable> objects_;
  std::unique_ptr<Transit> transit_;
  std::unique_ptr<CallTable> calls_;
  std::unique_ptr<TaskSubmitter> tasks_;
  std::unique_ptr<ActorClients> actors_;
  std::unique_ptr<Host> host_;
  std::thread service_;
};

}  // namespace troupe::worker
