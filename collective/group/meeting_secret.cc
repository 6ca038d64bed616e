#include "collective/group/meeting_secret.h"

#include <string.h>

#include <cstring>
#include <string_view>

namespace troupe::collective {
namespace {

template <class T> std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string transcript(std::string_view side, const MeetingHello& hello, const MeetingNonce& nonce) {
  std::string message("troupe meeting 4 ");
  message += side;
  message += bytes_of(hello);
  message += bytes_of(nonce);
  return message;
}

}  // namespace

MeetingSecret::MeetingSecret(const std::string& token) {
  std::string text;
  text.reserve(32 + token.size());  // a string that grows leaves its old memory unwiped
  text += "troupe meeting token ";
  text += token;
  key_ = net::sha256(text);
  ::explicit_bzero(text.data(), text.size());
}

MeetingSecret::~MeetingSecret() { ::explicit_bzero(key_.data(), key_.size()); }

MeetingProof MeetingSecret::welcome(const MeetingHello& hello, const MeetingNonce& nonce) const {
  return net::hmac_sha256(key_, transcript("rank 0 ", hello, nonce));
}

MeetingProof MeetingSecret::answer(const MeetingHello& hello, const MeetingNonce& nonce, const Card& card) const {
  std::string message = transcript("dialler", hello, nonce);
  message += bytes_of(card);
  return net::hmac_sha256(key_, message);
}

MeetingProof MeetingSecret::verdict(const MeetingGreeting& greeting, const Verdict& verdict,
                                    std::span<const Card> cards) const {
  std::string message = transcript("verdict", greeting.hello, greeting.nonce);
  Verdict unproven = verdict;
  unproven.proof = {};
  message += bytes_of(unproven);
  for (const Card& card : cards) message += bytes_of(card);
  return net::hmac_sha256(key_, message);
}

std::uint64_t MeetingSecret::group_key(const MeetingNonce& meeting, const std::string& group) const {
  std::string message("troupe meeting 4 group key");
  message += bytes_of(meeting);
  message += group;
  const net::Token::Digest digest = net::hmac_sha256(key_, message);
  std::uint64_t key = 0;
  std::memcpy(&key, digest.data(), sizeof key);
  return key;
}

}  // namespace troupe::collective
