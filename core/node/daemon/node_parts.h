// NodeParts: the parts of a node that the head has registered, and how they are wired. It decides nothing: what one
// part reports is given to those whom it concerns, in an order that is written down here once.
//
//   rings, links --frames--> Mail --for the daemon--> FrameDispatch --> Leases, ActorStarts, RingPairs, ...
//   sockets --> Admission --> Workers, ActorStarts --forks--> Launchers
//   sockets, pidfds, wait statuses --> ProcessEnds --dead--> Deaths --> everyone
//
// Thread rule: the loop's thread.
//
// Invariants
//   DA-3  (daemon.h)
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/net/endpoint/endpoint.h"
#include "core/node/daemon/admission/admission.h"
#include "core/node/daemon/base/config.h"
#include "core/node/daemon/deaths/deaths.h"
#include "core/node/daemon/frame_dispatch.h"
#include "core/node/daemon/workers/load_report.h"
#include "core/node/daemon/local/node.h"
#include "core/node/daemon/peers/data_port.h"

namespace troupe::node {

class NodeParts final : private net::Handler {
 public:
  struct Outer {
    Loop& loop;
    DaemonLinks& links;
    DataPort& data_port;
    Membership& membership;
    const DaemonConfig& config;
    LocalNode* local = nullptr;  ///< null: workers are processes
    bool head_ends_with_us = false;
    std::function<void(const std::string& why)> stop;
  };
  static Result<std::unique_ptr<NodeParts>> create(Outer outer, const wire::RegisterNodeReply& reply,
                                                   const std::string& session_name);
  ~NodeParts() override;

  /// Drivers and tools may connect from now on.
  Status listen(const std::string& socket_path) { return admission_.listen(socket_path); }
  /// Takes what lies in the rings; false when there was nothing.
  bool drain();
  void on_link_frame(std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
    dispatch_.on_frame({node, 0}, header, payload);
  }
  void never_sent(std::uint32_t node, const std::vector<net::FrameHeader>& frames) { mail_.never_sent(node, frames); }
  void room(std::uint32_t node) { mail_.room(node); }
  void rank_arrived(const net::Introduction& who, UniqueFd connection) { ranks_.arrived(who, std::move(connection)); }
  /// A child of this process ended: a worker whose launcher died before it.
  void child_ended(int pid, int wait_status);
  void node_died(const wire::NodeDied& death);
  void head_died(const wire::NodeDied& death) { deaths_.tell_processes(wire::Method::kNodeDied, death); }
  void send_load() { load_.send(); }
  std::map<std::string, double> available() const { return leases_.queue().resources().at_once().to_map(); }
  /// SIGKILL to launchers and workers (DA-3).
  void kill_all();

 private:
  /// What can fail to be made.
  struct Ground {
    std::unique_ptr<ProcessTable> table;
    std::unique_ptr<net::Endpoint> endpoint;
    std::unique_ptr<Mail> mail;
    std::unique_ptr<StoreService> store;
  };
  NodeParts(Outer outer, Ground ground, const wire::RegisterNodeReply& reply, const std::string& session_name);
  void wire();
  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override {
    dispatch_.on_frame(from, header, payload);
  }
  void on_broken(ProcessId peer, const ErrorPtr& why) override;
  void send_log_lines(const Job& job, wire::LogLines lines);
  void after_death(const NodeProcess& gone, const wire::ProcessDied& death, bool for_actor);
  bool before_death(NodeProcess& process);
  void actor_process_failed(NodeProcess& process, const ErrorRecord& error, bool environment);

  Outer outer_;
  const std::string node_id_;
  const Ground ground_;
  ProcessTable& table_;
  net::Endpoint& endpoint_;
  Mail& mail_;
  StoreService& store_;
  std::map<ProcessId, std::size_t> lines_not_shown_;  ///< by driver
  Keeper keeper_;
  LogPumps logs_;
  Jobs jobs_;
  Leases leases_;
  ForwardedLeases forwarded_;
  StraySweep strays_;
  ProcessEnds ends_;
  Launchers launchers_;
  Workers workers_;
  LightHosts light_hosts_;
  ActorStarts starts_;
  Admission admission_;
  Deaths deaths_;
  JobCleanup cleanup_;
  RingPairs pairs_;
  RankSockets ranks_;
  StateQueries queries_;
  JobOutput output_;
  LoadReport load_;
  FrameDispatch dispatch_;
};

}  // namespace troupe::node
