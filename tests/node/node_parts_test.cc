// The pure parts of the daemon, its loop and its session folder.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/boot/boot_socket.h"
#include "core/node/base/call_ledger.h"
#include "core/node/logs/log_filter.h"
#include "core/node/base/loop.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/base/config.h"
#include "core/node/launcher/spawn.h"
#include "core/node/session/last_rows.h"
#include "core/node/session/session.h"
#include "core/wire/rows.h"

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

/// A count up to which all had begun said of a call that had not that it had, when another began before it. (A.18)
TEST(CallLedger, CLG1_TellsEachSourceWhichOfItsCallsHadBegun) {
  using Numbers = CallLedger::Numbers;
  CallLedger ledger;
  net::SharedBegun ring;
  const ProcessId a{2, 1}, b{3, 1};
  ledger.forwarded(a, 10);
  ledger.forwarded(b, 20);
  ledger.forwarded(a, 11);
  ledger.forwarded(a, 12);
  ledger.forwarded(b, 21);
  ring.note(1);
  ring.note(4);
  ledger.begun(ring.snapshot());
  EXPECT_EQ(ledger.begun_up_to(), (Numbers{{a, 10}}));
  EXPECT_EQ(ledger.begun_beyond(), (Numbers{{a, 12}})) << "neither 11 of a nor any of b";
  ring.note(2);
  ring.note(3);
  ledger.begun(ring.snapshot());
  auto up_to = ledger.begun_up_to();
  std::sort(up_to.begin(), up_to.end());
  EXPECT_EQ(up_to, (Numbers{{a, 12}, {b, 20}}));
  EXPECT_TRUE(ledger.begun_beyond().empty());
  EXPECT_TRUE(ledger.has_waiting());
  ledger.begun({});  // never back
  net::BegunCalls ahead;
  ahead.raise(100);
  ledger.begun(ahead);
  EXPECT_FALSE(ledger.has_waiting());
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
  // nobody will read it: ECONNRESET follows
  ASSERT_TRUE(*send_packet(dead.second.get(), wire::BootKind::kWelcome, {}, {}));
  dead.first.reset();
  // One right after the other: what the first found still lies where the second one's buffer is.
  const Result<Received> received = receive_packet(live.second.get());
  const Result<Received> reset = receive_packet(dead.second.get());
  ASSERT_EQ(received->packet.fds.size(), 2u);
  EXPECT_EQ(reset->state, Received::State::kClosed);
  EXPECT_EQ(reset->packet.fds.size(), 0u) << "BS-3";
  for (const UniqueFd& fd : received->packet.fds)
    EXPECT_GE(::fcntl(fd.get(), F_GETFD), 0) << "BS-3: closed behind our back";
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

/// What another user would like to see emptied: it looks like a session that is over.
std::string someone_elses_data(const std::string& root) {
  const std::string data = root + "/data";
  fs::create_directories(data + "/photos");
  std::ofstream(data + "/lock") << "";
  std::ofstream(data + "/photos/one.jpg") << "x";
  return data;
}

// REVIEW C.2: at f0736ec the sweep of `troupe stop` followed the link and removed what it found there.
TEST(Session, SE1_ASweepTouchesNothingInAFolderThatIsNotOurs) {
  const std::string root = fresh_folder(), elsewhere = fresh_folder();
  const std::string data = someone_elses_data(elsewhere);
  fs::create_symlink(elsewhere, sessions_folder(root));
  EXPECT_FALSE(sweep_sessions(sessions_folder(root)).ok());
  EXPECT_FALSE(list_sessions(sessions_folder(root)).ok());
  clean_session(sessions_folder(root) + "/data", {});
  EXPECT_TRUE(fs::exists(data + "/photos/one.jpg"));
  fs::remove(sessions_folder(root));
  EXPECT_TRUE(sweep_sessions(sessions_folder(root)).ok()) << "nothing is there";
  EXPECT_TRUE(list_sessions(sessions_folder(root))->empty());
  fs::remove_all(root);
  fs::remove_all(elsewhere);
}

TEST(Session, SE1_NorInALinkOrAForeignFolderBelowOurs) {
  const std::string root = fresh_folder(), elsewhere = fresh_folder();
  const std::string data = someone_elses_data(elsewhere);
  { const Session session = create_session(root).value(); }
  fs::create_symlink(data, sessions_folder(root) + "/a-session");
  const std::string foreign = someone_elses_data(sessions_folder(root));
  const bool can_give_away = ::chown(foreign.c_str(), 12345, 12345) == 0;  // as root only
  ASSERT_TRUE(sweep_sessions(sessions_folder(root)).ok());
  EXPECT_TRUE(fs::exists(data + "/photos/one.jpg"));
  EXPECT_EQ(list_sessions(sessions_folder(root))->size(), can_give_away ? 1u : 2u);
  EXPECT_TRUE(!can_give_away || fs::exists(foreign + "/photos/one.jpg"));
  fs::remove_all(root);
  fs::remove_all(elsewhere);
}

TEST(LastRows, LRW1_AsManyAsOneProcessListsAreKeptAndAllAreCounted) {
  const std::string session = fresh_folder();
  wire::StateReply rows;
  for (std::size_t i = 0; i < wire::kRowsMax + 5; ++i) rows.rows.push_back({{"job_id", std::to_string(i)}});
  rows.total = rows.rows.size();
  keep_last_rows(session, wire::StateKind::kJobs, rows);
  const wire::StateReply kept = read_last_rows(session, wire::StateKind::kJobs).value();
  EXPECT_EQ(kept.rows.size(), wire::kRowsMax);
  EXPECT_EQ(kept.total, wire::kRowsMax + 5);
  EXPECT_EQ(kept.rows[7].at("job_id"), "7");
  EXPECT_FALSE(read_last_rows(session, wire::StateKind::kActors).ok()) << "nobody wrote them";
  EXPECT_FALSE(read_last_rows(session, wire::StateKind::kTasks).ok()) << "not of a kind that is kept";
  fs::remove_all(session);
}

TEST(LastRows, LRW2_WhatWasCutOffOrIsOfAnotherVersionIsAnError) {
  const std::string session = fresh_folder(), file = session + "/events/nodes.rows";
  keep_last_rows(session, wire::StateKind::kNodes, {.rows = {{{"node_id", "a"}}}, .warnings = {}, .total = 1});
  ASSERT_TRUE(read_last_rows(session, wire::StateKind::kNodes).ok());
  for (std::uintmax_t size = fs::file_size(file); size-- > 0;) {
    fs::resize_file(file, size);
    EXPECT_FALSE(read_last_rows(session, wire::StateKind::kNodes).ok()) << size << " bytes";
  }
  std::ofstream(file) << "TRPROWS9 and more";
  EXPECT_FALSE(read_last_rows(session, wire::StateKind::kNodes).ok());
  fs::remove_all(session);
}

TEST(LastRows, LRW2_NoLinkIsFollowedAndNothingButAFileIsRead) {
  const std::string session = fresh_folder(), file = session + "/events/nodes.rows";
  keep_last_rows(session, wire::StateKind::kNodes, {.rows = {{{"node_id", "a"}}}, .warnings = {}, .total = 1});
  fs::rename(file, session + "/elsewhere");
  fs::create_symlink(session + "/elsewhere", file);
  EXPECT_FALSE(read_last_rows(session, wire::StateKind::kNodes).ok());
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(read_last_rows(session, wire::StateKind::kNodes).ok()) << "it does not wait for a writer either";
  fs::remove_all(session);
}

TEST(Session, AFileThatCannotBeWrittenWholeLeavesNothing) {
  const std::string folder = fresh_folder(), file = folder + "/info";
  ASSERT_TRUE(write_whole(file, "old").ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{100, 100};  // as a disk that is full from there on
    ::setrlimit(RLIMIT_FSIZE, &small);
    ::_exit(write_whole(file, std::string(1000, 'x')).ok() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(file), 3u);
  EXPECT_FALSE(fs::exists(file + ".new"));
  fs::remove_all(folder);
}

// REVIEW C.2: at f0736ec a node listened off loopback without encryption and without a word.
TEST(Config, OffLoopbackOnlyForWhoSaysThatTheNetworkIsTrusted) {
  NodeOptions options;
  for (const char* local : {"127.0.0.1", "127.3.2.1", "::1", "localhost"}) {
    options.bind = local;
    EXPECT_TRUE(resolve_node(options).ok()) << local;
  }
  for (const char* other : {"0.0.0.0", "::", "10.0.0.1", "host.example", ""}) {
    options.bind = other;
    options.plaintext_network = false;
    const Result<DaemonConfig> refused = resolve_node(options);
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message().find("--plaintext-network"), std::string::npos);
    options.plaintext_network = true;
    EXPECT_TRUE(resolve_node(options).ok()) << other;
  }
}

/// In a process of its own: limits of this one stay.
int with_limit(int resource, rlim_t value, const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{value, value};
    ::_exit(::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && check() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// REVIEW H.15: at f0736ec "starting: Invalid argument" (the number 64 was asked for), and no word of the store's size.
TEST(Config, LimitsThatANodeCannotLiveWithAreNamed) {
  EXPECT_EQ(with_limit(RLIMIT_NOFILE, 64, [] {
    const Result<DaemonConfig> refused = resolve_node({});
    return !refused.ok() && refused.error().message().find("ulimit -n") != std::string::npos;
  }), 0);
  EXPECT_EQ(with_limit(RLIMIT_NOFILE, 64, [] {
    SpawnOptions options;
    const UniqueFd program(::open("/bin/true", O_RDONLY | O_CLOEXEC));
    options.executable = program.get();
    options.argv = {"true"};
    return spawn(options).ok();
  }), 0) << "a process is started all the same";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need terabytes of addresses
  EXPECT_EQ(with_limit(RLIMIT_AS, rlim_t{8} << 30, [] {
    NodeOptions options;
    options.object_store_memory = std::uint64_t{5} << 30;
    const Result<DaemonConfig> refused = resolve_node(options);
    return !refused.ok() && refused.error().message().find("object-store-memory") != std::string::npos;
  }), 0);
#endif
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
