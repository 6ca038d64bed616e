// Who counts as a borrower of an object, and for how long (OW-2).
#include <gtest/gtest.h>

#include "bench.h"

namespace troupe::worker {
namespace {

using namespace std::chrono_literals;

constexpr ProcessId kSender{1, 7}, kReceiver{1, 8}, kFar{2, 9};

/// An object of this process that nobody here holds, and that the sender borrows.
class DeadBorrowerTest : public ::testing::Test {
 protected:
  DeadBorrowerTest() {
    bench_.attached_peers.insert({kSender, kReceiver});
    CoreLock lock(bench_.core);
    const auto made = detail::ObjectPtr::adopt(bench_.core.objects().make_owned());
    bench_.core.objects().grant(entry_of(made), kSender);
    id_ = entry_of(made).id;
  }
  void sender_dies() {
    wire::ProcessDied died;
    died.process = kSender;
    bench_.notice(wire::Method::kProcessDied, died);
  }
  /// The sender had passed the ref on, and this one has taken it in.
  void borrow(ProcessId borrower) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kControl);
    header.arg0 = std::uint64_t(Control::kBorrow);
    header.source = borrower;
    std::vector<std::byte> payload(sizeof id_);
    std::memcpy(payload.data(), &id_, sizeof id_);
    bench_.deliver(borrower.node == 1 ? borrower : Bench::kDaemon, header, payload);
  }
  void release(ProcessId borrower) {
    CoreLock lock(bench_.core);
    bench_.core.objects().released(borrower, id_, 1);
  }
  bool is_there() {
    CoreLock lock(bench_.core);
    return bench_.core.objects().knows(id_);
  }
  Bench bench_;
  ObjectId id_;
};

/// The news of the death was faster, be it by far: the object was gone when the borrow came. (OW-4)
TEST_F(DeadBorrowerTest, OW2_CountsForAGraceAndWhoeverGotTheRefFromItIsCountedMeanwhile) {
  sender_dies();
  bench_.advance(kBorrowGrace - 1ms);
  ASSERT_TRUE(is_there());
  borrow(kReceiver);
  borrow(kFar);
  bench_.advance(10 * kBorrowGrace);
  release(kReceiver);
  EXPECT_TRUE(is_there());
  release(kFar);
  EXPECT_FALSE(is_there()) << "the dead one counts no more";
}

TEST_F(DeadBorrowerTest, OW2_WithoutAnotherOneItsObjectsGoAfterTheGrace) {
  sender_dies();
  bench_.advance(kBorrowGrace - 1ms);
  EXPECT_TRUE(is_there());
  bench_.advance(1ms);
  EXPECT_FALSE(is_there());
  CoreLock lock(bench_.core);
  EXPECT_FALSE(bench_.core.objects().has_borrowers()) << "a worker that owned it may retire";
}

/// Whoever asked for what is pending hears of the end of this process, not of the loss of one object.
TEST_F(DeadBorrowerTest, WhoAskedHearsNothingFromAProcessThatIsTakenApart) {
  net::FrameHeader question;
  question.kind = std::uint8_t(wire::FrameKind::kValueRequest);
  question.source = kReceiver;
  std::vector<std::byte> payload(sizeof id_);
  std::memcpy(payload.data(), &id_, sizeof id_);
  bench_.deliver(kReceiver, question, payload);
  {
    CoreLock lock(bench_.core);
    bench_.core.owner().clear();
  }
  EXPECT_FALSE(is_there());
  EXPECT_TRUE(bench_.take_kind(wire::FrameKind::kValue).empty());
}

TEST_F(DeadBorrowerTest, OW2_OfADeadNodeToo) {
  borrow(kFar);
  release(kSender);
  wire::NodeDied died;
  died.node = kFar.node;
  bench_.notice(wire::Method::kNodeDied, died);
  EXPECT_TRUE(is_there());
  bench_.advance(kBorrowGrace);
  EXPECT_FALSE(is_there());
}

}  // namespace
}  // namespace troupe::worker
