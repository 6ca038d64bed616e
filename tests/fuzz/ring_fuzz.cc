// RG-2, NEP-4: a peer that writes anything it likes into a ring never makes the other side touch memory outside of it,
// and what the reader gives out is always a valid message. The ring lies in memory of its exact size, so that
// AddressSanitizer sees one byte too much. The input is a program of steps: the peer writes bytes or positions, both
// ends go on.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/net/ring/ring.h"

namespace {

using namespace troupe;
using namespace troupe::net;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    bytes = std::min(bytes, left_);
    std::memcpy(&value, data_, bytes);
    skip(bytes);
    return value;
  }
  std::size_t copy(std::byte* to, std::size_t bytes) {
    bytes = std::min(bytes, left_);
    if (bytes) std::memcpy(to, data_, bytes);
    skip(bytes);
    return bytes;
  }

 private:
  void skip(std::size_t bytes) { data_ += bytes, left_ -= bytes; }
  const std::uint8_t* data_;
  std::size_t left_;
};

void read_all(RingReader& reader) {
  RingReader::Message message;
  for (int n = 0; n < 64 && reader.next(message) == RingReader::Outcome::kMessage; ++n) {
    if (!is_valid(message.header) || message.payload.size() != message.header.payload_size) std::abort();
    unsigned sum = 0;
    for (std::byte b : message.payload) sum += static_cast<unsigned>(b);
    asm volatile("" ::"r"(sum));  // the bytes are really read
  }
  reader.release();
  reader.take_space_request();
}

// A record head whose fields are near what they should be: random bytes seldom get so far.
void plant_record(Input& input, std::byte* data, std::size_t capacity) {
  const std::size_t at = input.number(2) % (capacity / 8) * 8;
  const std::uint32_t size = static_cast<std::uint32_t>(input.number(2));
  const std::uint32_t kind = static_cast<std::uint32_t>(input.number(1) % 6);
  std::memcpy(data + at, &size, 4);
  std::memcpy(data + at + 4, &kind, 4);
  if (at + kRecordHead + sizeof(FrameHeader) > capacity) return;
  FrameHeader header;
  header.payload_size = static_cast<std::uint32_t>(input.number(2));
  std::memcpy(data + at + kRecordHead, &header, sizeof(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::size_t kCapacity = kRingMin;
  auto control = std::make_unique<RingControl>();
  // Records stand at multiples of 8 in both processes: the mapping is page-aligned, new[] is aligned to 16.
  std::unique_ptr<std::byte[]> data(new std::byte[kCapacity]());
  const RingView view{control.get(), data.get(), kCapacity};
  RingWriter writer(view);
  RingReader reader(view);
  const std::unique_ptr<std::byte[]> payload(new std::byte[20000]());

  for (Input input(bytes, size); !input.empty();) {
    switch (input.number(1) % 8) {
      case 0: control->tail.store(input.number(8)); break;
      case 1: control->tail.store(control->tail.load() + input.number(2)); break;
      case 2: control->head.store(input.number(8)); break;
      case 3: {
        const std::size_t at = input.number(2) % kCapacity;
        input.copy(data.get() + at, std::min<std::size_t>(input.number(1), kCapacity - at));
        break;
      }
      case 4:
      case 5: plant_record(input, data.get(), kCapacity); break;
      case 6: {
        const std::size_t length = input.number(2) % 20000;
        const ByteView piece{payload.get(), length};
        PieceCursor cursor({&piece, 1});
        FrameHeader header;
        header.payload_size = static_cast<std::uint32_t>(length);
        std::size_t sent = 0;
        bool started = false;
        if (writer.write(header, cursor, sent, started) == RingWriter::Outcome::kDone) writer.publish();
        break;
      }
      default: read_all(reader);
    }
  }
  read_all(reader);
  return 0;
}
