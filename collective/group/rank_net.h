// RankNet: how a rank of a group of actors gets its sockets. Workers listen on no port: the others reach them at the
// data port of their node's daemon, which checks the introduction and passes the connection on.
//
//   rank 1 (worker)            daemon of rank 0              rank 0 (worker)
//                                          <-- expect 1 by this key --|        open(), when the group is formed
//      |-- introduction, proof by the key --> checks, uses the key up
//      |<------- acceptance, proof by the key ---|-- the descriptor ---->      arrived() -> TcpLinks
//      |<================ data, control (two connections) ============>|
//
// The higher ranks dial the lower ones. All keys are made of the epoch's secret, which only the job's processes can
// read.
//
// Invariants
//   RN-1  A rank is expected from open() until its links are gone or it has left, and not longer.
//   RN-2  A socket goes to the links of exactly the rank, group and epoch that its introduction named; else it is
//         closed.
//   RN-3  A rank sends nothing but its introduction to who has not proven the pair's key (TL-5).
// Thread rule: any thread; dial() waits until its deadline at most. Nothing of it is called with the core's lock held.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "collective/group/registry.h"
#include "collective/tcp/communicator.h"
#include "core/base/fd.h"
#include "core/wire/group_messages.h"

namespace troupe::worker {
class Core;
}

namespace troupe::collective {

using Secret = std::array<std::uint8_t, 32>;

/// Where a rank stands among the ranks of one epoch of a group, or of a split of it.
struct RankIdentity {
  std::string name;
  std::uint64_t id = 0, epoch = 0;
  Secret secret{};
  int rank = 0;
  std::vector<std::string> addresses;  ///< data ports of the ranks' daemons, HOST:PORT
};

Result<Secret> make_secret();
std::string hex_of(const Secret& secret);
Result<Secret> secret_of(const std::string& hex);
/// A number for one purpose, which tells nothing of the secret.
std::uint64_t number_of(const Secret& secret, const std::string& purpose);
RankIdentity identity_in(const GroupRecord& record, const std::string& name, int rank);

/// The links of a rank, which takes in from now on who proves to be one of the others.
std::shared_ptr<TcpLinks> open_rank(worker::Core& core, RankIdentity identity);
/// Connects to all lower ranks. CollectiveError: kTimeout and kDied name the rank whose daemon cannot be reached;
/// kBackend, that this process lacks what it takes (a descriptor, say), names nobody.
Status dial_lower_ranks(TcpLinks& links, Clock::time_point deadline);
/// For splits: the same way, between some of the ranks.
Connect connect_by_daemons(worker::Core& core);
/// A connection that the daemon passed on.
void rank_arrived(const wire::RankSocket& what, UniqueFd fd);

}  // namespace troupe::collective
