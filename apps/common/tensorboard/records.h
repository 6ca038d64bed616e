// TFRecord, the framing of TensorBoard's event files: each record is
//
//   offset  size  what
//        0     8  length n of the payload, little-endian
//        8     4  masked CRC32C of those eight bytes
//       12     n  payload
//   12 + n     4  masked CRC32C of the payload
//
// as TensorFlow's RecordWriter writes it. Worked example, the payload "abc":
//
//   03 00 00 00 00 00 00 00  b0 99 49 0e  61 62 63  6e 57 f1 21
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace apps::tensorboard {

/// CRC-32C (Castagnoli) as of RFC 3720, appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);
/// Rotated right by 15 bits, plus 0xa282ead8: so that the checksum of bytes that hold checksums is a good one too.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// The record with this payload.
[[nodiscard]] std::string record(std::string_view payload);

}  // namespace apps::tensorboard
