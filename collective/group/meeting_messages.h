// What rank 0 and the others tell each other when a group of processes meets, as it travels.
//
//   rank r                                       rank 0
//   Hello {first words, nonce, hash of the group's name, the address that was dialled}  ->
//                                           <-   Welcome {nonce, proof}, or why not
//   Answer {card, proof}                     ->
//                                           <-   Verdict {backend, nonce of the meeting, proof ...}, or why not; at an
//                                                address then the cards of all ranks, of which the proof is as well
//
// Of every version the same: the first words of a hello, and that whatever rank 0 says begins with a Refusal, of zeros
// where all is well. So another version is told apart by name, from both sides. (Of a version 2, rank 0 said no less
// than 280 bytes.)
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collective/tcp/mesh.h"
#include "core/net/base/token.h"

namespace troupe::collective {

using MeetingNonce = std::array<std::uint8_t, 16>;
using MeetingProof = net::Token::Digest;

struct MeetingHello {
  static constexpr std::uint32_t kMagic = 0x31565254, kVersion = 4;  // "TRV1"
  std::uint32_t magic = kMagic, version = kVersion;
  std::uint64_t build = 0;              ///< of the layout of all that ranks exchange
  std::int32_t rank = 0, size = 0;
  MeetingNonce nonce{};                 ///< the first words end before it
  net::Token::Digest group{};           ///< SHA-256 of its name
  std::array<char, 64> address{};       ///< numeric HOST:PORT that was dialled; empty: a path
};
inline constexpr std::size_t kFirstWords = offsetof(MeetingHello, nonce);

/// Why not, for all versions.
struct Refusal {
  char error[256] = {};                 ///< empty: all is well
  std::uint32_t reserved = 0, reason = 0;
};

struct MeetingWelcome {
  Refusal refusal;
  MeetingNonce nonce{};
  MeetingProof proof{};
};

/// What one connection began with: it is in all proofs that are made on it.
struct MeetingGreeting {
  MeetingHello hello;
  MeetingNonce nonce{};  ///< rank 0's
};

/// Who a rank is, for all other ranks.
struct Card {
  std::int32_t pid = 0;
  std::uint32_t backend = 0, user = 0, reserved = 0;
  std::uint64_t process_namespace = 0;
  char group[64] = {}, boot[40] = {};   ///< group: the beginning of its name
  MeshAddress address;                  ///< where it listens
};

struct MeetingAnswer {
  Card card;
  MeetingProof proof{};
};

struct Verdict {
  Refusal refusal;
  std::uint32_t backend = 0;
  std::int32_t founder_fd = -1;         ///< descriptor of the memory
  MeetingNonce meeting{};               ///< from which both sides make the group's key
  MeetingProof proof{};                 ///< of all of it, and of the cards; of a refusal there is none
};

static_assert(kFirstWords == 24 && sizeof(MeetingHello) == 136 && sizeof(Refusal) == 264 && sizeof(Verdict) >= 280);
static_assert(std::has_unique_object_representations_v<MeetingHello> && std::has_unique_object_representations_v<Card>);
static_assert(std::has_unique_object_representations_v<Verdict>);

}  // namespace troupe::collective
