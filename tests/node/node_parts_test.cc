// The pure parts of the daemon, its loop and its session folder.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/node/boot_socket.h"
#include "core/node/call_ledger.h"
#include "core/node/log_filter.h"
#include "core/node/loop.h"
#include "core/node/process_table.h"
#include "core/node/session.h"

namespace troupe::node {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string fresh_folder() {
  char path[] = "/tmp/troupe-node-test-XXXXXX";
  return ::mkdtemp(path);
}

TEST(LogFilter, EscapesControlCharactersAndCountsRepeats) {
  LogFilter filter;
  const auto lines = filter.push("one\033[2J\r\nsame\nsame\nsame\nnext\npart", {});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "one\\x1b[2J");
  EXPECT_EQ(lines[2], "... repeated 2 times");
  EXPECT_EQ(filter.flush({}, true), std::vector<std::string>{"part"});
}

TEST(LogFilter, ShowsOnlySoManyLinesAndSaysHowManyItDropped) {
  LogFilter filter({.lines_per_second = 1, .burst = 10});
  std::string flood;
  for (int i = 0; i < 1000; ++i) flood += "line " + std::to_string(i) + "\n";
  const LogFilter::TimePoint start{1s};
  EXPECT_EQ(filter.push(flood, start).size(), 10u);
  const auto later = filter.push("after\n", start + 5s);
  ASSERT_EQ(later.size(), 2u);
  EXPECT_NE(later[0].find("990 lines not shown"), std::string::npos);
  EXPECT_EQ(filter.tail().back(), "after");
}

TEST(LogFilter, CutsEndlessLines) {
  LogFilter filter;
  const auto lines = filter.push(std::string(3 * kLineMax, 'x') + "y\n", {});
  EXPECT_GE(lines.size(), 2u);
  for (const auto& line : lines) EXPECT_LE(line.size(), kLineMax);
}

TEST(CallLedger, TellsEachSourceTheLastCallThatBegan) {
  CallLedger ledger;
  const ProcessId a{2, 1}, b{3, 1};
  ledger.forwarded(a, 10);
  ledger.forwarded(b, 20);
  ledger.forwarded(a, 11);
  ledger.begun(2);
  EXPECT_EQ(ledger.last_begun().size(), 2u);
  ledger.begun(1);  // never back
  ledger.begun(100);
  const auto last = ledger.last_begun();
  EXPECT_TRUE(std::find(last.begin(), last.end(), std::pair<ProcessId, std::uint64_t>(a, 11)) != last.end());
}

TEST(ProcessTable, KeepsTheLastDeaths) {
  ProcessTable table(1);
  for (std::uint32_t i = 1; i <= kDeathsKept + 5; ++i) {
    wire::ProcessDied death;
    death.process = {1, i};
    table.remember(death);
  }
  EXPECT_EQ(table.death({1, 5}), nullptr);
  EXPECT_NE(table.death({1, 6}), nullptr);
  EXPECT_EQ(describe_wait_status(9), "killed by SIGKILL (9)");
  EXPECT_EQ(describe_wait_status(3 << 8), "exited with code 3");
}

TEST(Loop, AHandlerThatWasForgottenIsNotCalledAgain) {
  auto loop = Loop::create().value();
  int a[2], b[2];
  ASSERT_EQ(::pipe(a), 0);
  ASSERT_EQ(::pipe(b), 0);
  int calls = 0;
  for (auto [mine, other] : {std::pair{a[0], b[0]}, std::pair{b[0], a[0]}})
    loop->watch(mine, 1 /* EPOLLIN */, [&, other = other, mine = mine](std::uint32_t) {
      ++calls;
      loop->forget(other);
      loop->forget(mine);
      loop->after(10ms, [&] { loop->quit(7); });
    });
  ASSERT_EQ(::write(a[1], "x", 1) + ::write(b[1], "x", 1), 2);
  EXPECT_EQ(loop->run([] { return false; }, 0us), 7);
  EXPECT_EQ(calls, 1) << "LO-1";
  for (int fd : {a[0], a[1], b[0], b[1]}) ::close(fd);
}

