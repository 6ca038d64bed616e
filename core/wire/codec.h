// Control messages in bytes: plain aggregates (wire/messages.h), written by the public codec, without attachments.
//
// The functions are declared here and compiled once for each message, in the codec_*.cc of this folder: a file that
// sends or reads a message pays nothing for its codec. A new message is listed there; one that is not is an undefined
// reference when a program is linked. A type that is not of this folder has its functions where wire/codec_define.h is
// included.
//
// Thread rule: functions of values.
//
// Invariants
//   WC-1  decode_message(encode_message(m)) is m; any other bytes give a SerializationError that names the struct, or
//         some m.
//   WC-2  Every byte belongs to the message: a longer encoding is refused, as a shorter one is.
//   WC-3  A message takes at most 32 times its bytes and one mebibyte as a value (SR-4); more is a SerializationError.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include <troupe/result.h>

namespace troupe::wire {

template <class M> std::vector<std::byte> encode_message(const M& message);

template <class M> Result<M> decode_message(std::span<const std::byte> bytes);

}  // namespace troupe::wire
