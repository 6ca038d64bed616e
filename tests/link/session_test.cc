// NSE-1 to NSE-5 of net/link/session.h: two sessions over links that break at any byte's border between frames, from a
//       seed.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "core/net/link/session.h"

namespace troupe::net {
namespace {

using Bytes = std::vector<std::byte>;

/// One side: what it delivers, and what it puts on links.
struct Side : SessionOutput {
  Side(std::uint64_t self, SessionOptions options = {}) : incarnation(self), session(self, 0, *this, options) {}
  void transmit(std::uint64_t link, ByteView frames) override {
    if (!lines.contains(link) || broken.contains(link)) return;  // it broke meanwhile: the bytes are lost
    FrameHeader header;
    std::memcpy(&header, frames.data(), sizeof header);
    if (header.kind != kSessionKind) given.insert(header.token);
    lines[link].emplace_back(frames.begin(), frames.end());
  }
  void deliver(const FrameHeader& header, ByteView payload) override {
    got.push_back(header.token);
    bytes += payload.size();
    EXPECT_EQ(payload.size(), header.token % 50);
  }
  void send(std::uint64_t number) {
    FrameHeader header;
    header.kind = 1;
    header.token = number;
    const Bytes payload(number % 50);
    session.send(header, payload);
  }
  const std::uint64_t incarnation;
  Session session;
  std::map<std::uint64_t, std::deque<Bytes>> lines;  // what is under way from here, by link
  std::set<std::uint64_t> broken;                    // links that take nothing more, whether or not a side knows
  std::vector<std::uint64_t> got;
  std::set<std::uint64_t> given;
  std::size_t bytes = 0;
};

Session::Took take(Side& to, std::uint64_t link, const Bytes& frame) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  return to.session.receive(link, header, ByteView(frame).subspan(sizeof header));
}

struct Two {
  explicit Two(SessionOptions options = {}) : a(1001, options), b(1002, options) {}
  void open(std::uint64_t link) {
    for (Side* side : {&a, &b}) side->lines[link];
    EXPECT_TRUE(a.session.identify(b.incarnation));
    EXPECT_TRUE(b.session.identify(a.incarnation));
  }
  void close(std::uint64_t link) {
    for (Side* side : {&a, &b}) {
      side->lines.erase(link);
      side->session.link_down(link);
    }
  }
  bool step(Side& from, Side& to, std::uint64_t link) {
    auto line = from.lines.find(link);
    if (line == from.lines.end() || line->second.empty()) return false;
    const Bytes frame = std::move(line->second.front());
    line->second.pop_front();
    const auto took = take(to, link, frame);
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    const bool begins = header.kind == kSessionKind && header.token == 1;
    const bool given_up = begins && from.session.out_link() != link;
    if (lags && took == Session::Took::kViolation && (given_up || from.broken.contains(link))) {
      if (given_up) ++late;
      line->second.clear();  // who hears it closes the link
      for (Side* side : {&a, &b}) side->broken.insert(link);
      return true;
    }
    EXPECT_NE(took, Session::Took::kViolation);
    EXPECT_NE(took, Session::Took::kOutside);
    return true;
  }
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [link, unused] : std::map(a.lines)) moved = step(a, b, link) || step(b, a, link) || moved;
    }
  }
  Side a, b;
  bool lags = false;       // a Begin may come too late
  std::uint64_t late = 0;  // how many did
};

