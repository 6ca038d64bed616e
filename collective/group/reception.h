// Reception: how a group of processes meets, at HOST:PORT (rendezvous.h) or at a path (join_path.h): rank 0 takes in
// who connects, all at once, until all have come; the others introduce themselves. What they say to each other is in
// meeting_messages.h, how they prove the token to each other in meeting_secret.h.
//
//   a connection --Hello--> welcomed --Answer, proven--> judged --all have come--> the meeting
//               \                   \                        \-> disagrees: the meeting ends for all
//                \-------------------\------------------------> refused, alone
//
// Invariants
//   RC-1  A connection that says nothing delays nobody; it is closed after kStranger, and of more than 1,024, or than
//         there are descriptors for, the oldest makes way, of the source of which most wait (SRC-1).
//   RC-2  Who has another token, is not Troupe, dialled another address (a relay; where a token is asked for), or comes
//         as a rank that is here already is refused alone: no stranger ends a meeting. (Of another version only the
//         first words can be read: no proof, so where a token was asked for, no trust.)
//   RC-3  Who disagrees on version, group, size or backend ends the meeting: rank 0, all that have come, and all that
//         come within kFarewell hear the same text.
//   RC-4  A rank that hung up before all had come may come again.
//   RC-5  Rank 0 looks at a card only after its rank has proven the token, and a rank shows its card only after rank 0
//         has. A path is not part of the proof, as it may have several names; only its user can connect to it.
// Thread rule: any thread; waits until the deadline at most.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/group/meeting_messages.h"
#include "collective/group/meeting_secret.h"
#include "core/base/fd.h"

namespace troupe::collective {

struct MeetingPlan {
  std::string group, address, token;  ///< address: HOST:PORT or a path
  int rank = 0, size = 1;
  Backend backend = Backend::kAuto;
  bool deterministic = false;
  Clock::time_point deadline{};
};

inline constexpr auto kStranger = std::chrono::seconds(10);  ///< for a hello, and for an answer: ranks may be slow
inline constexpr auto kFarewell = std::chrono::seconds(10);

/// All that a rank shows.
struct Visit {
  MeetingHello hello;
  Card card;
};
/// What this process shows; nonce and address of the hello come with the connection. InvalidArgumentError: the token is
/// too long.
Visit visit_of(const MeetingPlan& plan);
/// Can each of the two open what the other has open?
bool same_machine(const Card& a, const Card& b);

/// What becomes of who says or shows this (RC-2, RC-3).
struct Judgement {
  enum class Ruling { kWelcome, kRefused, kDisagrees } ruling = Ruling::kWelcome;
  std::string text = {};
};
/// Before anything is proven. `here`: the address where the connection came in. Pure.
Judgement judge_hello(const MeetingHello& hello, const MeetingHello& own, std::string_view here, bool token_asked);
/// After the proof. Pure.
Judgement judge(const Visit& guest, const Visit& own, const std::vector<bool>& here);

struct Arrivals {
  std::vector<Card> cards;        ///< by rank
  std::vector<UniqueFd> sockets;  ///< by rank; none of rank 0
  std::vector<MeetingGreeting> greetings;  ///< by rank
};
/// Rank 0: takes in all others. Throws CollectiveError: kTimeout names who did not come, kMismatch says what differs,
/// kBackend that the listener does not work.
Arrivals receive_cards(const MeetingPlan& plan, const Visit& own, int listener);
/// Tells all ranks that have come why there will be no group.
void refuse_all(const Arrivals& arrivals, Reason reason, const std::string& text);

/// The others: lets rank 0 prove itself on a new connection, then shows the card (RC-5); next comes the verdict. Throws
/// CollectiveError: kMismatch where it is not proven, rank 0's no, kDied or kTimeout where it says nothing.
MeetingGreeting introduce(const MeetingPlan& plan, const Visit& own, int socket);
/// Rank 0's no is thrown as CollectiveError; so is a verdict, or cards, that it has not said (kMismatch, MSC-4).
void check_verdict(const MeetingPlan& plan, const MeetingGreeting& greeting, const Verdict& verdict,
                   std::span<const Card> cards);
/// The first half of it: what comes behind a no is not read.
void check_refusal(const MeetingPlan& plan, const Refusal& refusal);

MeetingNonce draw_nonce(const MeetingPlan& plan);

[[noreturn]] void fail_meeting(const MeetingPlan& plan, Reason reason, const std::string& text,
                               std::vector<int> missing = {});

}  // namespace troupe::collective
