// Daemon: the composition root of a node. One thread, one loop; decisions in LeaseQueue, ProcessTable, LogFilter, CallLedger
// and StoreServer; this class moves events to them and performs what they decide. Its functions lie in daemon_*.cc by theme.
//
//   starting --registered at the head, socket open--> serving --stop(), fenced, parent gone, head gone--> stopping --> exit
//
// Thread rule: the loop's thread (the process's main thread: launchers die with it). Link threads only post.
//
// Invariants
//   DA-1  A process is declared dead only when it is surely dead; its last messages are delivered before its ProcessDied leaves.
//   DA-2  The store forgets a dead process only when all its local peers have drained it, or after kAckWait.
//   DA-3  Everything that this daemon started is dead before it exits.
//   DA-4  No lease is granted on a worker that is known to be dying: whose socket closed, whose launcher ended, that was killed.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/net/endpoint.h"
#include "core/node/boot_socket.h"
#include "core/node/daemon_config.h"
#include "core/node/daemon_links.h"
#include "core/node/exports.h"
#include "core/node/hand_overs.h"
#include "core/node/local_node.h"
#include "core/node/log_pump.h"
#include "core/node/loop.h"
#include "core/node/mail.h"
#include "core/node/process_table.h"
#include "core/node/store_service.h"
#include "scheduler/lease_queue.h"

namespace troupe::node {

inline constexpr Duration kAckWait = std::chrono::seconds(1);
inline constexpr int kLightHostsMax = 16, kStockMax = 16;

class Daemon final : private net::Handler {
 public:
  /// `local`: daemon, head and workers are threads of this process.
  Daemon(DaemonConfig config, UniqueFd lifeline, std::shared_ptr<LocalNode> local = {});
  ~Daemon() override;
  /// Runs until the end; the process's exit code.
  int run();

 private:
  struct Job {
    JobId id = 0;
    ProcessId driver;
    std::string name_space, registry_digest;
    wire::Image image;
    UniqueFd executable;
    bool ended = false;
    std::set<ActorId> kept;                              ///< actors that outlive it
    std::uint32_t launcher = 0;
    int launcher_failures = 0;
    std::string launcher_problem;                        ///< why none will be started any more
    std::int32_t exit_code = -1;                         ///< as the driver said before it left
    int stock_starting = 0;                              ///< forks in flight that nobody has asked for yet
    bool refill_planned = false;
    std::vector<std::pair<net::FrameHeader, int>> light_waiting;  ///< requests for light hosts
  };
  struct Launcher {
    std::uint32_t id = 0;
    JobId job = 0;
    int pid = 0;
    std::unique_ptr<BootChannel> channel;
    bool ready = false;
    std::string log_file;
  };
  struct Newcomer { std::unique_ptr<BootChannel> channel; Peer peer; Loop::TimerId timeout; };
  struct Start { wire::StartActor message; std::vector<int> gpu_ids; bool admitted = false; };
  using ActorKey = std::pair<ActorId, std::int32_t>;

  // daemon.cc: life
  Status begin();
  void on_registered(Result<std::vector<std::byte>> reply);
  Status serve(const wire::RegisterNodeReply& reply);
  void report_ready(const std::string& error);
  void watch_parent();
  void stop(const std::string& reason);
  void finish_stop();
  void finish_local();
  Status start_head();
  Status start_data(const net::Token& token);
  void wire_data();
  bool poll();
  void housekeeping();
  void apply_effects();
  void on_child_signal();

  // daemon_boot.cc: newcomers
  void on_connection();
  void on_newcomer(int fd);
  void refuse(BootChannel& channel, ErrorRecord error);
  void on_hello(int fd, BootPacket packet);
  void admit_driver(std::unique_ptr<BootChannel> channel, Peer peer, wire::Hello hello, std::vector<UniqueFd> fds);
  void welcome_driver(ProcessId id, wire::Hello hello, Result<std::vector<std::byte>> reply);
  void on_worker_hello(NodeProcess& process, BootPacket packet);
  Status welcome(NodeProcess& process, const wire::Hello& hello, std::vector<UniqueFd> fds);
  void watch_channel(NodeProcess& process);
  void on_process_channel(ProcessId id, std::uint32_t events);
  void connect_pair(const net::FrameHeader& request, const wire::ConnectRequest& wanted);

  // daemon_workers.cc: launchers and forks
  Job* job_of(JobId id);
  Launcher* launcher_of(Job& job);
  bool start_launcher(Job& job, Launcher& launcher, const UniqueFd& socket);
  void on_launcher_channel(std::uint32_t id, std::uint32_t events);
  void on_launcher_packet(Launcher& launcher, const BootPacket& packet);
  void launcher_gone(std::uint32_t id);
  NodeProcess* fork_worker(Job& job, const sched::WorkerKind& kind);
  void on_forked(const wire::Forked& forked);
  void fork_failed(ProcessId id, const std::string& error, bool environment);
  void worker_is_ready(NodeProcess& process);
  void need_workers(const sched::NeedWorkers& need);
  void refill_stock(Job& job);
  void trim_idle();
  void forget_job_if_over(JobId id);
  void light_hosts(const net::FrameHeader& request, const wire::LightHostRequest& wanted);
  void answer_light_hosts(Job& job);
  void with_job(JobId id, ProcessId who_knows, std::function<void(Job*)> then);

