#include "core/net/base/proof.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace troupe::net {
namespace {

template <class T>
std::string_view text_of(const T& value, std::size_t size = sizeof(T)) {
  return {reinterpret_cast<const char*>(&value), size};
}

Token::Digest cluster_digest(const std::string& cluster_id) {
  return cluster_id.empty() ? Token::Digest{} : sha256("troupe cluster " + cluster_id);
}
bool same_cluster(const Token::Digest& a, const Token::Digest& b) {
  return a == b || a == Token::Digest{} || b == Token::Digest{};
}

std::string_view address_in(const ProofHello& hello) {
  const auto end = std::find(hello.address.begin(), hello.address.end(), '\0');
  return {hello.address.data(), std::size_t(end - hello.address.begin())};
}

const char* explain(ProofRefusal refusal) {
  switch (refusal) {
    case ProofRefusal::kNone: break;
    case ProofRefusal::kVersion: return "it speaks another protocol version; install one version everywhere";
    case ProofRefusal::kPurpose: return "this port serves another purpose";
    case ProofRefusal::kCluster: return "it belongs to another cluster";
    case ProofRefusal::kAddress: return "the connection was dialled to another address than the one where it came in";
    case ProofRefusal::kRole: return "a process of another role listens there";
    case ProofRefusal::kIncarnation: return "another process than the one that was meant listens there";
    case ProofRefusal::kEpoch: return "a head of another epoch listens there";
    case ProofRefusal::kNoToken: return "that side has no token";
  }
  return "it gave no reason";
}

}  // namespace

Result<std::uint64_t> draw_incarnation() {
  std::array<std::uint8_t, 8> bytes{};
  if (Status filled = fill_random(bytes); !filled.ok()) return filled.error_ptr();
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value | 1;
}

Result<ProofExchange> ProofExchange::dial(const ProofSelf& self, const ProofTarget& target, std::string_view address) {
  if (!self.token.is_set()) return UnauthenticatedError("no cluster token to prove anything with");
  ProofExchange exchange(Side::kDialler, self);
  exchange.target_ = target;
  ProofHello& hello = exchange.hello_;
  if (address.size() > hello.address.size())
    return InvalidArgumentError("the address " + std::string(address) + " is too long");
  hello.role = self.role;
  hello.wanted_role = target.role;
  hello.purpose = self.purpose;
  if (Status filled = fill_random(hello.nonce); !filled.ok()) return filled.error_ptr();
  hello.incarnation = self.incarnation;
  hello.wanted_incarnation = target.incarnation;
  hello.wanted_epoch = target.epoch;
  hello.cluster = cluster_digest(self.cluster_id);
  std::copy(address.begin(), address.end(), hello.address.begin());
  exchange.output_ = text_of(hello);
  exchange.want(Step::kWelcome, sizeof(ProofWelcome));
  return exchange;
}

Result<ProofExchange> ProofExchange::listen(const ProofSelf& self, std::string_view address, std::string_view also) {
  ProofExchange exchange(Side::kListener, self);
  exchange.address_ = address;
  exchange.also_ = also;
  ProofWelcome& welcome = exchange.welcome_;
  welcome.role = self.role;
  welcome.incarnation = self.incarnation;
  welcome.epoch = self.epoch;
  welcome.cluster = cluster_digest(self.cluster_id);
  if (Status filled = fill_random(welcome.nonce); !filled.ok()) return filled.error_ptr();
  exchange.want(Step::kHello, sizeof(ProofHello));
  return exchange;
}

void ProofExchange::want(Step step, std::size_t size) {
  step_ = step;
  wanted_ = size;
  have_ = 0;
}

void ProofExchange::take(ByteView bytes) {
  if (bytes.size() > wanted())
    return fail("more bytes than were asked for");  // a bug of the caller: never taken for the next layer's
  std::copy(bytes.begin(), bytes.end(), in_.begin() + std::ptrdiff_t(have_));
  have_ += bytes.size();
  if (have_ < wanted_ || bytes.empty()) return;
  switch (step_) {
    case Step::kHello: return take_hello();
    case Step::kWelcome: return take_welcome();
    case Step::kAnswer: return take_answer();
    case Step::kOver: return;
  }
}

