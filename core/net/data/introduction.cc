#include "core/net/data/introduction.h"

#include <cstddef>
#include <cstring>
#include <string_view>

#include "core/net/base/token.h"

namespace troupe::net {
namespace {

constexpr std::uint32_t kMagic = 0x31495254;  // "TRI1"
constexpr std::uint16_t kVersion = 1;

Token::Digest proof_of(const Introduction& introduction, const PairKey& key) {
  return hmac_sha256(key, {reinterpret_cast<const char*>(&introduction), offsetof(Introduction, proof)});
}

}  // namespace

Result<Introduction> introduce(const RankPair& pair, const PairKey& key) {
  Introduction introduction;
  introduction.magic = kMagic;
  introduction.version = kVersion;
  introduction.channel = pair.channel;
  introduction.group = pair.group;
  introduction.epoch = pair.epoch;
  introduction.from = pair.from;
  introduction.to = pair.to;
  if (Status filled = fill_random(introduction.nonce); !filled.ok()) return filled.error_ptr();
  introduction.proof = proof_of(introduction, key);
  return introduction;
}

Result<Introduction> decode_introduction(ByteView bytes) {
  if (bytes.size() != sizeof(Introduction))
    return SerializationError("an introduction has 80 bytes, not " + std::to_string(bytes.size()));
  Introduction introduction;
  std::memcpy(&introduction, bytes.data(), sizeof introduction);
  if (introduction.magic != kMagic) return SerializationError("this is not an introduction");
  if (introduction.version != kVersion)
    return SerializationError("an introduction of version " + std::to_string(introduction.version) + ", and this is " +
                              std::to_string(kVersion));
  if (introduction.from < 0 || introduction.to < 0 || introduction.from == introduction.to)
    return SerializationError("an introduction of no two ranks");
  return introduction;
}

bool proves(const Introduction& introduction, const PairKey& key) {
  return same_proof(introduction.proof, proof_of(introduction, key));
}

Token::Digest acceptance(const Introduction& introduction, const PairKey& key) {
  std::string message = "troupe introduction: accepted";  // NIT-3: no introduction begins like that
  message.append(reinterpret_cast<const char*>(&introduction), sizeof introduction);
  return hmac_sha256(key, message);
}

}  // namespace troupe::net
