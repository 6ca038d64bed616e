// A head behind real links: it takes nodes, answers, sees a lost link, and ends when it shall (HSV-1 of shell.h, HSV-2
// of server.h).
#include "core/head/service/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "core/base/fd.h"
#include "core/net/link/link.h"
#include "core/net/link/session.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"

namespace troupe::head {
namespace {

using namespace std::chrono_literals;
using wire::Method;

/// What a daemon hears on its link.
class Ear final : public net::LinkEvents {
 public:
  void on_open(net::LinkId, const net::LinkPeer&) override {}
  void on_closed(net::LinkId, const Status&) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void on_batch(net::LinkId, ByteView rest) override {
    std::lock_guard lock(mutex_);
    while (!rest.empty()) {
      net::FrameHeader header = *net::decode_header(rest.first(sizeof(net::FrameHeader)));
      ByteView payload = rest.subspan(sizeof header, header.payload_size);
      frames_.emplace_back(header, std::vector<std::byte>(payload.begin(), payload.end()));
      rest = rest.subspan(sizeof header + header.payload_size);
    }
    changed_.notify_all();
  }
  /// Waits for the first frame that fits.
  template <class Body> std::optional<Body> wait_for(wire::FrameKind kind, std::uint64_t arg0) {
    std::unique_lock lock(mutex_);
    std::optional<Body> found;
    changed_.wait_for(lock, 30s, [&] {
      for (const auto& [header, payload] : frames_) {
        if (header.kind != static_cast<std::uint8_t>(kind) || header.arg0 != arg0) continue;
        auto body = wire::decode_message<Body>(payload);
        if (body.ok()) found = *body;
        return true;
      }
      return false;
    });
    return found;
  }
  bool wait_closed() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return closed_; });
  }
  void clear() {
    std::lock_guard lock(mutex_);
    frames_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<net::FrameHeader, std::vector<std::byte>>> frames_;
  bool closed_ = false;
};

/// A head in a thread of this process, and the folder of its token.
class RealHead : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/troupe-head-test-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    token_ = *net::Token::make();
    ASSERT_TRUE(token_.write_file(folder_ + "/token").ok());
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ours_.reset(pair[0]);
    theirs_.reset(pair[1]);
    Result<std::string> address = start({});
    ASSERT_TRUE(address.ok()) << address.error().what();
    address_ = *address;
  }
  Result<std::string> start(ServerOptions options) {
    options.token_file = folder_ + "/token";
    if (!options.recover) options.cluster_id = "c";
    options.rpc_library = TROUPE_TEST_RPC_LIBRARY;
    options.stop_fd = theirs_.get();
    options.journal = folder_ + "/head.journal";
    std::promise<Result<std::string>> ready;
    options.on_ready = [&](const Result<std::string>& address) { ready.set_value(address); };
    thread_ = std::thread([this, options] { code_ = head_main(options); });
    return ready.get_future().get();
  }
  /// What is in its memory is gone; what it has written stays.
  void stop() {
    ASSERT_EQ(::write(ours_.get(), "stop", 4), 4);
    thread_.join();
  }
  void TearDown() override {
    ours_.reset();
    if (thread_.joinable()) thread_.join();
    std::filesystem::remove_all(folder_);
  }

  struct Daemon {
    Ear ear;
    std::unique_ptr<net::Links> links;
    net::LinkId link = 0;
    template <class Body>
    void send(wire::FrameKind kind, ProcessId source, std::uint64_t token, Method method, const Body& body) {
      net::FrameHeader header;
      header.kind = static_cast<std::uint8_t>(kind);
      header.source = source;
      header.token = token;
      header.arg0 = static_cast<std::uint64_t>(method);
      const auto payload = wire::encode_message(body);
      links->send(link, header, payload);
    }
  };
  static constexpr std::uint64_t kIncarnation = 77;
  /// Counts the Begins of all, which counts each one's upwards.
  static std::uint32_t begun() {
    static std::uint32_t count = 0;
    return ++count;
  }
  /// What it sends from here on is its session.
  static void begin_session(Daemon& daemon) {
    net::FrameHeader begin;
    begin.kind = net::kSessionKind;
    begin.token = 1;
    begin.arg1 = kIncarnation;
    begin.arg3 = begun() << 1 | 1;
    daemon.links->send(daemon.link, begin);
  }
  /// The same session on a further link: it goes on behind `sent` frames, and has got `got` of the head's.
  static void resume_session(Daemon& daemon, std::uint64_t sent, std::uint64_t got) {
    net::FrameHeader begin;
    begin.kind = net::kSessionKind;
    begin.token = 1;
    begin.arg0 = sent;
    begin.arg1 = kIncarnation;
    begin.arg3 = begun() << 1;
    daemon.links->send(daemon.link, begin);
    net::FrameHeader resume;
    resume.kind = net::kSessionKind;
    resume.token = 2;
    resume.arg0 = got;
    resume.arg1 = kIncarnation;
    daemon.links->send(daemon.link, resume);
  }
  std::unique_ptr<Daemon> join(const std::string& address = {}, wire::RegisterNode request = {}) {
    auto daemon = std::make_unique<Daemon>();
    net::LinksOptions options;
    options.identity = {.token = token_, .cluster_id = {}, .build = {}, .hello = "node", .incarnation = kIncarnation};
    options.library = TROUPE_TEST_RPC_LIBRARY;
    daemon->links = *net::open_links(daemon->ear, options);
    daemon->link = *daemon->links->connect({.address = address_});
    request.info.resources = {{"CPU", 2}};
    request.info.address = address;
    daemon->send(wire::FrameKind::kRequest, {}, 1, Method::kRegisterNode, request);
    return daemon;
  }

  std::string folder_, address_;
  net::Token token_;
  UniqueFd ours_, theirs_;
  std::thread thread_;
  int code_ = -1;
};

