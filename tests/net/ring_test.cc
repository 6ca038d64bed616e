// Promises RG-1 to RG-5 and FR-2, on one ring in ordinary shared memory.
#include "core/net/ring/ring.h"

#include <fstream>
#include <random>
#include <thread>

#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

class Ring : public ::testing::Test {
 protected:
  explicit Ring(std::size_t ring_bytes = kRingMin)
      : pair_(open_ring_pair(std::move(create_ring_pair(ring_bytes)).value().get()).value()),
        writer_(pair_.ring[0]),
        reader_(pair_.ring[0]) {}

  RingWriter::Outcome write(std::string_view payload, std::uint64_t token = 0) {
    ByteView piece = bytes_of(payload);
    PieceCursor cursor({&piece, 1});
    FrameHeader header{.payload_size = static_cast<std::uint32_t>(payload.size()), .token = token};
    std::size_t sent = 0;
    bool started = false;
    const auto outcome = writer_.write(header, cursor, sent, started);
    writer_.publish();
    return outcome;
  }
  RingReader::Outcome read() { return reader_.next(message_); }
  void publish_raw(ByteView bytes) {  // as a corrupt peer would
    std::memcpy(pair_.ring[0].data, bytes.data(), bytes.size());
    pair_.ring[0].control->tail.store(bytes.size());
  }
  void publish_record(std::uint32_t kind, std::uint32_t size, const FrameHeader& header, std::size_t published) {
    std::vector<std::byte> bytes(std::max<std::size_t>(published, 128));
    std::memcpy(bytes.data(), &size, 4);
    std::memcpy(bytes.data() + 4, &kind, 4);
    std::memcpy(bytes.data() + 8, &header, sizeof(header));
    publish_raw({bytes.data(), published});
  }
  void expect_corrupt(const char* defect) {
    EXPECT_EQ(read(), RingReader::Outcome::kCorrupt);
    EXPECT_STREQ(reader_.defect(), defect);
    EXPECT_EQ(read(), RingReader::Outcome::kCorrupt) << "a damaged ring stays damaged";
  }

  PairMapping pair_;
  RingWriter writer_;
  RingReader reader_;
  RingReader::Message message_;
};

TEST_F(Ring, GivesMessagesWholeAndInOrderAcrossManyWraps) {
  std::mt19937 random(7);
  std::size_t written = 0, read_count = 0;
  std::vector<std::size_t> sizes;
  while (read_count < 5000) {
    const std::size_t size = random() % 3 == 0 ? random() % 7000 : random() % 200;
    if (written < 5000 && write(pattern(size, written), written) == RingWriter::Outcome::kDone) {
      sizes.push_back(size);
      ++written;
      continue;
    }
    for (unsigned n = 1 + random() % 8; n > 0 && read() == RingReader::Outcome::kMessage; --n) {
      ASSERT_EQ(message_.header.token, read_count);
      ASSERT_EQ(text_of(message_.payload), pattern(sizes[read_count], read_count));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(message_.payload.data()) % 8, 0u);
      ++read_count;
    }
    reader_.release();
  }
  EXPECT_GT(pair_.ring[0].control->tail.load(), 100 * pair_.ring[0].capacity);
}

TEST_F(Ring, CutsLongMessagesAndJoinsThem) {
  const std::string payload = pattern(1 << 20, 3);
  ByteView pieces[] = {
      bytes_of(payload).first(10), {}, bytes_of(payload).subspan(10, 9000), bytes_of(payload).subspan(9010)};
  PieceCursor cursor(pieces);
  FrameHeader header{.payload_size = static_cast<std::uint32_t>(payload.size()), .token = 9};
  std::size_t sent = 0;
  bool started = false;
  int rounds = 0;
  while (writer_.write(header, cursor, sent, started) == RingWriter::Outcome::kFull) {
    ASSERT_EQ(read(), RingReader::Outcome::kEmpty) << "nothing is given before it is whole (RG-4)";
    reader_.release();
    ++rounds;
  }
  writer_.publish();
  ASSERT_EQ(read(), RingReader::Outcome::kMessage);
  EXPECT_EQ(message_.header.token, 9u);
  EXPECT_TRUE(text_of(message_.payload) == payload);
  EXPECT_GT(rounds, 60);
  ASSERT_EQ(write("next", 10), RingWriter::Outcome::kDone);
  ASSERT_EQ(read(), RingReader::Outcome::kMessage);
  EXPECT_EQ(text_of(message_.payload), "next");
}

TEST_F(Ring, EveryRecordSizeFitsAnEmptyRingWhereverItStands) {
  const std::size_t largest = kRecordMax - kRecordHead - sizeof(FrameHeader);
  for (std::size_t step = 0; step < 3000; ++step) {
    const std::size_t size = step % 2 ? largest : (step * 8) % 4096;
    ASSERT_EQ(write(pattern(size, step)), RingWriter::Outcome::kDone) << "step " << step;
    ASSERT_EQ(read(), RingReader::Outcome::kMessage);
    ASSERT_EQ(message_.payload.size(), size);
    reader_.release();
  }
}