void expect_in_order(const Side& side, std::uint64_t count) {
  ASSERT_EQ(side.got.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(side.got[i], i);
}

TEST(Session, NSE1_FramesSentBeforeTheFirstLinkGoAtOnce) {
  Two two;
  for (std::uint64_t i = 0; i < 10; ++i) two.a.send(i);
  two.open(1);
  two.a.session.link_up(1);
  EXPECT_EQ(two.a.lines[1].size(), 11u) << "Begin and the frames, without a round trip";
  two.settle();
  expect_in_order(two.b, 10);
}

// A side that was killed and is started again as itself: it noted what it was given, sent, and heard acknowledged.
TEST(Session, NSE1_OneThatIsRebuiltFromItsNotesGoesOn) {
  for (std::size_t survived = 0; survived <= 30; ++survived) {
    Two two({.ack_frames = 4});
    two.open(1);
    two.a.session.link_up(1);
    two.b.session.link_up(1);
    for (std::uint64_t i = 0; i < 10; ++i) two.a.send(i);
    for (std::uint64_t i = 0; i < 10; ++i) two.b.send(i);
    for (std::size_t i = 0; i < survived; ++i) (void)(two.step(two.b, two.a, 1) || two.step(two.a, two.b, 1));
    Side again(two.a.incarnation, {.ack_frames = 4});
    ASSERT_TRUE(again.session.identify(two.b.incarnation));
    for (std::uint64_t i = 0; i < 10; ++i) again.send(i);
    for (std::uint64_t number : two.a.got) {
      again.session.count_delivered();
      again.got.push_back(number);
    }
    ASSERT_TRUE(again.session.restore_acknowledged(two.a.session.acknowledged_frames()));
    again.session.presume_given();
    EXPECT_FALSE(again.session.restore_acknowledged(11)) << "so many were never sent";
    again.send(10);
    two.b.send(10);
    two.b.lines.erase(1);
    two.b.session.link_down(1);
    const auto deliver = [](Side& from, Side& to) {
      auto line = std::exchange(from.lines[2], {});
      for (const Bytes& frame : line) EXPECT_NE(take(to, 2, frame), Session::Took::kViolation);
      return !line.empty();
    };
    again.lines[2];
    two.b.lines[2];
    again.session.link_up(2);
    two.b.session.link_up(2);
    while (deliver(again, two.b) | deliver(two.b, again)) {}
    expect_in_order(two.b, 11);
    expect_in_order(again, 11);
  }
}

TEST(Session, NSE1_WhatALinkLostComesAgainOnTheNext) {
  for (std::size_t survived = 0; survived <= 21; ++survived) {
    Two two({.ack_frames = 4});
    two.open(1);
    two.a.session.link_up(1);
    for (std::uint64_t i = 0; i < 20; ++i) two.a.send(i);
    for (std::size_t i = 0; i < survived; ++i) two.step(two.a, two.b, 1);
    two.close(1);
    for (std::uint64_t i = 20; i < 25; ++i) two.a.send(i);
    two.open(2);
    two.a.session.link_up(2);
    two.settle();
    expect_in_order(two.b, 25);
  }
}

// Seeded: frames both ways, links that come, go in the middle of anything, and overlap.
TEST(Session, NSE1_NSE2_AnyOrderOfBreaksGivesEachFrameOnceInOrder) {
  std::uint64_t resent = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    Two two({.ack_frames = 1 + random() % 40, .ack_bytes = 1 + random() % 4000});
    std::uint64_t next_link = 1, from_a = 0, from_b = 0;
    std::vector<std::uint64_t> open;
    const auto any = [&] { return open[random() % open.size()]; };
    for (int i = 0; i < 400; ++i) {
      const auto what = random() % 100;
      if (what < 30) two.a.send(from_a++);
      else if (what < 50) two.b.send(from_b++);
      else if (what < 85 && !open.empty()) random() % 2 ? two.step(two.a, two.b, any()) : two.step(two.b, two.a, any());
      else if (what < 93 && open.size() < 3) {
        two.open(next_link);
        open.push_back(next_link);
        if (two.a.session.out_link() == 0 && random() % 4) two.a.session.link_up(next_link);
        if (two.b.session.out_link() == 0 && random() % 4) two.b.session.link_up(next_link);
        ++next_link;
      } else if (!open.empty()) {
        const std::uint64_t link = any();
        two.close(link);
        std::erase(open, link);
      }
    }
    two.open(next_link);
    if (two.a.session.out_link() == 0) two.a.session.link_up(next_link);
    if (two.b.session.out_link() == 0) two.b.session.link_up(next_link);
    two.settle();
    expect_in_order(two.b, from_a);
    expect_in_order(two.a, from_b);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
    resent += next_link;
  }
  EXPECT_GT(resent, 2000u) << "links did break";
}