  // daemon_actors.cc
  void start_actor(wire::StartActor message);
  void actor_admitted(const ActorKey& key, const std::vector<int>& gpu_ids);
  void place_actor(const ActorKey& key);
  void construct_in(NodeProcess& process, const ActorKey& key);
  void start_failed(const ActorKey& key, ErrorRecord error, bool retry_elsewhere);
  void peek_actor_exit(const net::FrameHeader& header, ByteView payload);

  // daemon_death.cc
  struct EndReason { DeathCause cause = DeathCause::kKilled; std::string reason; };
  void kill_process(NodeProcess& process, const EndReason& why);
  void strike(NodeProcess& process);
  void local_ended(const wire::Exited& exited);
  void process_closing(NodeProcess& process);
  void process_exited(NodeProcess& process, int wait_status);
  void finish_death(ProcessId id);
  wire::ProcessDied describe_death(NodeProcess& process);
  void spread_death(const wire::ProcessDied& death);
  void on_remote_death(const wire::ProcessDied& death);
  void on_node_died(const wire::NodeDied& death);
  void death_acked(ProcessId dead, ProcessId by);
  void end_job(const wire::JobEnded& ended);
  void kill_strays();

  // daemon_groups.cc: ranks at the data port
  void rank_connected(UniqueFd connection, ByteView body);
  void expect_ranks(ProcessId owner, const wire::ExpectRanks& ranks);
  void pass_rank(HandOvers::Passed passed);
  void tend_door();

  // daemon_mail.cc: frames for the daemon
  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override;
  void on_broken(ProcessId peer, const ErrorPtr& why) override;
  void on_frame(ProcessId from_ring, const net::FrameHeader& header, ByteView payload);
  void handle(const net::FrameHeader& header, ByteView payload);
  void handle_request(const net::FrameHeader& header, ByteView payload);
  void handle_notice(const net::FrameHeader& header, ByteView payload);
  void kill_request(const net::FrameHeader& request, const wire::KillProcess& wanted);
  void query_state(const net::FrameHeader& request, const wire::StateQuery& query);
  void send_load();
  void link_up(std::uint32_t node);
  void link_down(std::uint32_t node, const std::string& why);

  template <class M> void with(const net::FrameHeader& header, ByteView payload, const std::function<void(M&)>& then);

  const std::shared_ptr<LocalNode> local_;               ///< null: processes
  DaemonConfig config_;
  UniqueFd lifeline_, session_lock_, parent_pidfd_, listener_, signals_;
  std::string session_name_, socket_path_, node_id_, cluster_id_, link_address_, data_address_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<DaemonLinks> links_;
  std::unique_ptr<net::Endpoint> endpoint_;
  std::unique_ptr<ProcessTable> table_;
  std::unique_ptr<Mail> mail_;
  std::unique_ptr<sched::LeaseQueue> leases_;
  std::unique_ptr<StoreService> store_;
  std::unique_ptr<LogPumps> logs_;
  RoleProcess head_;
  std::unique_ptr<Exports> exports_;
  HandOvers hand_overs_;
  std::optional<Loop::TimerId> door_timer_;
  std::unique_ptr<net::DataServer> data_server_;
  std::unique_ptr<net::DataClient> data_client_;
  std::map<JobId, Job> jobs_;
  std::map<JobId, std::vector<std::function<void(Job*)>>> job_waits_;
  std::map<std::uint32_t, Launcher> launchers_;
  std::map<int, Newcomer> newcomers_;
  std::map<ActorKey, Start> starts_;
  std::map<ActorKey, ProcessId> light_actors_;           ///< with resources, by host
  std::map<ProcessId, std::set<ProcessId>> unacked_;     ///< dead -> local peers that have not drained it
  std::set<std::uint32_t> stray_serials_;
  std::map<ProcessId, bool> left_behind_;                ///< local workers declared dead whose threads run on -> the store may forget them
  bool strays_planned_ = false, load_planned_ = false, head_lost_ = false, owns_head_ = false, stopping_ = false, ready_ = false;
  std::optional<Loop::TimerId> lease_timer_;
  Loop::TimePoint lease_timer_at_{};
  std::uint32_t next_launcher_ = 1;
  std::uint64_t load_version_ = 0, starts_seen_ = 0, oom_kills_ = 0;
  std::map<std::string, double> last_available_;
  std::uint64_t last_pending_ = 0, last_starts_ = 0;
};

/// Role "daemon".
int daemon_main(const RoleHooks& hooks);

}  // namespace troupe::node