TEST_F(Ring, AFullRingAsksForSpaceAndIsToldWhenHalfIsFree) {
  while (write(pattern(1000, 1)) == RingWriter::Outcome::kDone) {}
  EXPECT_FALSE(reader_.take_space_request()) << "nothing is free yet";
  int taken = 0;
  while (!reader_.take_space_request()) {
    ASSERT_EQ(read(), RingReader::Outcome::kMessage);
    reader_.release();
    ++taken;
  }
  EXPECT_GE(taken, 7);
  EXPECT_LE(taken, 9);
  EXPECT_FALSE(reader_.take_space_request()) << "told once";
  EXPECT_EQ(write("x"), RingWriter::Outcome::kDone);
}

TEST_F(Ring, NothingIsVisibleBeforeItIsPublished) {
  ByteView piece = bytes_of("abc");
  PieceCursor cursor({&piece, 1});
  std::size_t sent = 0;
  bool started = false;
  ASSERT_EQ(writer_.write({.payload_size = 3}, cursor, sent, started), RingWriter::Outcome::kDone);
  EXPECT_TRUE(reader_.empty());
  EXPECT_EQ(read(), RingReader::Outcome::kEmpty);
  writer_.publish();
  EXPECT_FALSE(reader_.empty());
  EXPECT_EQ(read(), RingReader::Outcome::kMessage);
}

// ---- a peer that writes nonsense (RG-2)

TEST_F(Ring, RefusesWritePositionsThatCannotBe) {
  for (std::uint64_t tail : {pair_.ring[0].capacity + 8, std::uint64_t{12}, ~std::uint64_t{7}}) {
    RingReader reader(pair_.ring[0]);
    pair_.ring[0].control->tail.store(tail);
    EXPECT_EQ(reader.next(message_), RingReader::Outcome::kCorrupt) << tail;
    EXPECT_STREQ(reader.defect(), "the write position is impossible");
  }
}

TEST_F(Ring, RefusesReadPositionsThatCannotBe) {
  for (std::uint64_t head : {std::uint64_t{1} << 40, std::uint64_t{12}, ~std::uint64_t{7}}) {
    RingWriter writer(pair_.ring[0]);
    pair_.ring[0].control->head.store(head);
    const std::string payload(4000, 'x');
    auto outcome = RingWriter::Outcome::kDone;
    for (int i = 0; i < 10 && outcome == RingWriter::Outcome::kDone; ++i) {
      ByteView piece = bytes_of(payload);
      PieceCursor cursor({&piece, 1});
      std::size_t sent = 0;
      bool started = false;
      outcome = writer.write({.payload_size = 4000}, cursor, sent, started);
    }
    EXPECT_EQ(outcome, RingWriter::Outcome::kCorrupt) << head;
  }
}

TEST_F(Ring, RefusesARecordLongerThanWhatIsPublished) {
  publish_record(1, 4096, {.payload_size = 4032}, 128);
  expect_corrupt("a record passes what is published");
}
TEST_F(Ring, RefusesARecordWhoseSizeWrapsAround) {
  publish_record(1, 0xFFFFFFFF, {}, 128);
  expect_corrupt("a record passes what is published");
}
TEST_F(Ring, RefusesARecordAboveTheLimit) {
  publish_record(1, kRecordMax + 8, {.payload_size = kRecordMax + 8 - 64}, 2 * kRecordMax);
  expect_corrupt("a record is too long");
}
TEST_F(Ring, RefusesARecordWithoutRoomForAHeader) {
  publish_record(1, 40, {}, 48);
  expect_corrupt("a record is too short for a header");
}
TEST_F(Ring, RefusesAPayloadSizeThatIsNotTheRecords) {
  publish_record(1, 72, {.payload_size = 9}, 80);
  expect_corrupt("payload size and record size differ");
}
TEST_F(Ring, RefusesAHeaderOfAnotherVersion) {
  publish_record(1, 64, {.version = 7}, 72);
  expect_corrupt("a frame header is not valid");
}
TEST_F(Ring, RefusesAFirstFragmentAboveTheLargestMessage) {
  publish_record(2, 72, {.payload_size = kPayloadMax + 1}, 80);
  expect_corrupt("a frame header is not valid");
}
long resident_pages() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

