// ModelNetwork: net::Links between simulated machines, in simulated time. A connection keeps the order of its bytes;
// it may be reset, which loses what is under way in either direction, and each direction between two machines may be
// cut and healed: a cut keeps the bytes, and breaks the connection when it lasts as long as keep-alive waits.
//
// Machine 0 is the head's. Addresses are "m<machine>:1". Proofs are not modelled: who connects is believed.
//
// Thread rule: one thread.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/net/link/link.h"
#include "tests/sim/event_queue.h"

namespace troupe::sim {

class ModelNetwork {
 public:
  using Machine = std::uint32_t;
  /// `poke`: something happened to a machine's links.
  ModelNetwork(EventQueue& queue, Random& random, std::function<void(Machine)> poke)
      : queue_(queue), random_(random), poke_(std::move(poke)) {}
  ModelNetwork(const ModelNetwork&) = delete;

  std::unique_ptr<net::Links> open(Machine machine, net::LinkEvents& events, const net::LinksOptions& options);
  static std::string address(Machine machine) { return "m" + std::to_string(machine) + ":1"; }

  // ---- faults
  void reset(Machine a, Machine b);
  void cut(Machine from, Machine to);
  void heal(Machine from, Machine to);
  bool is_cut(Machine from, Machine to) const { return cuts_.contains({from, to}); }
  /// Its process is gone: nobody listens there any more, and who is connected sees it.
  void die(Machine machine);

  /// Sees what is given to links, also to those that have ended.
  using Spy = std::function<void(Machine from, ByteView frames)>;
  void watch(Spy spy) { spy_ = std::move(spy); }

 private:
  class Side;
  struct Chunk {
    Time at{};
    std::vector<std::byte> bytes = {};
    bool last = false;  ///< the end of the stream
    ErrorPtr why = {};
  };
  struct Connection {
    struct End { Machine machine = 0; net::LinkId link = 0; bool open = false, closed = false; };
    struct Way { std::deque<Chunk> chunks; Time last{}; bool shut = false; };
    End ends[2];
    Way ways[2];  ///< from ends[0], from ends[1]
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  Duration delay();
  Side* side(Machine machine);
  void attempt(Machine machine, net::LinkId link);
  void established(Machine machine, net::LinkId link, const std::string& hello);
  void put(const ConnectionPtr& connection, int from, Chunk chunk);
  void pump(const ConnectionPtr& connection, int from);
  void shut(const ConnectionPtr& connection, int from, bool lose, ErrorPtr why);
  void closed(const ConnectionPtr& connection, int end, const ErrorPtr& why);
  std::vector<ConnectionPtr> between(Machine a, Machine b);

  EventQueue& queue_;
  Random& random_;
  std::function<void(Machine)> poke_;
  Spy spy_;
  std::map<Machine, Side*> sides_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::map<std::pair<Machine, Machine>, std::uint64_t> cuts_;  ///< and the number of the cut
  std::uint64_t last_cut_ = 0;
};

}  // namespace troupe::sim
