// Process: a real driver or worker process: a core on the operating system's clock, rings in shared memory, the unix
// socket to the node daemon, and the service thread.
//
// The service thread drains the rings when nobody else does, runs timers and callbacks, flushes the store's client, and
// watches the unix socket: when that closes, the daemon is gone: a worker ends, a driver shuts down.
//
// Invariants
//   PRC-1  A worker whose work is over ends when what it has sent is in the rings, and whoever it was sent to has
//          counted what it names of others, or is dead, or has had kCountWait for that: answers that waited in its
//          memory are lost only when it is killed, or its daemon ends. A stopped reader does not keep the resources of
//          an actor that has ended.
//
// Thread rule: as noted.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/boot/boot_socket.h"
#include "core/executor/executor_threads.h"
#include "core/process/core.h"
#include "objectstore/client/client.h"
#include "objectstore/client/store_daemon.h"

namespace troupe::worker {

struct ProcessOptions {
  wire::Hello hello;
  std::string socket_path;   // driver: where the daemon listens
  UniqueFd socket;           // worker: its end of the pair
  bool local = false;        // worker: threads of a process that goes on when it ends (core/node/daemon/local/node.h)
  Duration connect_timeout = std::chrono::seconds(20);
};

class Process final : private Clock, private Transport, private ServiceThread {
 public:
  /// Says hello, maps the store, starts the service thread.
  static Result<std::unique_ptr<Process>> start(ProcessOptions options);
  ~Process() override;

  Core& core() { return *core_; }
  ExecutorThreads& executors() { return executors_; }
  /// For a local worker what SIGKILL is to a process: from now on nothing leaves, no call begins, every wait fails; its
  /// threads end when they return from user code, and destructors of its actors do not run. Idempotent; also with the
  /// lock held.
  void cut_off();
  /// A worker's main thread, when its work is over (PRC-1).
  void await_departure();
  /// Stops the service thread and closes the socket. Not on the service thread.
  void stop();

 private:
  explicit Process(ProcessOptions options);
  Status connect();
  Status open_store(node::BootPacket& packet);
  Status become_core(wire::Welcome welcome, node::BootPacket& packet);
  void kill();
  void service_loop();
  void read_socket();
  void daemon_lost();
  bool frames_wait();
  bool counts_wait();

  // Clock
  exec::Deadline now() const override { return exec::Deadline::clock::now(); }
  double chance() override;
  // Transport
  bool send(ProcessId peer, const net::FrameHeader& header, ByteView payload) override;
  bool attached(ProcessId peer) const override { return endpoint_->attached(peer); }
  std::size_t backlog(ProcessId peer) const override { return endpoint_->backlog(peer); }
  void set_begun(ProcessId peer, std::uint64_t number) override { endpoint_->set_begun(peer, number); }
  net::BegunCalls begun(ProcessId peer) const override { return endpoint_->begun_calls(peer); }
  void drain_and_close(ProcessId peer) override;
  // ServiceThread
  void wake() noexcept override;
  void flush_soon() noexcept override;
  bool is_this_thread() const noexcept override { return std::this_thread::get_id() == service_.get_id(); }

  ProcessOptions options_;
  UniqueFd socket_;
  UniqueFd wake_;
  UniqueFd flush_timer_;                  // armed by the first drop of a buffer
  std::atomic<bool> flush_armed_{false};
  std::atomic<bool> stopped_{false}, stop_called_{false};
  std::unique_ptr<net::Endpoint> endpoint_;
  std::vector<ProcessId> paired_;         // with whom there is a ring, and a few that died; the core's lock
  ExecutorThreads executors_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<store::StoreDaemon> store_requests_;
  std::unique_ptr<store::StoreClient> store_;
  std::thread service_;
};

/// References and threads of the user may outlive run and workers: a process that was started is never destroyed.
Process& keep_for_good(std::unique_ptr<Process> process);

}  // namespace troupe::worker
