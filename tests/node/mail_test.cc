// What a daemon does with frames for those who are dead: ML-1.
#include <gtest/gtest.h>

#include "core/node/daemon/mail/mail.h"

namespace troupe::node {
namespace {

constexpr std::uint32_t kHere = 1, kFar = 2, kDead = 3;

/// Links to all nodes but one, which the head declared dead.
class Links final : public LinkPort {
 public:
  struct Sent {
    net::FrameHeader header;
    std::vector<std::byte> payload;
  };
  bool send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) override {
    if (node == kDead) return false;
    sent.push_back({header, {payload.begin(), payload.end()}});
    return true;
  }
  bool is_full(std::uint32_t) const override { return false; }
  std::vector<std::uint32_t> linked() const override { return {kFar}; }
  std::vector<Sent> of(wire::FrameKind kind) {
    std::vector<Sent> found;
    for (const Sent& one : sent)
      if (is(one.header, kind)) found.push_back(one);
    return found;
  }

  std::vector<Sent> sent;
};

/// The simulator's model of a daemon's mail (cores_network.cc) stands on this: seed 7092.
TEST(Mail, ML1_EachRequestForADeadNodeIsAnsweredAndItsDeathToldOnce) {
  const std::unique_ptr<Loop> loop = Loop::create().value();
  const std::unique_ptr<net::Endpoint> endpoint = net::Endpoint::create({.self = daemon_of(kHere)}).value();
  ProcessTable table(kHere);
  Links links;
  Mail mail(*loop, *endpoint, table, links);
  const ProcessId asks{kFar, 5};
  for (std::uint64_t token = 1; token <= 3; ++token) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kRequest);
    header.arg0 = std::uint64_t(wire::Method::kStoreHold);
    header.token = token;
    header.source = asks;
    header.destination = daemon_of(kDead);
    EXPECT_FALSE(mail.route(daemon_of(kFar), header, {})) << "it is not for this daemon";
  }
  const auto answers = links.of(wire::FrameKind::kResponse);
  ASSERT_EQ(answers.size(), 3u);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].header.destination, asks);
    EXPECT_EQ(answers[i].header.token, i + 1);
    EXPECT_EQ(answers[i].header.arg0, 1u) << "it failed";
    EXPECT_TRUE(wire::decode_message<ErrorRecord>(answers[i].payload).ok());
  }
  const auto news = links.of(wire::FrameKind::kNotice);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].header.destination, asks);
  ASSERT_EQ(news[0].header.arg0, std::uint64_t(wire::Method::kNodeDied));
  EXPECT_EQ(wire::decode_message<wire::NodeDied>(news[0].payload).value().node, kDead);
}

/// Who forgot a death (CR-7) and sends there again would wait for ever for news that came once.
TEST(Mail, ML1_ADeathIsToldAnewToWhoSendsThereLater) {
  Loop::TimePoint now{std::chrono::hours(1)};
  const std::unique_ptr<Loop> loop = Loop::create([&] { return now; }).value();
  const std::unique_ptr<net::Endpoint> endpoint = net::Endpoint::create({.self = daemon_of(kHere)}).value();
  ProcessTable table(kHere);
  Links links;
  Mail mail(*loop, *endpoint, table, links);
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kValueRequest);
  header.source = {kFar, 5};
  header.destination = {kHere, 9};
  const auto told = [&] { return links.of(wire::FrameKind::kNotice).size(); };
  for (int round = 1; round <= 3; ++round) {
    for (int n = 0; n < 5; ++n) EXPECT_FALSE(mail.route(daemon_of(kFar), header, {}));
    EXPECT_EQ(told(), std::size_t(round)) << "a burst is answered once";
    now += Mail::kToldFor;
    loop->pass();
  }
  const auto news = links.of(wire::FrameKind::kNotice);
  ASSERT_EQ(news.back().header.arg0, std::uint64_t(wire::Method::kProcessDied));
  EXPECT_EQ(wire::decode_message<wire::ProcessDied>(news.back().payload).value().process, header.destination);
}

}  // namespace
}  // namespace troupe::node