TEST_F(RealHead, TakesANodeAndAnswersIt) {
  auto daemon = join();
  auto reply = daemon->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->node, 1u);
  EXPECT_EQ(reply->cluster_id, "c");
  auto view = daemon->ear.wait_for<wire::ClusterView>(wire::FrameKind::kNotice,
                                                      static_cast<std::uint64_t>(Method::kClusterView));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->nodes.size(), 1u);
  daemon->ear.clear();
  begin_session(*daemon);
  daemon->send(wire::FrameKind::kRequest, daemon_of(1), 2, Method::kKvPut, wire::KvEntry{"k", "v"});
  daemon->send(wire::FrameKind::kRequest, daemon_of(1), 3, static_cast<Method>(9999), wire::Empty{});
  auto error = daemon->ear.wait_for<ErrorRecord>(wire::FrameKind::kResponse, 1);
  ASSERT_TRUE(error) << "a request that it does not know is answered";
  EXPECT_EQ(error->code, ErrorCode::kSerialization);
}

TEST_F(RealHead, ALostLinkIsTheNodesDeathForTheOthers) {
  auto first = join();
  ASSERT_TRUE(first->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0));
  auto second = join();
  ASSERT_TRUE(second->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0));
  second->links->abort(second->link, "pulled out");
  auto died =
      first->ear.wait_for<wire::NodeDied>(wire::FrameKind::kNotice, static_cast<std::uint64_t>(Method::kNodeDied));
  ASSERT_TRUE(died);
  EXPECT_EQ(died->node, 2u);
}

TEST_F(RealHead, ALostLinkOfANodeWhereNobodyListensIsItsDeathAtOnce) {
  auto first = join();
  ASSERT_TRUE(first->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0));
  auto second = join("127.0.0.1:1");  // nobody ever does
  ASSERT_TRUE(second->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0));
  second->links->abort(second->link, "killed");
  auto died =
      first->ear.wait_for<wire::NodeDied>(wire::FrameKind::kNotice, static_cast<std::uint64_t>(Method::kNodeDied));
  ASSERT_TRUE(died);
  EXPECT_NE(died->reason.find("nobody listens"), std::string::npos) << died->reason;
}