void ProofExchange::fail(std::string why) {
  failure_ = make_error<UnauthenticatedError>(std::move(why));
  want(Step::kOver, 0);
}

void ProofExchange::succeed() {
  proven_ = true;
  want(Step::kOver, 0);
}

Token::Digest ProofExchange::proof_of(Side side) const {
  std::string message = side == Side::kListener ? "troupe proof 2 listener" : "troupe proof 2 dialler ";
  message += text_of(hello_);
  message += text_of(welcome_, offsetof(ProofWelcome, proof));
  return self_.token.sign(message);
}

ProofRefusal ProofExchange::judge(const ProofHello& hello) const {
  if (hello.version != kProofVersion) return ProofRefusal::kVersion;
  if (!self_.token.is_set()) return ProofRefusal::kNoToken;
  if (hello.purpose != self_.purpose) return ProofRefusal::kPurpose;
  if (!same_cluster(hello.cluster, welcome_.cluster)) return ProofRefusal::kCluster;
  if (hello.wanted_role != ProofRole::kAny && hello.wanted_role != self_.role) return ProofRefusal::kRole;
  if (hello.wanted_epoch != 0 && hello.wanted_epoch != self_.epoch) return ProofRefusal::kEpoch;
  if (hello.wanted_incarnation != 0 && hello.wanted_incarnation != self_.incarnation) return ProofRefusal::kIncarnation;
  const std::string_view dialled = address_in(hello);
  const bool here = dialled == address_ || (!also_.empty() && dialled == also_);
  if (self_.role != ProofRole::kHead && !here) return ProofRefusal::kAddress;  // PX-3
  return ProofRefusal::kNone;
}

void ProofExchange::take_hello() {
  std::memcpy(&hello_, in_.data(), sizeof hello_);
  if (hello_.magic != kProofMagic) return fail("the peer does not speak this protocol");
  welcome_.refusal = judge(hello_);
  if (welcome_.refusal != ProofRefusal::kNone) {
    ProofWelcome refusal;  // says why, and nothing else
    refusal.refusal = welcome_.refusal;
    output_ = text_of(refusal);
    return fail(std::string("refused a dialler: ") + explain(welcome_.refusal));
  }
  welcome_.proof = proof_of(Side::kListener);
  output_ = text_of(welcome_);
  want(Step::kAnswer, sizeof(ProofAnswer));
}

void ProofExchange::take_welcome() {
  std::memcpy(&welcome_, in_.data(), sizeof welcome_);
  if (welcome_.magic != kProofMagic) return fail("what listens there is not of this runtime");
  if (welcome_.version != kProofVersion) return fail(explain(ProofRefusal::kVersion));
  if (welcome_.refusal != ProofRefusal::kNone) return fail(explain(welcome_.refusal));
  if (!same_proof(welcome_.proof, proof_of(Side::kListener)))
    return fail("it does not know our cluster token: it belongs to another cluster");
  if (!same_cluster(welcome_.cluster, hello_.cluster)) return fail(explain(ProofRefusal::kCluster));
  if (target_.role != ProofRole::kAny && welcome_.role != target_.role) return fail(explain(ProofRefusal::kRole));
  if (target_.epoch != 0 && welcome_.epoch != target_.epoch) return fail(explain(ProofRefusal::kEpoch));
  if (target_.incarnation != 0 && welcome_.incarnation != target_.incarnation)
    return fail(explain(ProofRefusal::kIncarnation));
  peer_ = {welcome_.role, welcome_.incarnation, welcome_.epoch};
  const ProofAnswer answer{proof_of(Side::kDialler)};
  output_ = text_of(answer);
  succeed();
}

void ProofExchange::take_answer() {
  ProofAnswer answer;
  std::memcpy(&answer, in_.data(), sizeof answer);
  if (!same_proof(answer.proof, proof_of(Side::kDialler))) return fail("the dialler does not know our cluster token");
  peer_ = {hello_.role, hello_.incarnation, 0};
  succeed();
}

}  // namespace troupe::net
