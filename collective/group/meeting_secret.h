// MeetingSecret: what the token that a program gave to join is good for: both ends of a connection prove that they know
// it, and all ranks make the group's key from it.
//
// A proof is HMAC-SHA256 over protocol and version, the side that makes it, the whole hello (rank, size, nonce, group,
// the address that was dialled) and rank 0's nonce; a rank's also over its card, and that of the verdict over all of
// the verdict and the cards of all ranks. The group's key is HMAC-SHA256 over another label, the nonce of the meeting
// and the group's name.
//
// Invariants
//   MSC-1  The token never travels, and neither does the group's key. Rank 0 proves first: whoever took over its port
//          learns no proof that it could use.
//   MSC-2  A proof is good for one connection, one side and one card: both nonces are in it, and the sides' labels
//          differ, so that it can neither be said again nor be reflected.
//   MSC-4  A rank follows a verdict, and believes the cards behind it, only with rank 0's proof of both: who can change
//          what travels can keep ranks from meeting, and tell them nothing.
//   MSC-3  Of an empty token anybody can make proofs and the group's key: then this keeps nobody out, and only tells
//          who means the same address. (And a short token can be guessed from what was heard: take 128 random bits.)
// Thread rule: a value without I/O, clock or randomness; any thread. Its bytes are wiped at its end.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "collective/group/meeting_messages.h"

namespace troupe::collective {

class MeetingSecret {
 public:
  explicit MeetingSecret(const std::string& token);
  ~MeetingSecret();
  MeetingSecret(const MeetingSecret&) = delete;
  MeetingSecret& operator=(const MeetingSecret&) = delete;

  /// Rank 0's, to whoever said this hello.
  MeetingProof welcome(const MeetingHello& hello, const MeetingNonce& nonce) const;
  /// A rank's, to whoever answered its hello with this nonce.
  MeetingProof answer(const MeetingHello& hello, const MeetingNonce& nonce, const Card& card) const;
  /// Rank 0's, of what it tells this rank in the end; the verdict's own proof does not count.
  MeetingProof verdict(const MeetingGreeting& greeting, const Verdict& verdict, std::span<const Card> cards) const;
  std::uint64_t group_key(const MeetingNonce& meeting, const std::string& group) const;

 private:
  std::array<std::uint8_t, net::Token::kBytes> key_;
};

}  // namespace troupe::collective
