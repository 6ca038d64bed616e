// Admission: who connects to the daemon's unix socket, who is let in, and what a process is given when it is.
//
//   connected --Hello within kHelloWait--> driver: registered at the head; worker: checked --Welcome--> alive
//       `--no Hello, another user, another protocol, another program, no descriptors left--> Refused, closed
//
// Thread rule: the loop's thread.
//
// Invariants
//   AD-1  Only processes of this user come in; a worker only by the socket that it was forked with.
//   AD-2  A process that is not let in is told why, also when this daemon has no descriptor left for it.
//   AD-3  A process is alive here only when everything it needs was handed to its socket: nothing half-open is left
//         otherwise.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/net/endpoint/endpoint.h"
#include "core/node/base/messenger.h"
#include "core/node/base/packet_channel.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/base/config.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/store/store_service.h"

namespace troupe::node {

class Admission {
 public:
  struct Events {
    std::function<void(Job&)> driver_ready;
    std::function<void(NodeProcess&)> worker_ready;
    std::function<void(ProcessId, const std::string& error, bool environment)> worker_refused;
    std::function<void(NodeProcess&)> closing;  ///< its socket or its pidfd says that it ends
  };
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    net::Endpoint& endpoint;
    StoreService& store;
    Jobs& jobs;
  };
  Admission(Parts parts, const DaemonConfig& config, std::string node_id, Events events);
  ~Admission();

  Status listen(const std::string& socket_path);
  /// A process of this node that has a channel (and a pidfd, when it is known): what comes there and its end are seen
  /// from now on.
  void watch(NodeProcess& process);
  void forget(NodeProcess& process);

 private:
  struct Connection {
    std::unique_ptr<PacketChannel> channel;
    Peer peer;
    Loop::TimerId timeout;
  };
  void on_connection();
  void accept_and_refuse();
  void on_first_packet(int fd, BootPacket packet);
  void drop(int fd);
  void refuse(PacketChannel& channel, ErrorRecord error);
  void admit(std::unique_ptr<PacketChannel> channel, Peer peer, wire::Hello hello, std::vector<UniqueFd> fds);
  void driver_registered(ProcessId id, const wire::Hello& hello, Result<Messenger::Bytes> reply);
  void on_packet(ProcessId id, BootPacket packet);
  void on_worker_hello(NodeProcess& process, BootPacket packet);
  Status welcome(NodeProcess& process);
  void describe_node(wire::Welcome& welcome) const;

  Parts parts_;
  const DaemonConfig& config_;
  const std::string node_id_;
  const Events events_;
  /// spare: given up for the moment of telling that no descriptor is left (AD-2)
  UniqueFd listener_, spare_;
  std::map<int, Connection> connections_;      ///< that have not said who they are
};

}  // namespace troupe::node
