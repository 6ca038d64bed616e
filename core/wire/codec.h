// Control messages in bytes: plain aggregates (wire/messages.h), written by the public codec, without attachments.
//
// Thread rule: functions of values.
//
// Invariants
//   WC-1  decode_message(encode_message(m)) is m; any other bytes give a SerializationError that names the struct, or some m.
//   WC-2  Every byte belongs to the message: a longer encoding is refused, as a shorter one is.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include <troupe/serialize.h>

namespace troupe::wire {

template <Serializable M> std::vector<std::byte> encode_message(const M& message) { return troupe::detail::encode(message); }

template <Serializable M> Result<M> decode_message(std::span<const std::byte> bytes) { return troupe::detail::decode<M>(bytes); }

/// For senders that have their own memory: the frame's payload, a ring slot.
template <Serializable M> std::size_t message_size(const M& message) { return troupe::detail::encoded_size(message); }
template <Serializable M> void encode_message_into(std::span<std::byte> memory, const M& message) {
  troupe::detail::encode_into(memory, message);
}

}  // namespace troupe::wire
