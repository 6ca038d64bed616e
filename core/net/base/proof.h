// Proof: how the two ends of a TCP connection show each other that they know the cluster token, before anything else of
// it is read. Links, data sockets and whatever comes later use this one exchange.
//
//   dialler                                                 listener
//   ProofHello {whom it wants, nonce, incarnation ...}  ->
//                                                       <-  ProofWelcome {nonce, incarnation, epoch, proof} or why not
//   ProofAnswer {proof}                                 ->
//   the bytes of the next layer                         <->
//
//   WAITING --all messages right--> PROVEN       WAITING --anything else--> FAILED (failure() says what)
//
// A proof is HMAC-SHA256 under the cluster token over the side that makes it, the whole hello and the whole welcome
// (all but its proof): so over protocol, purpose, roles, both nonces, cluster id, both incarnations, the dialled
// address and the epoch. The token itself never travels. The listener proves first: a dialler gives nothing to whoever
// took over a port.
//
// Thread rule: a ProofExchange is a value without I/O: bytes in, bytes out. The free functions are pure.
//
// Invariants
//   PX-1  proven() is true only after the peer's proof over this very exchange was right. Before that the only bytes
//         taken are these messages, of fixed size.
//   PX-2  A proof made for one connection is good for no other: both nonces are in it, and the sides' labels differ, so
//         it can neither be said again nor be reflected to the side that made it.
//   PX-3  A listener that is a node gives no proof to a dialler that dialled another address (a relay), and none to one
//         that wants another role, incarnation or epoch (a port that was taken over by a successor).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/bytes.h"
#include "core/net/base/token.h"
#include <troupe/result.h>

namespace troupe::net {

inline constexpr std::uint32_t kProofMagic = 0x32505254;  // "TRP2"
inline constexpr std::uint16_t kProofVersion = 2;

using ProofNonce = std::array<std::uint8_t, 16>;

/// What a process is in its cluster.
enum class ProofRole : std::uint8_t { kAny = 0, kHead = 1, kNode = 2 };
/// What the connection is for.
enum class ProofPurpose : std::uint8_t { kLink = 1, kData = 2 };
enum class ProofRefusal : std::uint8_t {
  kNone = 0, kVersion, kPurpose, kCluster, kAddress, kRole, kIncarnation, kEpoch, kNoToken
};

/// One side.
struct ProofSelf {
  Token token;
  std::string cluster_id = {};    ///< empty: not known yet, fits any
  ProofRole role = ProofRole::kNode;
  ProofPurpose purpose = ProofPurpose::kLink;
  std::uint64_t incarnation = 0;  ///< of this process
  std::uint64_t epoch = 0;        ///< a head's
};

/// Whom a dialler wants. Zero: any.
struct ProofTarget {
  ProofRole role = ProofRole::kAny;
  std::uint64_t incarnation = 0, epoch = 0;
};

/// The peer, as far as it has proven it.
struct ProofPeer {
  ProofRole role = ProofRole::kAny;
  std::uint64_t incarnation = 0, epoch = 0;
};

struct ProofHello {
  std::uint32_t magic = kProofMagic;
  std::uint16_t version = kProofVersion;
  ProofRole role = ProofRole::kAny, wanted_role = ProofRole::kAny;
  ProofPurpose purpose = ProofPurpose::kLink;
  std::array<std::uint8_t, 7> reserved{};
  ProofNonce nonce{};
  std::uint64_t incarnation = 0, wanted_incarnation = 0, wanted_epoch = 0;
  Token::Digest cluster{};             ///< SHA-256 of the cluster id; zeros: not known yet
  std::array<char, 64> address{};      ///< numeric HOST:PORT that was dialled, zero-padded
};
struct ProofWelcome {
  std::uint32_t magic = kProofMagic;
  std::uint16_t version = kProofVersion;
  ProofRole role = ProofRole::kAny;
  ProofRefusal refusal = ProofRefusal::kNone;
  std::uint64_t incarnation = 0, epoch = 0;
  ProofNonce nonce{};
  Token::Digest cluster{};
  Token::Digest proof{};
};
struct ProofAnswer { Token::Digest proof{}; };

static_assert(sizeof(ProofHello) == 152 && sizeof(ProofWelcome) == 104 && sizeof(ProofAnswer) == 32);
static_assert(std::has_unique_object_representations_v<ProofHello>);
static_assert(std::has_unique_object_representations_v<ProofWelcome>);

/// Do two proofs agree? The time does not depend on where they differ.
inline bool same_proof(const Token::Digest& a, const Token::Digest& b) {
  return constant_time_equal({reinterpret_cast<const char*>(a.data()), a.size()},
                             {reinterpret_cast<const char*>(b.data()), b.size()});
}

/// A random number that tells this process from all others; never zero. The error: the kernel gives no random numbers.
Result<std::uint64_t> draw_incarnation();

class ProofExchange {
 public:
  /// `address`: what was dialled, numeric (net::peer_address). The first output is the hello.
  static Result<ProofExchange> dial(const ProofSelf& self, const ProofTarget& target, std::string_view address);
  /// `address`: where the connection came in (net::local_address); `also`: an address that a translation on the way
  /// (NAT, a mapped port) leads here; empty: none. A head does not compare addresses but epochs: it may be reached by a
  /// service's name.
  static Result<ProofExchange> listen(const ProofSelf& self, std::string_view address, std::string_view also = {});

  /// How many bytes are to be read next; never more, for what follows belongs to the next layer. 0: proven or failed.
  std::size_t wanted() const { return wanted_ - have_; }
  /// At most wanted() bytes that came.
  void take(ByteView bytes);
  /// What is to be sent now; empty: nothing. Also after a failure: the refusal that tells the peer why.
  std::string output() { return std::exchange(output_, {}); }

  bool proven() const { return proven_; }
  /// UnauthenticatedError: the peer belongs to another cluster or is not the one that was meant. Null while all is
  /// well.
  const ErrorPtr& failure() const { return failure_; }
  const ProofPeer& peer() const { return peer_; }

 private:
  enum class Step { kHello, kWelcome, kAnswer, kOver };
  enum class Side { kDialler, kListener };
  ProofExchange(Side side, const ProofSelf& self) : side_(side), self_(self) {}
  void want(Step step, std::size_t size);
  void take_hello();
  void take_welcome();
  void take_answer();
  void fail(std::string why);
  void succeed();
  ProofRefusal judge(const ProofHello& hello) const;
  Token::Digest proof_of(Side side) const;

  Side side_;
  ProofSelf self_;
  ProofTarget target_;
  std::string address_, also_;
  Step step_ = Step::kOver;
  std::array<std::byte, sizeof(ProofHello)> in_{};
  std::size_t wanted_ = 0, have_ = 0;
  ProofHello hello_;
  ProofWelcome welcome_;
  std::string output_;
  bool proven_ = false;
  ErrorPtr failure_;
  ProofPeer peer_;
};

}  // namespace troupe::net
