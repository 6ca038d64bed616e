// A ring of shared memory that carries messages from one process to another: one producer, one consumer.
//
// Layout. Positions count bytes since the ring was made and never wrap (64 bits); the place in the buffer is
// position mod capacity. The buffer holds records, each at a multiple of 8, none across the end of the buffer:
//
//     u32 size of the body | u32 kind | body | zeros up to a multiple of 8        at most kRecordMax bytes
//
//     kWhole   body = frame header, payload            a message in one record
//     kFirst   body = frame header, beginning of the payload
//     kNext    body = more of it, until payload_size bytes have come; no other message in between
//     kPad     skips to the end of the buffer
//
//        head (consumer)          tail (producer)
//     ----|####### published #######|....... free .......      0 <= tail - head <= capacity, both multiples of 8
//
// Thread rule: RingWriter by one thread at a time, RingReader by one thread at a time; the two in different processes
// or threads. All shared words are accessed seq_cst where the order between two of them matters: an Endpoint relies on
// "publish, then look at the doorbell" against "change the doorbell, then look at the ring" (one of the two sees the
// other).
//
// Invariants
//   RG-1  Each side keeps its own position in its own memory; it only ever writes it to shared memory, never reads it
//         back.
//   RG-2  What is read of the other side is checked before use: a position must lie between what is known of it and
//         what it can be at most, and be a multiple of 8; a record must lie within what is published and within the
//         buffer; sizes are read once.
//   RG-3  A record is visible wholly or not at all: tail moves after the bytes are there.
//   RG-4  A message in fragments is followed by nothing else until it is whole; payload_size bounds what is gathered.
//   RG-5  A writer that found no room has set space_wanted before it looked a last time; a reader that frees space
//         looks at space_wanted after it moved head. So the writer is told, or saw the room.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/result.h>
#include "core/net/base/frame.h"
#include "core/net/ring/begun.h"
#include "core/net/ring/ring_memory.h"

namespace troupe::net {

inline constexpr std::size_t kRecordMax = 8 * 1024;  ///< a record, its 8 bytes of head included
inline constexpr std::size_t kRecordHead = 8;
inline constexpr std::size_t kRingMin =
    2 * kRecordMax;  ///< an empty ring takes any record wherever it stands: pad + record
inline constexpr std::size_t kRingMax = std::size_t{1} << 20;

enum class RecordKind : std::uint32_t { kWhole = 1, kFirst = 2, kNext = 3, kPad = 4 };

/// The shared words of one ring. 128: two lines, which the prefetcher moves together.
struct RingControl {
  // written by the producer
  alignas(128) std::atomic<std::uint64_t> tail;
  std::atomic<std::uint32_t> space_wanted;  // set by the producer, cleared by the consumer
  // written by the consumer
  alignas(128) std::atomic<std::uint64_t> head;
  SharedBegun begun;  // see Endpoint::set_begun
  std::atomic<std::uint32_t>
      consumer_slot;  // 1 + the ready bit of this pair in the consumer's doorbell; 0: not attached
};
static_assert(sizeof(RingControl) == 256 && std::atomic<std::uint64_t>::is_always_lock_free);

/// First page of a pair; ring 0 is written by side 0 and ring 1 by side 1.
struct PairHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ring_bytes;
  RingControl ring[2];
};
inline constexpr std::uint64_t kPairMagic = 0x31524941'50505254;  // "TRPPAIR1"
inline constexpr std::size_t kPairHeaderBytes = 4096;
static_assert(sizeof(PairHeader) <= kPairHeaderBytes);

/// One ring as both ends see it.
struct RingView {
  RingControl* control = nullptr;
  std::byte* data = nullptr;
  std::size_t capacity = 0;  // a power of two
};

/// A mapped pair.
struct PairMapping {
  SharedMapping memory;
  RingView ring[2];
};
Result<UniqueFd> create_ring_pair(std::size_t ring_bytes);
Result<PairMapping> open_ring_pair(int fd);

/// The bytes of a message while they are copied out: walks over pieces.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const ByteView> pieces) : pieces_(pieces) {}
  /// Copies the next n bytes; there must be that many.
  void copy(std::byte* to, std::size_t n);

 private:
  std::span<const ByteView> pieces_;
  std::size_t offset_ = 0;
};

/// The producing end. A pair is used once in its life: positions begin at 0 (RG-1).
class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(RingView view);

  enum class Outcome { kDone, kFull, kCorrupt };
  /// Writes the message, or as much of it as there is room for. `sent` is the number of payload bytes that earlier
  /// calls wrote of this message (0 at first) and is moved on; `started` likewise says whether its first record is
  /// written. kDone: all of it is written. kFull: call again, with the rest, when there is room.
  Outcome write(const FrameHeader& header, PieceCursor& payload, std::size_t& sent, bool& started);
  /// Makes visible what was written. Full barrier when that is anything (RG-3).
  void publish();
  /// Where the reader may read to. write() may move it: a writer that finds the ring full publishes what it wrote.
  std::uint64_t published() const { return published_; }

  std::size_t capacity() const { return view_.capacity; }
  RingControl& control() const { return *view_.control; }

 private:
  Outcome reserve(std::size_t record);
  std::byte* begin_record(RecordKind kind, std::size_t body);

  RingView view_;
  std::uint64_t tail_ = 0, published_ = 0;
  std::uint64_t head_seen_ = 0;
};

/// The consuming end: gives whole messages.
class RingReader {
 public:
  RingReader() = default;
  explicit RingReader(RingView view);

  struct Message {
    FrameHeader header;
    ByteView payload;  // until next() or release() is called
  };
  enum class Outcome { kMessage, kEmpty, kCorrupt };
  /// The next whole message. kEmpty: nothing more is published, or the rest of a message is still missing.
  Outcome next(Message& message);
  /// Gives the space of the messages taken so far back to the producer. Full barrier.
  void release();
  /// Is nothing published beyond what was taken? (Any thread that may call next.)
  bool empty() const { return view_.control->tail.load(std::memory_order_seq_cst) == head_; }
  /// True once per request of a producer that waits for room, when there is room worth telling of (half of the ring).
  bool take_space_request();
  /// What was wrong when kCorrupt was returned.
  const char* defect() const { return defect_; }

  RingControl& control() const { return *view_.control; }

 private:
  struct Record {
    RecordKind kind;
    const std::byte* body;
    std::size_t size;
  };
  Outcome next_record(Record& record);
  Outcome open_message(const Record& record, Message& message);
  Outcome append(const Record& record, Message& message);
  Outcome corrupt(const char* defect);

  RingView view_;
  std::uint64_t head_ = 0, released_ = 0;
  std::uint64_t tail_seen_ = 0;
  const char* defect_ = nullptr;
  // message in fragments
  FrameHeader partial_{};
  std::unique_ptr<std::byte[]> gathered_;
  std::size_t gathered_bytes_ = 0;
  bool in_fragments_ = false, delivered_ = false;
};

}  // namespace troupe::net
