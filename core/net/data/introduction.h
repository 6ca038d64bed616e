// Introduction: what a rank of a collective group says first on a connection to the data port of another rank's daemon:
// who it is and whom it wants. It is the body of a hand-over (net/base/handshakes.h); after it come the library's own
// bytes.
//
//   | magic | version | channel | group | epoch | from | to | nonce | proof |     80 bytes, little endian
//
// The proof is HMAC-SHA256 over what stands before it, under a key that only the two ranks and the receiving daemon
// know, and that the daemon takes once. So neither a stranger nor another rank of the group can come in its place, and
// nothing that was overheard can be said again. The cluster token plays no part.
//
// The answer is 32 bytes, the first of the other direction: HMAC-SHA256 under the same key over a label of its own and
// the whole introduction, so over a nonce of the dialler. The daemon sends it when it passes the connection on. A rank
// that dials sends nothing more before it has it: whoever took over a port gets an introduction and nothing else.
//
// Thread rule: pure functions, but for introduce, which asks the kernel for random bytes.
//
// Invariants
//   NIT-1  decode_introduction takes what introduce made, and any other bytes give SerializationError or an
//          Introduction whose proof is yet to be checked; it never reads beyond them.
//   NIT-2  proves() is true for the same pair and key alone; its time does not depend on where two proofs differ.
//   NIT-3  acceptance() is known to who has the key alone, is another for each introduction, and is no proof of an
//          introduction.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>

#include "core/base/bytes.h"
#include "core/net/base/proof.h"
#include <troupe/result.h>

namespace troupe::net {

using PairKey = std::array<std::uint8_t, 32>;

/// From whom to whom, in which epoch of which group. `channel` is the group's own number.
struct RankPair {
  std::uint64_t group = 0, epoch = 0;
  std::int32_t from = 0, to = 0;
  std::uint16_t channel = 0;
};

struct Introduction {
  std::uint32_t magic = 0;
  std::uint16_t version = 0, channel = 0;
  std::uint64_t group = 0, epoch = 0;
  std::int32_t from = 0, to = 0;
  ProofNonce nonce{};
  Token::Digest proof{};
};
static_assert(sizeof(Introduction) == 80 && std::has_unique_object_representations_v<Introduction>);

Result<Introduction> introduce(const RankPair& pair, const PairKey& key);
inline ByteView bytes_of_introduction(const Introduction& introduction) {
  return std::as_bytes(std::span(&introduction, 1));
}
Result<Introduction> decode_introduction(ByteView bytes);
bool proves(const Introduction& introduction, const PairKey& key);
/// The answer to an introduction whose proof was right; compare by same_proof. NIT-3.
Token::Digest acceptance(const Introduction& introduction, const PairKey& key);

}  // namespace troupe::net
