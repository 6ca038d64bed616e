// Reception: what rank 0 and the others tell each other when a group of processes meets, at HOST:PORT (rendezvous.h) or
// at a path (join_path.h), and rank 0's side of it: it takes in who connects, all at once, until all have come.
//
//   rank r -> rank 0    Card     | magic | version | build | rank | size | backend | group | token | machine | pid |
//                                where r listens |
//   rank 0 -> rank r    Verdict  | an error text, or nothing | backend | key | descriptor of the memory |, then what
//                                the meeting adds
//
//   a connection --whole Card--> welcome --all have come--> the meeting
//                            \-> refused, alone
//                             \-> disagrees: the meeting ends for all
//
// Invariants
//   RC-1  A connection that says nothing delays nobody; it is closed after kStranger, and of more than 1,024 the oldest
//         makes way, of the source of which most wait (SRC-1).
//   RC-2  Who has another token, is not Troupe, or comes as a rank that is here already is refused alone: no stranger
//         ends a meeting. (Of another version only the first words can be read: no token, so where one was asked for,
//         no trust.)
//   RC-3  Who disagrees on version, group, size or backend ends the meeting: rank 0, all that have come, and all that
//         come within kFarewell hear the same text.
//   RC-4  A rank that hung up before all had come may come again.
// Thread rule: any thread; waits until the deadline at most.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/tcp/mesh.h"
#include "core/base/fd.h"

namespace troupe::collective {

struct MeetingPlan {
  std::string group, address, token;  ///< address: HOST:PORT or a path
  int rank = 0, size = 1;
  Backend backend = Backend::kAuto;
  bool deterministic = false;
  Clock::time_point deadline{};
};

inline constexpr auto kStranger = std::chrono::seconds(2);  ///< for a whole card, and for taking a verdict
inline constexpr auto kFarewell = std::chrono::seconds(10);

struct Card {
  static constexpr std::uint32_t kMagic = 0x31565254, kVersion = 2;  // "TRV1"
  std::uint32_t magic = kMagic, version = kVersion;
  std::uint64_t build = 0;
  std::int32_t rank = 0, size = 0, pid = 0;
  std::uint32_t backend = 0, user = 0, reserved = 0;
  std::uint64_t process_namespace = 0, group_hash = 0;
  char group[64] = {}, token[128] = {}, boot[40] = {};  ///< group: the beginning of its name
  MeshAddress address;
};
struct Verdict {
  char error[256] = {};
  std::uint32_t backend = 0, reason = 0;  ///< reason: of the error
  std::uint64_t key = 0;
  std::int32_t founder_fd = -1, reserved2 = 0;
};

/// This process's card. InvalidArgumentError: the token is too long.
Card card_of(const MeetingPlan& plan);
/// Can each of the two open what the other has open?
bool same_machine(const Card& a, const Card& b);

/// What becomes of who shows this card (RC-2, RC-3). Pure; the time that it takes does not depend on where two tokens
/// differ.
struct Judgement {
  enum class Ruling { kWelcome, kRefused, kDisagrees } ruling = Ruling::kWelcome;
  std::string text = {};
};
Judgement judge(const Card& card, const Card& own, const std::vector<bool>& here);

struct Arrivals {
  std::vector<Card> cards;        ///< by rank; the tokens are wiped
  std::vector<UniqueFd> sockets;  ///< by rank; none of rank 0
};
/// Rank 0: takes in all others. Throws CollectiveError: kTimeout names who did not come, kMismatch says what differs,
/// kBackend that the listener does not work.
Arrivals receive_cards(const MeetingPlan& plan, const Card& own, int listener);
/// Tells all ranks that have come why there will be no group.
void refuse_all(const Arrivals& arrivals, Reason reason, const std::string& text);

/// The others: rank 0's no is thrown as CollectiveError.
void check_verdict(const MeetingPlan& plan, const Verdict& verdict);

[[noreturn]] void fail_meeting(const MeetingPlan& plan, Reason reason, const std::string& text,
                               std::vector<int> missing = {});

}  // namespace troupe::collective
