#include "apps/rl/record/png.h"

#include <cstdint>
#include <string_view>

#include <zlib.h>

namespace rl {
namespace {

void put_big_endian(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(static_cast<unsigned char>(value >> shift)));
}

// A chunk: length, type, data, CRC of type and data (PNG specification, section 5.3).
void put_chunk(std::string& out, std::string_view type, std::string_view data) {
  put_big_endian(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = out.size();
  out += type;
  out += data;
  const uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(out.data() + begin), out.size() - begin);
  put_big_endian(out, static_cast<std::uint32_t>(crc));
}

}  // namespace

troupe::Result<std::string> png_bytes(const Frame& frame) {
  if (frame.width < 1 || frame.height < 1) return troupe::InvalidArgumentError("a picture without pixels");
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(frame.width);
  std::string rows;
  rows.reserve((row_bytes + 1) * static_cast<std::size_t>(frame.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(frame.height); ++y) {
    rows.push_back('\0');  // filter: none
    rows.append(reinterpret_cast<const char*>(&frame.rgb[y * row_bytes]), row_bytes);
  }
  uLongf packed_size = ::compressBound(rows.size());
  std::string packed(packed_size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_size, reinterpret_cast<const Bytef*>(rows.data()),
                  rows.size(), Z_DEFAULT_COMPRESSION) != Z_OK)
    return troupe::OutOfMemoryError("a picture could not be compressed");
  packed.resize(packed_size);

  std::string header;
  put_big_endian(header, static_cast<std::uint32_t>(frame.width));
  put_big_endian(header, static_cast<std::uint32_t>(frame.height));
  header += std::string_view("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB, deflate, filters, not interlaced
  std::string out = "\x89PNG\r\n\x1a\n";
  put_chunk(out, "IHDR", header);
  put_chunk(out, "IDAT", packed);
  put_chunk(out, "IEND", {});
  return out;
}

}  // namespace rl
