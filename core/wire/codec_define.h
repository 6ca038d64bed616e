// The definitions of wire/codec.h, for the few files that compile a message's codec: the codec_*.cc of this folder, and
// files that encode a type of their own (a configuration, a test's struct). No header includes it: it costs seconds.
//
// TROUPE_WIRE_MESSAGE(M) compiles both functions for M in this file, for the whole program.
#pragma once
#include "core/wire/codec.h"
#include <troupe/serialize.h>

namespace troupe::wire {

/// WC-3. An empty string or vector, of which our messages consist, becomes 8 times its bytes.
inline constexpr troupe::detail::Unfolding kUnfolding{.times = 32, .spare = std::size_t{1} << 20};

template <class M> std::vector<std::byte> encode_message(const M& message) {
  static_assert(Serializable<M>);
  return troupe::detail::encode(message);
}

template <class M> Result<M> decode_message(std::span<const std::byte> bytes) {
  static_assert(Serializable<M>);
  return troupe::detail::decode<M>(bytes, nullptr, kUnfolding);
}

}  // namespace troupe::wire

#define TROUPE_WIRE_MESSAGE(M)                                    \
  template std::vector<std::byte> encode_message<M>(const M&); \
  template Result<M> decode_message<M>(std::span<const std::byte>);
