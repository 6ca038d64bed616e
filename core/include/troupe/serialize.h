// Serialization: values to bytes and back, without registration, macros or third-party headers.
//
// Serializable are scalars, enums, std::string, chrono durations, the standard containers, optional, variant, pair,
// tuple, unique_ptr, aggregates of up to 64 fields, and any default constructible class with
//
//   template <class Archive> void serialize(Archive& ar) { ar(a_, b_); }        // a public member
//   template <class Archive> void serialize(Archive& ar, T& value); // or free, found by its argument (a friend)
//
// The same function sizes, writes and reads. Where it must know which, `if constexpr (Archive::kReading)`; a reading
// one may refuse what it read by `ar.fail("reason")`. While sizing and writing it must not change the value. An
// exception that it throws passes through encode and decode.
//
// Bytes: little-endian, fixed width, no type tags, no padding; layouts in detail/serialize_std.h. Decoding is for bytes
// of any origin: it is bounded in memory and depth and never reads outside (SR-1 to SR-4, detail/serialize_archive.h).
// A value whose elements take more than 64 times its encoded size and 64 MiB besides cannot be decoded: hundreds of
// thousands of empty optionals of a large struct, say, which are better written as the few that are not empty.
//
// Thread rule: functions of values; call them from any thread.
#pragma once
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <troupe/detail/serialize_archive.h>
#include <troupe/detail/serialize_codec.h>
#include <troupe/detail/serialize_std.h>
#include <troupe/detail/type_name.h>
#include <troupe/result.h>

namespace troupe {

/// Can a T be sent to another process and stored as an object?
template <class T>
concept Serializable = detail::kSupported<T>;

namespace detail {

/// The exact number of bytes that encode_into will write for these values.
template <class... Ts> std::size_t encoded_size(const Ts&... values) {
  if constexpr (Row<Ts...>::kHasFixed) {
    (require_serializable<Ts>(), ...);
    return Row<Ts...>::kFixedSum;
  } else {
    Sizer sizer;
    sizer(values...);
    return sizer.size();
  }
}

/// Writes the value into memory of exactly its encoded size; another size gives a SerializationError (thrown).
template <class T> void encode_into(std::span<std::byte> memory, const T& value, Attachments* attachments = nullptr) {
  Writer writer(memory, attachments);
  writer(value);
  writer.finish();
}

template <class T> std::vector<std::byte> encode(const T& value, Attachments* attachments = nullptr) {
  Sizer sizer(attachments);
  sizer(value);
  std::vector<std::byte> bytes(sizer.size());
  encode_into(bytes, value, attachments);
  return bytes;
}

/// The value that these bytes, all of them, encode; else a SerializationError that names T.
template <class T>
Result<T> decode(std::span<const std::byte> bytes, Attachments* attachments = nullptr, Unfolding unfolding = {}) {
  Reader reader(bytes, attachments, unfolding);
  T value{};
  reader(value);
  if (Status status = reader.finish(type_name<T>()); !status.ok()) return status.error_ptr();
  return value;
}

}  // namespace detail
}  // namespace troupe