TEST_F(RealHead, HSV3_OutsideOfASessionNothingIsTakenButRegistrations) {
  auto daemon = join();
  ASSERT_TRUE(daemon->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0));
  daemon->send(wire::FrameKind::kRequest, daemon_of(1), 2, Method::kKvPut, wire::KvEntry{"k", "outside"});
  begin_session(*daemon);
  daemon->ear.clear();
  daemon->send(wire::FrameKind::kRequest, daemon_of(1), 3, Method::kKvGet, wire::KvKey{"k"});
  auto value = daemon->ear.wait_for<wire::KvValue>(wire::FrameKind::kResponse, 0);
  ASSERT_TRUE(value);
  EXPECT_FALSE(value->value);
}

TEST_F(RealHead, HSV4_OneThatIsStartedAgainIsTheSameHead) {
  auto daemon = join();
  auto reply = daemon->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0);
  ASSERT_TRUE(reply);
  begin_session(*daemon);
  daemon->ear.clear();
  daemon->send(wire::FrameKind::kRequest, daemon_of(1), 2, Method::kKvPut, wire::KvEntry{"k", "v"});
  ASSERT_TRUE(daemon->ear.wait_for<wire::Empty>(wire::FrameKind::kResponse, 0));
  stop();
  ServerOptions again;
  again.recover = true;
  const Result<std::string> address = start(again);
  ASSERT_TRUE(address.ok()) << address.error().what();
  address_ = *address;

  wire::RegisterNode back;
  back.info.node = reply->node;
  back.info.node_id = reply->node_id;
  back.cluster_id = "c";
  auto later = join({}, back);
  auto known = later->ear.wait_for<wire::RegisterNodeReply>(wire::FrameKind::kResponse, 0);
  ASSERT_TRUE(known) << "it knows the node";
  EXPECT_EQ(known->node, reply->node);
  EXPECT_EQ(known->cluster_id, "c");
  later->ear.clear();
  resume_session(*later, 1, 0);  // the put was the session's first frame; it asks for all answers again
  const auto answered = later->ear.wait_for<wire::Empty>(wire::FrameKind::kResponse, 0);
  EXPECT_TRUE(answered) << "an answer that was on its way is not lost";
  later->ear.clear();
  later->send(wire::FrameKind::kRequest, daemon_of(1), 3, Method::kKvGet, wire::KvKey{"k"});
  auto value = later->ear.wait_for<wire::KvValue>(wire::FrameKind::kResponse, 0);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->value, "v");
}

TEST_F(RealHead, HSV4_WithoutAJournalNobodyIsStartedAgain) {
  stop();
  std::filesystem::remove(folder_ + "/head.journal");
  ServerOptions again;
  again.recover = true;
  const Result<std::string> address = start(again);
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.error().code(), ErrorCode::kNotFound);
}

TEST_F(RealHead, EndsWhenItIsTold) {
  auto daemon = join();
  ASSERT_EQ(::write(ours_.get(), "stop", 4), 4);
  thread_.join();
  EXPECT_EQ(code_, 0);
  EXPECT_TRUE(daemon->ear.wait_closed());
}

TEST_F(RealHead, EndsWhenWhoeverStartedItIsGone) {
  ours_.reset();
  thread_.join();
  EXPECT_EQ(code_, 0);
}

TEST(HeadStart, SaysWhyItCannotStart) {
  ServerOptions options;
  options.token_file = "/nowhere/token";
  std::string why;
  options.on_ready = [&](const Result<std::string>& address) { why = address.ok() ? "" : address.error().message(); };
  EXPECT_EQ(head_main(options), 1);
  EXPECT_FALSE(why.empty());
}

}  // namespace
}  // namespace troupe::head