// A first fragment's word reserves addresses; pages come with the bytes that do.
TEST(RingMemory, AClaimedSizeTakesNoMemoryBeforeItsBytesCome) {
  const std::string piece(1000, 'x');
  const long before = resident_pages();
  std::vector<PairMapping> pairs;
  std::vector<RingReader> readers;
  for (int i = 0; i < 50; ++i) {
    pairs.push_back(open_ring_pair(std::move(create_ring_pair(kRingMin)).value().get()).value());
    const FrameHeader header{.payload_size = kPayloadMax};
    std::byte* to = pairs.back().ring[0].data;
    const std::uint32_t size = sizeof header + 1000, first = 2;
    std::memcpy(to, &size, 4);
    std::memcpy(to + 4, &first, 4);
    std::memcpy(to + 8, &header, sizeof header);
    std::memcpy(to + 8 + sizeof header, piece.data(), piece.size());
    pairs.back().ring[0].control->tail.store(8 + (size + 7) / 8 * 8);
    readers.emplace_back(pairs.back().ring[0]);
    RingReader::Message message;
    ASSERT_EQ(readers.back().next(message), RingReader::Outcome::kEmpty) << readers.back().defect();
  }
#if defined(__SANITIZE_THREAD__)
  const long most = 16 << 20;  // its own memory for what is touched is counted too: 9 MiB in all
#else
  const long most = 8 << 20;
#endif
  EXPECT_LT((resident_pages() - before) * 4096, most) << "of 3.1 GiB that were claimed";
}

TEST_F(Ring, RefusesAFragmentOutOfPlace) {
  publish_record(3, 64, {}, 72);
  expect_corrupt("a fragment without a beginning");
}
TEST_F(Ring, RefusesUnknownKinds) {
  publish_record(9, 64, {}, 72);
  expect_corrupt("a record of unknown kind");
}
TEST_F(Ring, RefusesAPadInTheMiddle) {
  publish_record(4, 64, {}, 72);
  expect_corrupt("a pad that does not end the buffer");
}

TEST(RingPair, RefusesSizesAndMemoryThatAreNoPair) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1000}, kRingMin / 2, kRingMin + 8, 2 * kRingMax}) {
    EXPECT_FALSE(create_ring_pair(size).ok()) << size;
  }
  EXPECT_FALSE(open_ring_pair(-1).ok());
  UniqueFd zeros = std::move(create_shared("zeros", kPairHeaderBytes + 2 * kRingMin)).value();
  EXPECT_FALSE(open_ring_pair(zeros.get()).ok()) << "right size, no magic";
  UniqueFd pair = std::move(create_ring_pair(kRingMin)).value();
  EXPECT_EQ(::ftruncate(pair.get(), 4096), -1) << "nobody can take memory away under a reader";
  PairMapping mapping = open_ring_pair(pair.get()).value();
  reinterpret_cast<PairHeader*>(mapping.memory.data())->ring_bytes = 2 * kRingMin;
  EXPECT_FALSE(open_ring_pair(pair.get()).ok()) << "a size that is not the memory's";
}

TEST(Frame, HeadersAreCheckedBeforeUse) {
  EXPECT_TRUE(validate(FrameHeader{}).ok());
  EXPECT_FALSE(validate(FrameHeader{.version = 0}).ok());
  EXPECT_FALSE(validate(FrameHeader{.payload_size = kPayloadMax + 1}).ok());
  EXPECT_FALSE(validate(FrameHeader{.reserved = 1}).ok());
  const FrameHeader header{.kind = 3, .payload_size = 5, .token = 8};
  const auto bytes = std::as_bytes(std::span(&header, 1));
  EXPECT_EQ(decode_header(bytes).value().token, 8u);
  EXPECT_FALSE(decode_header(bytes.first(63)).ok());
}

// ---- two threads

TEST(RingThreads, CarryMixedSizesFromOneThreadToAnother) {
  PairMapping pair = open_ring_pair(std::move(create_ring_pair(kRingMin)).value().get()).value();
  constexpr std::uint64_t kMessages = 20000;
  auto size_of = [](std::uint64_t n) { return n % 97 == 0 ? std::size_t{30000} : (n * 37) % 500; };
  std::thread producer([&] {
    RingWriter writer(pair.ring[0]);
    for (std::uint64_t n = 0; n < kMessages; ++n) {
      const std::string payload = pattern(size_of(n), n);
      ByteView piece = bytes_of(payload);
      PieceCursor cursor({&piece, 1});
      std::size_t sent = 0;
      bool started = false;
      const FrameHeader header{.payload_size = static_cast<std::uint32_t>(payload.size()), .token = n};
      while (writer.write(header, cursor, sent, started) == RingWriter::Outcome::kFull) std::this_thread::yield();
      writer.publish();
    }
  });
  RingReader reader(pair.ring[0]);
  for (std::uint64_t n = 0; n < kMessages;) {
    RingReader::Message message;
    const auto outcome = reader.next(message);
    ASSERT_NE(outcome, RingReader::Outcome::kCorrupt) << reader.defect();
    if (outcome == RingReader::Outcome::kEmpty) {
      reader.release();
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(message.header.token, n);
    ASSERT_TRUE(text_of(message.payload) == pattern(size_of(n), n)) << n;
    ++n;
  }
  producer.join();
}

}  // namespace
}  // namespace troupe::net::testing
