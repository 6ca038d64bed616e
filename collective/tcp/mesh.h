// TcpMesh: how processes that can reach each other by address make the sockets between them: each listens for a moment,
// the higher ranks connect to the lower ones, twice (data, control), and both ends prove that they know the group's
// key.
//
//   higher (dials)                                     lower (listens)
//   Hello {magic, from, to, channel, nonce}       ->
//                                                 <-   Welcome {nonce, proof}
//   Answer {proof}                                ->   then the connection is the group's
//
// A proof is HMAC-SHA256 under the key over the side that makes it, the whole hello and the listener's nonce. The key
// itself never travels here; the listener proves first, so whoever took over a port learns nothing. (How all ranks come
// to the key: meeting_secret.h.)
//
// Invariants
//   TM-1  A connection whose other end does not prove to know the key, or names a rank that is there already, is
//         closed; comparing takes the same time wherever two proofs differ.
//   TM-2  Nobody listens any more when it returns.
//   TM-3  Who connects and says nothing delays nobody: all are heard at once, a hello has ten seconds, and of more than
//         the ranks themselves and 64 the oldest makes way, of the source of which most wait (SRC-1).
//   TM-4  Nobody is called dead here: a rank that hangs up may have failed by itself, for want of a descriptor, say,
//         and one that does not answer may be slow. The group's links know who is dead (TL-2).
//   TM-5  Who makes the sockets of a part of a group waits no longer when the group has failed.
// Thread rule: any thread; everything here waits until its deadline at most.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collective/tcp/communicator.h"
#include "collective/tcp/links.h"
#include <troupe/result.h>

namespace troupe::collective {

/// Where a rank listens; travels between ranks as it is.
struct MeshAddress {
  char text[64] = {};  ///< HOST:PORT, numeric
};

/// When a wait here ends.
struct Until {
  Until(Clock::time_point deadline, TcpLinks* above = nullptr) : deadline(deadline), above(above) {}
  Clock::time_point deadline;
  TcpLinks* above;  ///< also when these links have failed, if any; only the waiting thread sleeps on their wake_fd
  bool over() const { return Clock::now() >= deadline || (above && above->has_failed()); }
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

/// All ranks call it with the same addresses and key. CollectiveError: kTimeout names the ranks that did not come,
/// kBackend the one that hung up; any other error is this process's own, as of dial().
Result<std::shared_ptr<TcpLinks>> connect_mesh(const TcpLinks::Identity& identity, MeshListener listener,
                                               const std::vector<MeshAddress>& addresses, std::uint64_t key,
                                               const Until& until);

/// The usual way of a split: by sockets on the address that the old group's sockets have. Ends when the old group fails
/// (TM-5).
Result<std::shared_ptr<TcpLinks>> connect_subgroup(TcpLinks& old, const Subgroup& subgroup, Clock::time_point deadline);

/// A connection to HOST:PORT, blocking. CollectiveError: it cannot be reached, or not in time; InvalidArgumentError:
/// there is no such address; any other: this process has no socket for it, and nobody else is to blame.
Result<UniqueFd> dial(const std::string& address, const Until& until);
/// For poll: milliseconds until the deadline, rounded up, an hour at most.
int milliseconds_until(Clock::time_point deadline);
/// Whole or nothing, until then.
bool send_whole(int fd, const void* bytes, std::size_t size, const Until& until);
bool receive_whole(int fd, void* bytes, std::size_t size, const Until& until);

}  // namespace troupe::collective
