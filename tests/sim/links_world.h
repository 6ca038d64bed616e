// The fourth world: what is between machines. Real head::Shell (state and sessions), and on each node a real
// node::DaemonLinks, node::Membership and node::Transfers on a loop of simulated time, over a model network, from one
// seed.
//
// What is model here: the network (model_links.h), what daemons say to each other (numbered notices, requests to the
// head, transfers), their stores, and the data sockets.
// Faults: connections are reset at any moment, directions between two machines are cut for a while or for good, nodes
// and the head stand still and go on, nodes are killed, data sockets give half of the bytes or damaged ones.
//
// Invariants checked
//   LWI-1  What a node takes from another is what that one sent, in its order, once; between nodes that live it has
//          all come when everything is at rest. So have the head's answers, in their order.
//   LWI-2  Of what was sent to a node that died, exactly that is told as never sent which no link was given.
//   LWI-3  Only the head's verdict ends anything: no node dies by a connection that breaks, or by a pause shorter than
//          two seconds, its own or the head's; no daemon ends while the head holds its node for alive.
//   LWI-4  A verdict is final: all living nodes hear of it once, take nothing from that node afterwards, and its
//          daemon ends.
//   LWI-5  Nobody waits for ever: of two nodes that do not reach each other one goes; who waited for room goes on.
//   LWI-6  A transfer ends once; with the bytes of its buffer, or with an error that has a cause: a buffer that was
//          freed, or a holder that was cut off or died. Nobody writes to its memory afterwards.
//   LWI-7  At rest no holder keeps a buffer for a node that lives.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/head/service/shell.h"
#include "core/net/data/data_socket.h"
#include "core/node/daemon/peers/links.h"
#include "core/node/daemon/peers/membership.h"
#include "core/node/store/transfers.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/model_links.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class LinksWorld;
using Machine = ModelNetwork::Machine;

/// A daemon: what the product decides is real, what surrounds it is model.
class SimDaemon final : public node::Messenger, public net::DataClient {
 public:
  SimDaemon(LinksWorld& world, Machine machine);
  ~SimDaemon() override;
  Status join();
  /// What its loop does now.
  void pass();
  void say_something(std::uint32_t to, std::size_t bytes);
  void ask_head();
  void fetch_something(store::BufferId id);

  // ---- node::Messenger
  ProcessId self() const override { return daemon_of(number); }
  void send_notice(ProcessId to, wire::Method method, const Bytes& payload) override;
  void send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) override;
  void send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) override;

  // ---- net::DataClient
  void fetch(net::Fetch fetch, net::DoneFunction done) override;
  void stop() override {}
  net::DataClient::Stats stats() const override { return {}; }

  struct Copy {
    std::vector<std::byte> to;
    bool done = false;
    int failures = 0;                        ///< of drawing, that the network was made to have
    Time began{};
    std::uint32_t helper = 0;                ///< had a copy when it began
  };

  LinksWorld& world;
  const Machine machine;
  std::uint32_t number = 0;
  bool alive = true, frozen = false, ended = false, pass_planned = false;
  bool troubled = false;                     ///< it was cut off or stood still for long: it may be declared dead
  std::unique_ptr<node::Loop> loop;
  std::unique_ptr<node::DaemonLinks> links;
  std::unique_ptr<node::Membership> membership;
  std::unique_ptr<node::Transfers> transfers;
  std::map<std::uint32_t, std::uint64_t> sent, got;  ///< numbers of frames, by the other node
  std::set<std::uint32_t> known, heard_dead, waits;  ///< of the view; verdicts; for room
  std::uint64_t head_asked = 0, head_answered = 0;
  std::map<store::BufferId, std::vector<std::byte>> buffers;  ///< its own, and copies
  std::map<store::BufferId, std::set<std::uint32_t>> exposed;
  std::map<store::BufferId, std::unique_ptr<Copy>> copying;
  std::vector<std::unique_ptr<Copy>> copied;
  std::optional<Time> timer_at;

 private:
  struct Pending { ProcessId to; Done done; node::Loop::TimerId timer; };
  bool deliver(net::FrameHeader header, ByteView payload);
  void finish(std::uint64_t token, Result<Bytes> result);
  void on_frame(std::uint32_t from, const net::FrameHeader& header, ByteView payload);
  void on_head_frame(const net::FrameHeader& header, ByteView payload);
  void never_sent(std::uint32_t to, const std::vector<net::FrameHeader>& frames);
  void node_died(const wire::NodeDied& death);
  void hold(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void draw(const std::shared_ptr<net::Fetch>& fetch, net::DoneFunction done, Time stalled_since);

  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t last_token_ = 0;
};

class LinksWorld {
 public:
  explicit LinksWorld(WorldOptions options);
  ~LinksWorld();
  std::string run();
  const std::deque<std::string>& trace() const { return trace_; }
  std::uint64_t steps() const { return steps_; }

 private:
  friend class SimDaemon;
  struct Death { std::uint32_t node = 0; std::set<std::uint32_t> witnesses; };
  /// The head's links, as its server has them.
  struct HeadInbox final : net::LinkEvents {
    struct Item { int kind = 0; net::LinkId link = 0; std::vector<std::byte> frames; std::uint64_t incarnation = 0;
                  bool nobody_there = false; };
    void on_open(net::LinkId link, const net::LinkPeer& peer) override;
    void on_batch(net::LinkId link, ByteView frames) override;
    void on_closed(net::LinkId link, const Status& why) override;
    std::deque<Item> items;
  };

  void poke(Machine machine);
  void head_pass();
  void look_at_head();
  void spy(Machine from, ByteView frames);
  void join();
  void act();
  void fault();
  void stand_still(Machine machine, Duration span);
  void cut_off(Machine a, Machine b, bool both, std::optional<Duration> span);
  void kill(SimDaemon& daemon);
  void verdict(std::uint32_t node);
  void check_transfer(SimDaemon& daemon, store::BufferId id, SimDaemon::Copy& copy, const Status& status);
  void check_rest();
  bool is_troubled(std::uint32_t node) const;
  SimDaemon* by_number(std::uint32_t node);
  SimDaemon* any_daemon();
  std::uint32_t below(std::size_t n) { return random_.below(std::uint32_t(n)); }
  void say(const std::string& text);
  void broken(const std::string& text);

  WorldOptions options_;
  Random random_;
  EventQueue queue_;
  ModelNetwork network_;
  HeadInbox inbox_;
  std::unique_ptr<net::Links> head_links_;
  std::unique_ptr<head::Shell> shell_;
  bool head_frozen_ = false, head_planned_ = false;
  std::optional<Time> head_timer_;
  std::map<Machine, std::unique_ptr<SimDaemon>> daemons_;
  std::map<std::uint32_t, Machine> machines_;        ///< by node number
  std::map<std::pair<Machine, std::uint32_t>, std::uint64_t> on_links_;  ///< the last number that a link was given
  std::set<std::uint32_t> living_, quarrelled_;
  std::vector<Death> deaths_;
  std::set<store::BufferId> freed_;
  std::uint32_t last_slot_ = 0;
  bool busy_ = true, hard_ = false, fault_under_way_ = false, big_ = false;
  std::uint64_t steps_ = 0;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace troupe::sim
