// The third world: a real store::StoreServer with its index and pin tables, and clients that make, share, pin and drop
// buffers one instruction a step (store_client.h), all from one seed.
//
// What is model here: the daemon's shell around the server (messages of one client keep their order; pages come later,
// or cannot be had; deaths as DA-1 and DA-2 promise them: last messages first, and forgotten when all who got something
// from the dead have taken it in), the clients' threads, and other nodes: processes that hold buffers of this one, and
// a node whose buffers are copied here.
// Faults: clients die between any two steps, requests are given up while their answer is on its way, the processes of
// other nodes and those nodes themselves die, transfers fail, reports come for ids that are long gone.
//
// Invariants checked
//   STI-1  The server's books agree with each other and with the index (StoreServer::audit), after every event.
//   STI-2  What somebody holds stays what it is: sealed in its generation, the same bytes. No two things in use
//          overlap.
//   STI-3  An id whose sender keeps its pin can be pinned by the receiver.
//   STI-4  A request is answered once: never after its end was confirmed, nor to a client that is gone.
//   STI-5  At rest, when nobody holds anything, every request without a deadline has been granted, and nothing is left:
//          no object, no byte, no chunk.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "objectstore/server/server.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/store_client.h"
#include "tests/sim/world.h"

namespace troupe::sim {

class StoreWorld {
 public:
  explicit StoreWorld(WorldOptions options);
  std::string run();
  const std::deque<std::string>& trace() const { return trace_; }
  std::uint64_t steps() const { return steps_; }

  // ---- for clients
  bool chance(double probability) { return busy_ && random_.chance(probability); }
  void plan_step(SimStoreClient& client, std::uint64_t script);
  /// What a script waits for may have come.
  void wake(SimStoreClient& client);
  std::uint64_t ask_lease(SimStoreClient& client, const store::LeaseRequest& request);
  std::uint64_t ask_buffer(SimStoreClient& client, std::uint64_t size);
  void ask_ahead(SimStoreClient& client, const store::LeaseRequest& request);
  void maybe_free(SimStoreClient& client, std::vector<store::BufferId> ids);
  void give_back(SimStoreClient& client, store::LocalLeases::GiveBack back);
  void send(store::BufferId id, SimStoreClient& from, ProcessId to);
  void taken_in(const Parcel& parcel, bool pinned);
  void copy_pinned(SimStoreClient& client, store::BufferId local, bool pinned);
  void seen(store::BufferId id) { seen_.push_back(id); }

 private:
  using Work = std::function<void()>;
  struct Request {
    ProcessId client;
    AskedPtr ahead;  ///< of a lease ahead of need: nobody waits for it
    bool deadline = false, over = false;
  };
  struct Channel {
    Time last{};
  };

  // the network: one ordered channel from each client to the daemon, and one back
  Duration delay() { return Duration(1000 + random_.below(1'000'000)); }
  void in_order(Channel& channel, Work work);
  void to_daemon(SimStoreClient& client, Work work);
  void to_client(ProcessId client, std::function<void(SimStoreClient&)> work);
  SimStoreClient* find(ProcessId id);
  SimStoreClient* any_client();

  // the daemon's shell
  void join();
  std::uint64_t new_request(SimStoreClient& client);
  store::TimePoint deadline_of(std::uint64_t token);
  void withdraw(ProcessId client, std::uint64_t token);
  void answer(ProcessId client, std::uint64_t token, const std::function<void(Asked&)>& fill);
  void apply();
  void perform(const store::LeaseGranted& effect);
  void perform(const store::BufferGranted& effect);
  void perform(const store::RequestFailed& effect);
  void perform(const store::CopyGranted& effect);
  void perform(const store::CopyFailed& effect) { say("no copy of " + to_string(effect.remote)); }
  void perform(const store::ExportedFreed&) {}
  void perform(const store::TrimAsked& effect);
  void perform(const store::PagesWanted& effect);
  void perform(const store::PagesUnwanted&) {}
  void kill(SimStoreClient& client);
  void forget_if_drained(ProcessId dead);

  // other nodes
  void remote_hold();
  void remote_release();
  void begin_copy();
  void end_copy(store::BufferId remote, bool lost);
  void hand_out(store::BufferId local);
  void origin_gone();
  void node_of_copies_gone();

  void act();
  void give_up();
  void rest();
  void check();
  void check_rest();
  void say(const std::string& text);
  void broken(const std::string& text);

  WorldOptions options_;
  Random random_;
  EventQueue queue_;
  std::unique_ptr<store::StoreServer> server_;
  std::map<ProcessId, std::unique_ptr<SimStoreClient>> clients_;  ///< the dead as well, until they are forgotten
  std::map<ProcessId, Channel> up_, down_;
  std::map<std::uint64_t, Request> requests_;                     ///< by token
  std::map<std::uint64_t, Parcel> parcels_;                       ///< not taken in yet
  /// not forgotten yet; true: it has not been closed yet
  std::map<ProcessId, bool> dying_;
  std::vector<std::pair<ProcessId, store::BufferId>> held_;       ///< by processes of other nodes
  std::map<store::BufferId, store::BufferId> filling_;            ///< copies, by their origin's name
  std::set<store::BufferId> origins_;                             ///< of node 3's buffers, those that are there
  std::map<std::uint32_t, std::uint32_t> generations_;            ///< of node 3's slots
  std::map<store::BufferId, std::uint32_t> handed_out_;           ///< holds of the daemon for clients that will pin
  std::vector<store::BufferId> seen_;                             ///< ids that went to somebody
  std::uint64_t last_token_ = 0, last_parcel_ = 0, steps_ = 0;
  std::uint32_t last_client_ = 0, last_remote_ = 0;
  int actions_left_ = 0;
  bool busy_ = true, copies_node_gone_ = false;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace troupe::sim