TEST(BootSocket, CarriesLongPacketsAndDescriptors) {
  auto sockets = boot_socket_pair().value();
  const std::vector<std::byte> large(3 << 20, std::byte{42});
  const int fds[] = {0, 1};
  ASSERT_TRUE(*send_packet(sockets.first.get(), wire::BootKind::kHello, large, fds));
  Received received = receive_packet(sockets.second.get()).value();
  ASSERT_EQ(received.state, Received::State::kPacket);
  EXPECT_EQ(received.packet.payload, large);
  EXPECT_EQ(received.packet.fds.size(), 2u);
  sockets.first.reset();
  EXPECT_EQ(receive_packet(sockets.second.get()).value().state, Received::State::kClosed);
}

TEST(BootSocket, APeerThatDiesWithPacketsUnreadClosesNoneOfOurDescriptors) {
  auto live = boot_socket_pair().value(), dead = boot_socket_pair().value(), pipe = boot_socket_pair().value();
  const int fds[] = {pipe.first.get(), pipe.second.get()};
  ASSERT_TRUE(*send_packet(live.first.get(), wire::BootKind::kHello, {}, fds));
  ASSERT_TRUE(*send_packet(dead.second.get(), wire::BootKind::kWelcome, {}, {}));  // nobody will read it: ECONNRESET follows
  dead.first.reset();
  // One right after the other: what the first found still lies where the second one's buffer is.
  const Result<Received> received = receive_packet(live.second.get());
  const Result<Received> reset = receive_packet(dead.second.get());
  ASSERT_EQ(received->packet.fds.size(), 2u);
  EXPECT_EQ(reset->state, Received::State::kClosed);
  EXPECT_EQ(reset->packet.fds.size(), 0u) << "BS-3";
  for (const UniqueFd& fd : received->packet.fds) EXPECT_GE(::fcntl(fd.get(), F_GETFD), 0) << "BS-3: closed behind our back";
}

TEST(Session, KeepsLogsOnlyAndTheLastTenSessions) {
  const std::string root = fresh_folder();
  std::string last;
  for (int i = 0; i < 13; ++i) {
    Session session = create_session(root).value();
    std::ofstream(session.dir + "/token") << "x";
    std::ofstream(session.dir + "/logs/a.log") << "x";
    last = session.dir;
    ::usleep(1000);
    if (i % 2) clean_session(session.dir, std::move(session.lock));  // else: it died without a word
  }
  create_session(root).value();
  EXPECT_FALSE(fs::exists(last + "/token")) << "swept at the next start";
  EXPECT_TRUE(fs::exists(last + "/logs/a.log"));
  std::size_t sessions = 0;
  for (const auto& entry : fs::directory_iterator(sessions_folder(root))) sessions += entry.is_directory();
  EXPECT_EQ(sessions, kSessionsKept) << "SE-3";
  fs::remove_all(root);
}

TEST(Session, RefusesASymbolicLinkAndAFolderOfOthers) {
  const std::string root = fresh_folder();
  fs::create_directory(root + "/real");
  fs::create_symlink(root + "/real", sessions_folder(root));
  const Result<Session> refused = create_session(root);
  ASSERT_FALSE(refused.ok()) << "SE-1";
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create_session("/proc/nowhere").error().code(), ErrorCode::kInvalidArgument);
  fs::remove_all(root);
}

TEST(Session, ALiveSessionIsNeverSwept) {
  const std::string root = fresh_folder();
  const Session live = create_session(root).value();
  std::ofstream(live.dir + "/token") << "x";
  create_session(root).value();
  EXPECT_TRUE(fs::exists(live.dir + "/token")) << "SE-2";
  fs::remove_all(root);
}

}  // namespace
}  // namespace troupe::node