// Each side sees a link's end at its own time, after what was still under way to it: a side may have begun on the next
// link, and been heard there, before the peer hears what it said first on the one before.
struct Lagging : Two {
  struct Link { bool a_sees = true, b_sees = true; };
  explicit Lagging(std::uint64_t seed) : Two({.ack_frames = 4}), random(seed) { lags = true; }
  void dial() {
    open(last + 1);
    links[++last];
  }
  /// On some link that it sees and has not begun on.
  void begin(Side& side) {
    std::vector<std::uint64_t> able;
    for (const auto& [id, link] : links)
      if (sees(link, side) && !begun.contains({&side, id})) able.push_back(id);
    // The head goes over to a node's new link also while it has the old one.
    if (able.empty() || (side.session.out_link() != 0 && random() % 8 != 0)) return;
    const std::uint64_t id = able[random() % able.size()];
    begun.insert({&side, id});
    side.session.link_up(id);
  }
  void break_off(std::uint64_t id) {
    for (Side* side : {&a, &b})
      if (auto& line = side->lines[id]; side->broken.insert(id).second && random() % 2)
        line.resize(random() % (line.size() + 1));
  }
  /// What comes next on the link: a frame, or its end.
  bool advance(Side& from, Side& to, std::uint64_t id) {
    Link& link = links[id];
    if (!sees(link, to)) return false;
    if (step(from, to, id)) return true;
    if (!from.broken.contains(id)) return false;
    sees(link, to) = false;
    to.session.link_down(id);
    return true;
  }
  bool& sees(Link& link, const Side& side) { return &side == &a ? link.a_sees : link.b_sees; }
  bool sees(const Link& link, const Side& side) { return &side == &a ? link.a_sees : link.b_sees; }
  std::mt19937_64 random;
  std::map<std::uint64_t, Link> links;
  std::set<std::pair<const Side*, std::uint64_t>> begun;
  std::uint64_t last = 0;
};

TEST(Session, NSE1_NSE2_WhoeverSeesTheEndOfALinkFirst) {
  std::uint64_t late = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    Lagging two(seed);
    std::uint64_t from_a = 0, from_b = 0;
    for (int i = 0; i < 200; ++i) {
      const auto what = two.random() % 100;
      const std::uint64_t link = two.last == 0 ? 0 : two.last - two.random() % std::min<std::uint64_t>(two.last, 3);
      if (what < 20) two.a.send(from_a++);
      else if (what < 30) two.b.send(from_b++);
      else if (what < 40) two.begin(two.a);
      else if (what < 50) two.begin(two.b);
      else if (what < 60) two.dial();
      else if (link == 0) continue;
      else if (what < 68) two.break_off(link);
      else if (two.random() % 2) two.advance(two.a, two.b, link);
      else two.advance(two.b, two.a, link);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Side* side : {&two.a, &two.b}) {
        if (side->session.out_link() == 0) two.dial();
        two.begin(*side);
      }
      for (std::uint64_t link = 1; link <= two.last; ++link)
        while (two.advance(two.a, two.b, link) | two.advance(two.b, two.a, link)) moved = true;
    }
    expect_in_order(two.b, from_a);
    expect_in_order(two.a, from_b);
    if (HasFailure()) FAIL() << "seed " << seed;
    late += two.late;
  }
  EXPECT_GT(late, 100u) << "Begins were overtaken";
}

