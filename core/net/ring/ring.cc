#include "core/net/ring/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>

namespace troupe::net {
namespace {

constexpr std::size_t align8(std::size_t n) { return (n + 7) & ~std::size_t{7}; }
constexpr std::size_t kBodyMax = kRecordMax - kRecordHead;
constexpr std::size_t kWholePayloadMax = kBodyMax - sizeof(FrameHeader);

bool is_ring_size(std::size_t bytes) { return std::has_single_bit(bytes) && bytes >= kRingMin && bytes <= kRingMax; }

}  // namespace

// ---- pair

Result<UniqueFd> create_ring_pair(std::size_t ring_bytes) {
  if (!is_ring_size(ring_bytes)) {
    return make_error<InvalidArgumentError>("ring size " + std::to_string(ring_bytes) +
                                            ": must be a power of two from " + std::to_string(kRingMin) + " to " +
                                            std::to_string(kRingMax));
  }
  const std::size_t size = kPairHeaderBytes + 2 * ring_bytes;
  Result<UniqueFd> fd = create_shared("troupe-pair", size);
  if (!fd) return fd;
  Result<SharedMapping> memory = SharedMapping::open(fd->get(), size, size);
  if (!memory) return memory.error_ptr();
  auto* header = new (memory->data()) PairHeader{};
  header->magic = kPairMagic;
  header->version = 1;
  header->ring_bytes = static_cast<std::uint32_t>(ring_bytes);
  return fd;
}

Result<PairMapping> open_ring_pair(int fd) {
  PairMapping pair;
  Result<SharedMapping> memory =
      SharedMapping::open(fd, kPairHeaderBytes + 2 * kRingMin, kPairHeaderBytes + 2 * kRingMax);
  if (!memory) return memory.error_ptr();
  pair.memory = *memory;
  auto* header = reinterpret_cast<PairHeader*>(pair.memory.data());
  const std::size_t ring_bytes = header->ring_bytes;  // read once: the other side can write it
  if (header->magic != kPairMagic || header->version != 1) {
    return make_error<InvalidArgumentError>("shared memory that is no pair of rings");
  }
  if (!is_ring_size(ring_bytes) || pair.memory.size() != kPairHeaderBytes + 2 * ring_bytes) {
    return make_error<InvalidArgumentError>("pair of rings of " + std::to_string(ring_bytes) + " bytes in " +
                                            std::to_string(pair.memory.size()) + " bytes of memory");
  }
  for (std::size_t side = 0; side < 2; ++side) {
    pair.ring[side] = {&header->ring[side], pair.memory.data() + kPairHeaderBytes + side * ring_bytes, ring_bytes};
  }
  return pair;
}

// ---- writer

void PieceCursor::copy(std::byte* to, std::size_t n) {
  while (n > 0) {
    const ByteView& piece = pieces_.front();
    const std::size_t now = std::min(n, piece.size() - offset_);
    if (now > 0) std::memcpy(to, piece.data() + offset_, now);
    to += now;
    n -= now;
    offset_ += now;
    if (offset_ == piece.size()) {
      pieces_ = pieces_.subspan(1);
      offset_ = 0;
    }
  }
}

RingWriter::RingWriter(RingView view) : view_(view) {}

// Room for a record of that many bytes at tail_, after a pad if it would cross the end.
RingWriter::Outcome RingWriter::reserve(std::size_t record) {
  const std::size_t to_end = view_.capacity - (tail_ & (view_.capacity - 1));
  const std::size_t need = record <= to_end ? record : to_end + record;
  auto fits = [&] { return view_.capacity - (tail_ - head_seen_) >= need; };
  auto look = [&](std::memory_order order) {
    const std::uint64_t head = view_.control->head.load(order);
    if (head - head_seen_ > tail_ - head_seen_ || head % 8 != 0) return false;  // RG-2: head_seen_ <= head <= tail_
    head_seen_ = head;
    return true;
  };
  if (!fits()) {
    if (!look(std::memory_order_acquire)) return Outcome::kCorrupt;
    if (!fits()) {
      publish();  // what we wrote before must be seen, or nobody will ever make room
      view_.control->space_wanted.store(1, std::memory_order_seq_cst);  // RG-5
      if (!look(std::memory_order_seq_cst)) return Outcome::kCorrupt;
      if (!fits()) return Outcome::kFull;
    }
  }
  if (record > to_end) { begin_record(RecordKind::kPad, to_end - kRecordHead); }
  return Outcome::kDone;
}

std::byte* RingWriter::begin_record(RecordKind kind, std::size_t body) {
  std::byte* at = view_.data + (tail_ & (view_.capacity - 1));
  const std::uint64_t head = static_cast<std::uint64_t>(kind) << 32 | body;
  std::memcpy(at, &head, sizeof(head));
  tail_ += align8(kRecordHead + body);
  return at + kRecordHead;
}

RingWriter::Outcome RingWriter::write(const FrameHeader& header, PieceCursor& payload, std::size_t& sent,
                                      bool& started) {
  const std::size_t total = header.payload_size;
  if (!started) {
    const std::size_t now = std::min(total, kWholePayloadMax);
    const std::size_t body = sizeof(FrameHeader) + now;
    if (Outcome outcome = reserve(align8(kRecordHead + body)); outcome != Outcome::kDone) return outcome;
    std::byte* to = begin_record(now == total ? RecordKind::kWhole : RecordKind::kFirst, body);
    std::memcpy(to, &header, sizeof(header));
    payload.copy(to + sizeof(header), now);
    started = true;
    sent = now;
  }
  while (sent < total) {
    const std::size_t now = std::min(total - sent, kBodyMax);
    if (Outcome outcome = reserve(align8(kRecordHead + now)); outcome != Outcome::kDone) return outcome;
    payload.copy(begin_record(RecordKind::kNext, now), now);
    sent += now;
  }
  return Outcome::kDone;
}

void RingWriter::publish() {
  if (published_ == tail_) return;
  view_.control->tail.store(tail_, std::memory_order_seq_cst);
  published_ = tail_;
}

// ---- reader

RingReader::RingReader(RingView view) : view_(view) {}

RingReader::Outcome RingReader::corrupt(const char* defect) {
  defect_ = defect;
  return Outcome::kCorrupt;
}

RingReader::Outcome RingReader::next_record(Record& record) {
  for (;;) {
    if (head_ == tail_seen_) {
      const std::uint64_t tail = view_.control->tail.load(std::memory_order_seq_cst);
      if (tail == head_) return Outcome::kEmpty;
      if (tail - head_ > view_.capacity || tail % 8 != 0) return corrupt("the write position is impossible");  // RG-2
      tail_seen_ = tail;
    }
    const std::size_t offset = head_ & (view_.capacity - 1);
    std::uint64_t head;  // read once: RG-2
    std::memcpy(&head, view_.data + offset, sizeof(head));
    asm volatile("" : "+r"(head));
    const std::size_t size = static_cast<std::uint32_t>(head);
    const std::size_t total = align8(kRecordHead + size);
    if (total > tail_seen_ - head_ || total > view_.capacity - offset)
      return corrupt("a record passes what is published");
    const auto kind = static_cast<RecordKind>(head >> 32);
    head_ += total;
    if (kind == RecordKind::kPad) {
      if (offset + total != view_.capacity) return corrupt("a pad that does not end the buffer");
      continue;
    }
    if (total > kRecordMax) return corrupt("a record is too long");
    record = {kind, view_.data + offset + kRecordHead, size};
    return Outcome::kMessage;
  }
}

RingReader::Outcome RingReader::open_message(const Record& record, Message& message) {
  if (in_fragments_) return corrupt("a message begins before the last one was whole");  // RG-4
  if (record.size < sizeof(FrameHeader)) return corrupt("a record is too short for a header");
  FrameHeader header;
  std::memcpy(&header, record.body, sizeof(header));
  asm volatile("" ::: "memory");  // the header is used from our copy, never read again from shared memory
  if (!is_valid(header)) return corrupt("a frame header is not valid");
  const std::size_t here = record.size - sizeof(header);
  if (record.kind == RecordKind::kWhole) {
    if (header.payload_size != here) return corrupt("payload size and record size differ");
    message = {header, {record.body + sizeof(header), here}};
    return Outcome::kMessage;
  }
  if (header.payload_size <= here) return corrupt("a first fragment that is the whole message");
  gathered_.reset(new (std::nothrow) std::byte[header.payload_size]);
  if (!gathered_) return corrupt("no memory for a message in fragments");
  std::memcpy(gathered_.get(), record.body + sizeof(header), here);
  partial_ = header;
  gathered_bytes_ = here;
  in_fragments_ = true;
  return Outcome::kEmpty;
}

RingReader::Outcome RingReader::append(const Record& record, Message& message) {
  if (!in_fragments_) return corrupt("a fragment without a beginning");
  if (record.size == 0 || record.size > partial_.payload_size - gathered_bytes_)
    return corrupt("a fragment is too long");
  std::memcpy(gathered_.get() + gathered_bytes_, record.body, record.size);
  gathered_bytes_ += record.size;
  if (gathered_bytes_ < partial_.payload_size) return Outcome::kEmpty;
  in_fragments_ = false;
  delivered_ = true;
  message = {partial_, {gathered_.get(), gathered_bytes_}};
  return Outcome::kMessage;
}

RingReader::Outcome RingReader::next(Message& message) {
  if (defect_) return Outcome::kCorrupt;
  if (delivered_) {  // the message in fragments that was given last is no longer needed
    delivered_ = false;
    gathered_.reset();
  }
  for (Record record;;) {
    // What was given before this call, and the fragments gathered in it, are done with.
    if (head_ - released_ >= view_.capacity / 4) release();
    if (Outcome outcome = next_record(record); outcome != Outcome::kMessage) return outcome;
    Outcome outcome;
    switch (record.kind) {
      case RecordKind::kWhole:
      case RecordKind::kFirst: outcome = open_message(record, message); break;
      case RecordKind::kNext: outcome = append(record, message); break;
      default: outcome = corrupt("a record of unknown kind");
    }
    if (outcome != Outcome::kEmpty) return outcome;
  }
}

void RingReader::release() {
  if (released_ == head_) return;
  view_.control->head.store(head_, std::memory_order_seq_cst);
  released_ = head_;
}

bool RingReader::take_space_request() {
  auto& wanted = view_.control->space_wanted;
  if (wanted.load(std::memory_order_seq_cst) == 0) return false;
  const std::uint64_t tail = view_.control->tail.load(std::memory_order_acquire);
  if (tail - released_ > view_.capacity / 2) return false;
  return wanted.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace troupe::net
