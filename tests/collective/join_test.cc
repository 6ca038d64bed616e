// join: who meets at a path or an address, who is refused, and what is left behind.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "collective/group/reception.h"
#include "collective/tcp/mesh.h"
#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using Ruling = Judgement::Ruling;

/// How a join ended: 0 is well; else by its reason and the one rank that it names.
int code(Reason reason, int missing = -1) { return 10 + int(reason) + 16 * (missing + 1); }
constexpr int kInvalid = 9;

template <class F> int outcome(F&& operation, std::string* text = nullptr) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    if (text) *text = error.what();
    const auto missing = error.missing_ranks();
    return code(error.reason(), missing.size() == 1 ? missing.front() : -1);
  } catch (const InvalidArgumentError& error) {
    if (text) *text = error.what();
    return kInvalid;
  }
  return 0;
}

/// Runs `body` as each rank in a process of its own; their exit codes.
std::vector<int> as_processes(int ranks, const std::function<int(int)>& body) {
  std::vector<int> pids, codes;
  for (int r = 0; r < ranks; ++r) {
    const int pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      int code = 99;
      try {
        code = body(r);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", r, error.what());
      }
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  for (int pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
  }
  return codes;
}

std::string free_address() { return MeshListener::open("127.0.0.1").value().address().text; }
std::string free_path() {
  static int number = 0;
  return "/tmp/troupe-join-test-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

/// A connection to a path, as soon as somebody listens there.
UniqueFd connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd one(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  while (::connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::usleep(1000);
  return one;
}

TEST(JoinTest, ProcessesMeetAtAPath) {
  const std::string path = free_path();
  const auto codes = as_processes(3, [&](int r) {
    Group g = join("meet", r, 3, {.address = path, .timeout = Duration::max(), .token = "secret"});
    std::vector<int> v{r + 1};
    g.all_reduce(v);
    return v[0] == 6 ? 0 : 2;
  });
  EXPECT_EQ(codes, (std::vector{0, 0, 0}));
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "JP-3";
}

TEST(JoinTest, WhoNeverComesIsNamed) {
  const std::string path = free_path();
  EXPECT_EQ(outcome([&] { (void)join("late", 0, 2, {.address = path, .timeout = milliseconds(50)}); }),
            code(Reason::kTimeout, 1));
  EXPECT_EQ(outcome([&] { (void)join("late", 1, 2, {.address = path, .timeout = milliseconds(50)}); }),
            code(Reason::kTimeout, 0));
}

// The group's operations have a deadline of their own, which is not that of the meeting.
TEST(JoinTest, OperationsHaveTheTimeoutThatWasAskedFor) {
  const std::string path = free_path();
  const auto codes = as_processes(2, [&](int r) {
    Group g = join("slow", r, 2, {.address = path, .operation_timeout = milliseconds(50)});
    // never comes to the barrier
    if (r == 1) return outcome([&] { while (true) g.recv(std::vector<int>(1), 0, 0, {.timeout = Duration::max()}); });
    return outcome([&] { g.barrier(); });
  });
  EXPECT_EQ(codes, (std::vector{code(Reason::kTimeout, 1), code(Reason::kTimeout, 1)}));
  EXPECT_THROW((void)join("slow", 0, 1, {.address = path, .operation_timeout = Duration::zero()}),
               InvalidArgumentError);
}

// RV-1, RV-2: both backends, by what is asked for.
TEST(JoinTest, ProcessesMeetAtAnAddress) {
  for (const Backend wanted : {Backend::kAuto, Backend::kTcp}) {
    const std::string address = free_address();
    const auto codes = as_processes(3, [&](int r) {
      Group g = join("net", r, 3, {.address = address, .token = "secret", .backend = wanted});
      std::vector<int> v{r + 1};
      g.all_reduce(v);
      Group half = g.split(r == 0 ? 0 : 1, 0);
      std::vector<int> w{r};
      half.all_reduce(w);
      return v[0] == 6 && w[0] == (r == 0 ? 0 : 3) &&
                     g.backend() == (wanted == Backend::kAuto ? Backend::kShm : Backend::kTcp)
                 ? 0
                 : 2;
    });
    EXPECT_EQ(codes, (std::vector{0, 0, 0}));
  }
}

TEST(JoinTest, RankSizeAndAddressComeFromTheLauncher) {
  const std::string address = free_address();
  const auto codes = as_processes(2, [&](int r) {
    const auto colon = address.find(':');
    ::setenv("MASTER_ADDR", address.substr(0, colon).c_str(), 1);
    ::setenv("MASTER_PORT", address.substr(colon + 1).c_str(), 1);
    ::setenv(r == 0 ? "RANK" : "OMPI_COMM_WORLD_RANK", std::to_string(r).c_str(), 1);
    ::setenv(r == 0 ? "WORLD_SIZE" : "OMPI_COMM_WORLD_SIZE", "2", 1);
    ::setenv("TROUPE_COLLECTIVE_BACKEND", "tcp", 1);
    Group g = join("launched", kFromEnvironment, kFromEnvironment);
    return g.rank() == r && g.size() == 2 && g.backend() == Backend::kTcp ? 0 : 2;
  });
  EXPECT_EQ(codes, (std::vector{0, 0}));
  EXPECT_THROW((void)join("nobody", kFromEnvironment, 2), InvalidArgumentError);
}

// RC-3: at a path and at an address, whatever the order in which they come.
TEST(JoinTest, ADisagreementIsToldToAllRanks) {
  for (const std::string& address : {free_path(), free_address()}) {
    const auto codes = as_processes(3, [&](int r) {
      std::string text;
      const int how = outcome(
          [&] { (void)join("net", r, r == 1 ? 4 : 3, {.address = address, .timeout = std::chrono::seconds(50)}); },
          &text);
      return how == code(Reason::kMismatch) && text.find("rank 1 says 4 ranks, rank 0 says 3") != std::string::npos
                 ? 0
                 : how;
    });
    EXPECT_EQ(codes, (std::vector{0, 0, 0})) << address;
    const auto names = as_processes(2, [&](int r) {
      std::string text;
      const int how = outcome(
          [&] {
            (void)join(r == 0 ? "one" : "other", r, 2, {.address = address, .timeout = std::chrono::seconds(50)});
          },
          &text);
      return how == code(Reason::kMismatch) &&
                     text.find("rank 1 joins the group 'other', rank 0 'one'") != std::string::npos
                 ? 0
                 : how;
    });
    EXPECT_EQ(names, (std::vector{0, 0})) << address;
  }
}

// RC-2
TEST(JoinTest, AnotherTokenIsRefusedAlone) {
  for (const std::string& address : {free_path(), free_address()}) {
    const auto codes = as_processes(2, [&](int r) {
      if (r == 1) {
        const int refused = outcome([&] { (void)join("net", 1, 2, {.address = address, .token = "wrong"}); });
        if (refused != code(Reason::kMismatch)) return refused;
      }
      return outcome([&] { (void)join("net", r, 2, {.address = address, .token = "right"}); });
    });
    EXPECT_EQ(codes, (std::vector{0, 0})) << address;
  }
}

// RC-2, RC-3: as a pure decision.
TEST(JoinTest, EveryCardIsJudged) {
  const auto card = [](int rank, int size, const std::string& group, const std::string& token) {
    return card_of({.group = group, .address = {}, .token = token, .rank = rank, .size = size});
  };
  const Card own = card(0, 3, "g", "t");
  std::vector<bool> here{true, false, true};
  const auto ruling = [&](const Card& other) { return judge(other, own, here).ruling; };
  EXPECT_EQ(ruling(card(1, 3, "g", "t")), Ruling::kWelcome);
  EXPECT_EQ(ruling(card(2, 3, "g", "t")), Ruling::kRefused) << "twice";
  EXPECT_EQ(ruling(card(0, 3, "g", "t")), Ruling::kRefused);
  EXPECT_EQ(ruling(card(1, 3, "g", "")), Ruling::kRefused);
  EXPECT_EQ(ruling(card(1, 2, "g", "t")), Ruling::kDisagrees);
  EXPECT_EQ(ruling(card(1, 3, std::string(200, 'g'), "t")), Ruling::kDisagrees);
  EXPECT_EQ(ruling(card(1, 2, "g", "u")), Ruling::kRefused) << "the token comes first";
  Card old = card(1, 3, "g", "t");
  old.version = 1;
  EXPECT_EQ(ruling(old), Ruling::kRefused) << "its token cannot be read";
  EXPECT_EQ(judge(old, card(0, 3, "g", ""), here).ruling, Ruling::kDisagrees);
  old.magic = 1;
  EXPECT_EQ(judge(old, card(0, 3, "g", ""), here).ruling, Ruling::kRefused);
  EXPECT_THROW((void)card(1, 3, "g", std::string(128, 't')), InvalidArgumentError);
}

// RC-1, RC-4: one is silent, one hangs up in the middle of its card, one comes, dies and comes again.
TEST(JoinTest, WhoSaysNothingDelaysNobody) {
  const std::string path = free_path();
  int gone[2];  // who comes last comes after the dead one
  ASSERT_EQ(::pipe(gone), 0);
  const UniqueFd read_end(gone[0]), write_end(gone[1]);
  const auto codes = as_processes(3, [&](int r) {
    char word = 0;
    if (r == 1 && ::read(read_end.get(), &word, 1) != 1) return 1;
    if (r == 2) {
      const UniqueFd silent = connected(path);
      (void)!::write(connected(path).get(), "TRV1", 4);
      const Card first = card_of({.group = "meet", .address = path, .token = {}, .rank = 2, .size = 3});
      (void)!::write(connected(path).get(), &first, sizeof first);
      if (::write(write_end.get(), &word, 1) != 1) return 1;
      int again = 0;
      do again = outcome([&] { (void)join("meet", 2, 3, {.address = path}); });
      while (again == code(Reason::kMismatch));  // its end may not have been seen yet
      return again;
    }
    return outcome([&] { (void)join("meet", r, 3, {.address = path}); });
  });
  EXPECT_EQ(codes, (std::vector{0, 0, 0}));
}

// JP-1
TEST(JoinTest, AForeignFileAtThePathIsLeftAlone) {
  const std::string path = free_path();
  std::ofstream(path) << "mine";
  for (int r : {0, 1}) {
    std::string text;
    EXPECT_EQ(outcome([&] { (void)join("meet", r, 2, {.address = path}); }, &text), kInvalid);
    EXPECT_NE(text.find(path), std::string::npos);
  }
  std::string content;
  std::ifstream(path) >> content;
  EXPECT_EQ(content, "mine");
  std::filesystem::remove(path);
  for (const auto& entry : std::filesystem::directory_iterator("/tmp"))
    EXPECT_FALSE(entry.path().string().starts_with(path)) << entry.path();
}

// JP-1, JP-3: what a killed rank 0 left there is no hindrance.
TEST(JoinTest, ADeadSocketAtThePathIsReplaced) {
  const std::string path = free_path();
  const int pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    (void)join("meet", 0, 2, {.address = path});
    ::_exit(0);
  }
  { const UniqueFd there = connected(path); }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_EQ(as_processes(2, [&](int r) { return outcome([&] { (void)join("meet", r, 2, {.address = path}); }); }),
            (std::vector{0, 0}));
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

// JP-2
TEST(JoinTest, ASecondRankZeroIsRefusedAndTheFirstUnharmed) {
  for (const std::string& address : {free_path(), free_address()}) {
    const bool path = address[0] == '/';
    const auto codes = as_processes(2, [&](int r) {
      if (r == 0) return outcome([&] { (void)join("meet", 0, 2, {.address = address}); });
      if (path) connected(address);
      else while (!dial(address, Clock::now() + std::chrono::seconds(50)).ok()) ::usleep(1000);
      const int refused = outcome([&] { (void)join("meet", 0, 2, {.address = address}); });
      if (refused != code(path ? Reason::kMismatch : Reason::kBackend)) return refused;
      return outcome([&] { (void)join("meet", 1, 2, {.address = address}); });
    });
    EXPECT_EQ(codes, (std::vector{0, 0})) << address;
  }
}

// Signals while ranks wait for each other change nothing.
TEST(JoinTest, SignalsDoNotEndAMeeting) {
  for (const std::string& address : {free_path(), free_address()}) {
    const auto codes = as_processes(2, [&](int r) {
      struct sigaction ignore {};
      ignore.sa_handler = [](int) {};  // without SA_RESTART
      ::sigaction(SIGALRM, &ignore, nullptr);
      const itimerval often{{0, 2000}, {0, 2000}};
      ::setitimer(ITIMER_REAL, &often, nullptr);
      if (r == 1) std::this_thread::sleep_for(milliseconds(50));
      return outcome([&] { (void)join("meet", r, 2, {.address = address, .timeout = std::chrono::seconds(50)}); });
    });
    EXPECT_EQ(codes, (std::vector{0, 0})) << address;
  }
}

TEST(JoinTest, WhatIsNoAddressIsSaid) {
  for (const char* address :
       {"localhost:http", "localhost:", ":80", "localhost:65536", "localhost:0", "localhost:-1", "localhost:80x"})
    for (int r : {0, 1})
      EXPECT_EQ(outcome([&] { (void)join("net", r, 2, {.address = address}); }), kInvalid) << address;
  EXPECT_EQ(outcome([] { (void)join("a/b", 0, 2); }), kInvalid);
  EXPECT_EQ(outcome([] { (void)join("long", 0, 2, {.address = "/tmp/" + std::string(200, 'x')}); }), kInvalid);
  EXPECT_EQ(outcome([] { (void)join("none", 0, 2, {.address = "/tmp/no such folder/x"}); }), code(Reason::kBackend));
  EXPECT_EQ(outcome([] { (void)join("size", 0, 0); }), kInvalid);
}

}  // namespace
}  // namespace troupe::collective
