// TcpMesh: how processes that can reach each other by address make the sockets between them: each listens for a moment, the
// higher ranks connect to the lower ones, twice (data, control), and say who they are with the group's key.
//
//   higher -> lower   | magic | from | to | channel | key |
//
// Invariants
//   TM-1  A connection that does not know the key, or names a place that is taken, is closed.
//   TM-2  Nobody listens any more when it returns.
// Thread rule: any thread; everything here waits until its deadline at most.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collective/tcp_communicator.h"
#include "collective/tcp_links.h"
#include <troupe/result.h>

namespace troupe::collective {

/// Where a rank listens; travels between ranks as it is.
struct MeshAddress {
  char text[64] = {};  ///< HOST:PORT, numeric
};

class MeshListener {
 public:
  /// On any free port of this address.
  static Result<MeshListener> open(const std::string& host);
  const MeshAddress& address() const { return address_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  MeshAddress address_;
};

/// All ranks call it with the same addresses and key. CollectiveError (kTimeout) names the ranks that did not come.
Result<std::shared_ptr<TcpLinks>> connect_mesh(const TcpLinks::Place& place, MeshListener listener, const std::vector<MeshAddress>& addresses, std::uint64_t key,
                                               Clock::time_point deadline);

/// The usual way of a split: by sockets on the address that the old group's sockets have.
Result<std::shared_ptr<TcpLinks>> connect_subgroup(TcpLinks& old, const Subgroup& subgroup, Clock::time_point deadline);

/// A connection to HOST:PORT, blocking, or why there is none.
Result<UniqueFd> dial(const std::string& address, Clock::time_point deadline);
/// For poll: milliseconds until the deadline, rounded up, an hour at most.
int milliseconds_until(Clock::time_point deadline);
/// Whole or nothing, until the deadline.
bool send_whole(int fd, const void* bytes, std::size_t size, Clock::time_point deadline);
bool receive_whole(int fd, void* bytes, std::size_t size, Clock::time_point deadline);

}  // namespace troupe::collective