TEST(Session, NSE3_TheEndNamesExactlyWhatNoLinkWasGiven) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    Two two;
    std::uint64_t next_link = 1, sent = 0;
    for (int i = 0; i < 60; ++i) {
      const auto what = random() % 10;
      if (what < 6) two.a.send(sent++);
      else if (what < 8) two.step(two.a, two.b, next_link - 1) || two.step(two.b, two.a, next_link - 1);
      else if (two.a.session.out_link() != 0) two.close(two.a.session.out_link());
      else {
        two.open(next_link);
        two.a.session.link_up(next_link++);
      }
    }
    std::set<std::uint64_t> never;
    for (const FrameHeader& header : two.a.session.end()) never.insert(header.token);
    for (std::uint64_t i = 0; i < sent; ++i)
      EXPECT_NE(never.contains(i), two.a.given.contains(i)) << "seed " << seed << ", frame " << i;
    EXPECT_TRUE(two.a.session.idle());
  }
}

TEST(Session, NSE4_WhatIsKeptIsBoundedAndFreedByAcknowledgements) {
  Two two({.kept_bytes_max = 10'000, .ack_frames = 1});
  std::uint64_t sent = 0;
  while (!two.a.session.is_full()) two.a.send(sent++);
  EXPECT_LE(two.a.session.kept_bytes(), 10'000 + sizeof(FrameHeader) + 50);
  two.open(1);
  two.a.session.link_up(1);
  two.settle();
  EXPECT_FALSE(two.a.session.is_full());
  EXPECT_TRUE(two.a.session.idle());
  expect_in_order(two.b, sent);
}

TEST(Session, NSE5_AnotherIncarnationOrANumberThatCannotBeIsAViolation) {
  Two two;
  two.open(1);
  EXPECT_FALSE(two.a.session.identify(77)) << "a successor on the port";
  two.a.session.link_up(1);
  for (std::uint64_t i = 0; i < 5; ++i) two.a.send(i);
  two.settle();
  const auto say = [&](std::uint64_t what, std::uint64_t number, std::uint64_t self, std::uint64_t peer,
                       std::uint32_t begins = 0, std::uint64_t link = 1) {
    FrameHeader header;
    header.kind = kSessionKind;
    header.token = what;
    header.arg0 = number;
    header.arg1 = self;
    header.arg2 = peer;
    header.arg3 = begins;
    return two.a.session.receive(link, header, {});
  };
  const auto kViolation = Session::Took::kViolation;
  EXPECT_EQ(say(3, 6, 1002, 1001), kViolation) << "an acknowledgement of what was never sent";
  EXPECT_EQ(say(3, 2, 1003, 1001), kViolation) << "of another incarnation";
  EXPECT_EQ(say(2, 0, 1002, 1001), kViolation) << "nobody asked";
  EXPECT_EQ(say(1, 1, 1002, 1001), kViolation) << "frames between are missing";
  EXPECT_EQ(say(1, 0, 1002, 999), kViolation) << "meant for a predecessor";
  EXPECT_EQ(say(9, 0, 1002, 1001), kViolation);
  EXPECT_EQ(say(3, 5, 1002, 1001), Session::Took::kControl);
  EXPECT_TRUE(two.a.session.idle());
  EXPECT_EQ(say(1, 0, 1002, 1001, 2 << 1 | 1), Session::Took::kControl);
  EXPECT_EQ(say(1, 0, 1002, 1001, 3 << 1 | 1), kViolation) << "a link begins once";
  EXPECT_EQ(say(1, 0, 1002, 1001, 2 << 1 | 1, 2), kViolation) << "two links with the same count";
  EXPECT_EQ(say(1, 0, 1002, 1001, 1 << 1 | 1, 3), kViolation) << "it was overtaken";
  EXPECT_EQ(say(1, 0, 1002, 1001, 3 << 1 | 1, 3), kViolation) << "a link begins once, also one that was overtaken";
  FrameHeader header;
  header.kind = 1;
  EXPECT_EQ(two.a.session.receive(3, header, {}), Session::Took::kStale);
  EXPECT_EQ(two.a.session.receive(1, header, {}), Session::Took::kDelivered) << "the newer link goes on";
}

}  // namespace
}  // namespace troupe::net
