// join: who meets at a path or an address, who is refused, and what is left behind.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>

#include "collective/group/reception.h"
#include "collective/tcp/mesh.h"
#include "tests/base/few_descriptors.h"
#include "tests/base/temporary_folder.h"
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

/// What members that are killed leave there goes with the folder, when this program ends.
std::string free_path() {
  static const test::TemporaryFolder folder;
  static int number = 0;
  // Some members are another user's.
  if (number == 0) std::filesystem::permissions(folder.path(), std::filesystem::perms(01777));
  return folder / std::to_string(++number);
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

constexpr std::size_t kNoByte = std::size_t(1) << 62;

/// Passes on what comes, with a descriptor beside it, and with the bits of byte `flip` turned, if it is among what
/// comes. False: that side has ended.
bool pass_on(int from, int to, std::string& heard, std::size_t& flip) {
  std::array<char, 4096> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  iovec vector{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(from, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) return false;
  heard.append(bytes.data(), std::size_t(n));
  if (flip < std::size_t(n)) bytes[flip] = char(~bytes[flip]);
  flip -= std::size_t(n);  // below 0 is far away
  vector.iov_len = std::size_t(n);
  if (message.msg_controllen == 0) message.msg_control = nullptr;
  return ::sendmsg(to, &message, MSG_NOSIGNAL) == n;
}

/// Takes the first who connects, and brings its words to where `dial_on` leads, and what is said there back, until both
/// have hung up. All that was said. `flip`: the byte of what is said back that it alters.
std::string relayed(int listener, const std::function<UniqueFd()>& dial_on, std::size_t flip = kNoByte) {
  pollfd come{listener, POLLIN, 0};
  (void)::poll(&come, 1, -1);
  const UniqueFd near(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)), far = dial_on();
  std::string heard;
  std::size_t flips[2] = {kNoByte, flip};
  std::array<pollfd, 2> ends{{{near.get(), POLLIN, 0}, {far.get(), POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    (void)::poll(ends.data(), ends.size(), -1);
    for (std::size_t i = 0; i < 2; ++i) {
      const int other = i == 0 ? far.get() : near.get();
      if (ends[i].fd < 0 || ends[i].revents == 0 || pass_on(ends[i].fd, other, heard, flips[i])) continue;
      ::shutdown(other, SHUT_WR);
      ends[i].fd = -1;
    }
  }
  return heard;
}

UniqueFd dialled(const std::string& address) {
  for (;;) {
    auto one = dial(address, Clock::now() + std::chrono::seconds(50));
    if (one.ok()) {
      ::fcntl(one->get(), F_SETFL, ::fcntl(one->get(), F_GETFL) & ~O_NONBLOCK);
      return *std::move(one);
    }
    ::usleep(1000);
  }
}

constexpr char kSecret[] = "a token that never travels";

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
    const auto joined = [&] { return join("slow", r, 2, {.address = path, .operation_timeout = milliseconds(50)}); };
    // never comes to the barrier; it may still be in join when the other one's time is up
    if (r == 1)
      return outcome([&] {
        Group g = joined();
        while (true) g.recv(std::vector<int>(1), 0, 0, {.timeout = Duration::max()});
      });
    Group g = joined();
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

// MSC-1: all that is said at a meeting is heard, and the token is not in it.
TEST(JoinTest, TheTokenIsNotAmongTheBytesOfAMeeting) {
  const std::string path = free_path(), tapped = free_path();
  const auto codes = as_processes(3, [&](int r) {
    if (r < 2)
      return outcome([&] { (void)join("heard", r, 2, {.address = r == 0 ? path : tapped, .token = kSecret}); });
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    tapped.copy(address.sun_path, sizeof address.sun_path - 1);
    const UniqueFd tap(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(tap.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 1;
    if (::listen(tap.get(), 1) != 0) return 1;
    const std::string heard = relayed(tap.get(), [&] { return connected(path); });
    ::unlink(tapped.c_str());
    if (heard.find("heard") == std::string::npos) return 2;  // the name of the group: the card has passed here
    return heard.find(kSecret) == std::string::npos ? 0 : 3;
  });
  EXPECT_EQ(codes, (std::vector{0, 0, 0}));
}

// MSC-4: whoever stands on the way (a path may be a relay's) can keep ranks from meeting, and tell them nothing: the
// backend was believed.
TEST(JoinTest, AnAlteredVerdictIsRefused) {
  const std::size_t verdict = sizeof(MeetingWelcome);
  for (const std::size_t byte : {offsetof(Verdict, backend), offsetof(Verdict, founder_fd), offsetof(Verdict, meeting),
                                 offsetof(Verdict, proof), offsetof(Verdict, refusal.reserved)}) {
    const std::string path = free_path(), tapped = free_path();
    int refused[2];
    ASSERT_EQ(::pipe(refused), 0);
    const UniqueFd read_end(refused[0]), write_end(refused[1]);
    const auto codes = as_processes(3, [&](int r) {
      char word = 0;
      if (r == 0) {  // has met, and waits in vain for the other one
        std::thread([&] { (void)outcome([&] { (void)join("met", 0, 2, {.address = path, .token = kSecret}); }); })
            .detach();
        return ::read(read_end.get(), &word, 1) == 1 ? 0 : 1;
      }
      if (r == 1) {
        std::string text;
        const int how = outcome([&] { (void)join("met", 1, 2, {.address = tapped, .token = kSecret}); }, &text);
        if (::write(write_end.get(), &word, 1) != 1) return 1;
        return how == code(Reason::kMismatch) && text.find("altered") != std::string::npos ? 0 : 2;
      }
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      tapped.copy(address.sun_path, sizeof address.sun_path - 1);
      const UniqueFd tap(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::bind(tap.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 1;
      if (::listen(tap.get(), 1) != 0) return 1;
      (void)relayed(tap.get(), [&] { return connected(path); }, verdict + byte);
      ::unlink(tapped.c_str());
      return 0;
    });
    EXPECT_EQ(codes, (std::vector{0, 0, 0})) << "byte " << byte;
  }
}

// MSC-4: at an address, where the cards of all ranks follow: a card that rank 0 did not show is not believed.
TEST(JoinTest, AnAlteredTableOfCardsIsRefused) {
  for (const bool altered : {true, false}) {
    const std::string address = free_address();
    const auto codes = as_processes(2, [&](int r) {
      if (r == 1) {
        std::string text;
        const int how = outcome(
            [&] {
              (void)join("net", 1, 2, {.address = address, .token = "t", .backend = Backend::kTcp});
            },
            &text);
        const bool told = how == code(Reason::kMismatch) && text.find("altered") != std::string::npos;
        return how != 0 && told == altered ? 0 : 2;
      }
      const int colon = int(address.rfind(':'));
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(std::uint16_t(std::stoi(address.substr(std::size_t(colon) + 1))));
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return 1;
      if (::listen(listener.get(), 8) != 0) return 1;
      const auto soon = Clock::now() + std::chrono::seconds(50);
      const MeetingPlan plan{.group = "net", .address = address, .token = "t", .size = 2, .backend = Backend::kTcp,
                             .deadline = soon};
      Arrivals arrivals = receive_cards(plan, visit_of(plan), listener.get());
      Verdict verdict;
      verdict.backend = std::uint32_t(Backend::kShm);  // of a process that is none: it fails where it is believed
      verdict.founder_fd = -1;
      verdict.proof = MeetingSecret("t").verdict(arrivals.greetings[1], verdict, arrivals.cards);
      if (altered) arrivals.cards[1].pid ^= 1;
      const int rank_1 = arrivals.sockets[1].get();
      return send_whole(rank_1, &verdict, sizeof verdict, soon) &&
                     send_whole(rank_1, arrivals.cards.data(), arrivals.cards.size() * sizeof(Card), soon)
                 ? 0
                 : 3;
    });
    EXPECT_EQ(codes, (std::vector{0, 0}));
  }
}

// RC-2: a relay brings nobody together, and ends no meeting: who dials it is told so, and comes to the right address
// then.
TEST(JoinTest, ARelayIsRefusedAndTheMeetingGoesOn) {
  const MeshListener relay = MeshListener::open("127.0.0.1").value();
  const std::string address = free_address(), other = relay.address().text, token = kSecret;
  const auto codes = as_processes(3, [&](int r) {
    if (r == 2) {
      const std::string heard = relayed(relay.fd(), [&] { return dialled(address); });
      return heard.find(token) == std::string::npos ? 0 : 3;
    }
    if (r == 1) {
      std::string text;
      const int refused = outcome([&] { (void)join("net", 1, 2, {.address = other, .token = token}); }, &text);
      if (refused != code(Reason::kMismatch) || text.find("another address") == std::string::npos) return 2;
    }
    return outcome([&] { (void)join("net", r, 2, {.address = address, .token = token}); });
  });
  EXPECT_EQ(codes, (std::vector{0, 0, 0}));
}

// MSC-1, RC-5: whoever took over rank 0's port answers as it likes: it is refused, and has heard nothing that it could
// use.
TEST(JoinTest, WhoTookOverThePortGetsNothingUsable) {
  for (const bool echo : {false, true}) {
    const MeshListener impostor = MeshListener::open("127.0.0.1").value();
    std::string heard;
    std::thread thread([&] {
      pollfd come{impostor.fd(), POLLIN, 0};
      (void)::poll(&come, 1, -1);
      const UniqueFd one(::accept4(impostor.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      std::array<char, 4096> bytes{};
      const ssize_t first = ::recv(one.get(), bytes.data(), bytes.size(), 0);
      if (first > 0) heard.append(bytes.data(), std::size_t(first));
      std::string answer(1024, '\0');
      if (echo) heard.copy(answer.data() + 264, answer.size() - 264);  // behind the place of a refusal
      (void)!::send(one.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      for (ssize_t n; (n = ::recv(one.get(), bytes.data(), bytes.size(), 0)) > 0;)
        heard.append(bytes.data(), std::size_t(n));
    });
    std::string text;
    const int how = outcome(
        [&] {
          (void)join("net", 1, 2, {.address = impostor.address().text, .token = kSecret, .backend = Backend::kTcp});
        },
        &text);
    thread.join();
    EXPECT_EQ(how, code(Reason::kMismatch)) << text;
    EXPECT_NE(text.find("another token than rank 0's"), std::string::npos) << text;
    EXPECT_EQ(heard.find(kSecret), std::string::npos);
    EXPECT_EQ(heard.size(), sizeof(MeetingHello)) << "RC-5: neither a proof nor a card";
  }
}

// RC-2, RC-3: as pure decisions.
TEST(JoinTest, EveryHelloAndCardIsJudged) {
  const auto visit = [](int rank, int size, const std::string& group) {
    return visit_of({.group = group, .address = {}, .token = {}, .rank = rank, .size = size});
  };
  const Visit own = visit(0, 3, "g");
  std::vector<bool> here{true, false, true};
  const auto ruling = [&](const Visit& other) { return judge(other, own, here).ruling; };
  EXPECT_EQ(ruling(visit(1, 3, "g")), Ruling::kWelcome);
  EXPECT_EQ(ruling(visit(2, 3, "g")), Ruling::kRefused) << "twice";
  EXPECT_EQ(ruling(visit(0, 3, "g")), Ruling::kRefused);
  EXPECT_EQ(ruling(visit(1, 2, "g")), Ruling::kDisagrees);
  EXPECT_EQ(ruling(visit(1, 3, std::string(200, 'g'))), Ruling::kDisagrees);

  MeetingHello hello = visit(1, 2, "h").hello;
  EXPECT_EQ(judge_hello(hello, own.hello, "", true).ruling, Ruling::kWelcome) << "what needs trust waits for the proof";
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", true).ruling, Ruling::kRefused) << "a relay";
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", false).ruling, Ruling::kWelcome) << "a mapped port, no secret";
  std::string("10.0.0.1:5").copy(hello.address.data(), hello.address.size());
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", true).ruling, Ruling::kWelcome);
  hello.version = 2;
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", true).ruling, Ruling::kRefused) << "it cannot prove anything";
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", false).ruling, Ruling::kDisagrees);
  hello.magic = 1;
  EXPECT_EQ(judge_hello(hello, own.hello, "10.0.0.1:5", false).ruling, Ruling::kRefused);
  EXPECT_THROW((void)visit_of({.group = "g", .address = {}, .token = std::string(128, 't')}), InvalidArgumentError);
}

// MSC-2, MSC-3
TEST(JoinTest, AProofIsForOneConnectionSideCardAndToken) {
  const MeetingSecret secret("t"), another("u"), none("");
  MeetingHello hello = visit_of({.group = "g", .address = {}, .token = {}, .rank = 1, .size = 2}).hello;
  Card card, other_card;
  card.pid = 7;
  MeetingNonce nonce{};
  const MeetingProof welcome = secret.welcome(hello, nonce), answer = secret.answer(hello, nonce, card);
  EXPECT_EQ(welcome, MeetingSecret("t").welcome(hello, nonce));
  EXPECT_EQ(answer, MeetingSecret("t").answer(hello, nonce, card));
  EXPECT_NE(welcome, answer);
  EXPECT_NE(welcome, secret.answer(hello, nonce, other_card)) << "the labels of the sides differ";
  for (const MeetingSecret* other : {&another, &none}) {
    EXPECT_NE(welcome, other->welcome(hello, nonce));
    EXPECT_NE(answer, other->answer(hello, nonce, card));
    EXPECT_NE(secret.group_key(nonce, "g"), other->group_key(nonce, "g"));
  }
  EXPECT_NE(answer, secret.answer(hello, nonce, other_card));
  Verdict verdict;
  verdict.backend = 1;
  std::vector<Card> cards{card, other_card};
  const MeetingProof proven = secret.verdict({hello, nonce}, verdict, cards);
  const auto is_another = [&](const MeetingHello& said, const Verdict& told, const std::vector<Card>& table) {
    EXPECT_NE(proven, secret.verdict({said, nonce}, told, table)) << "MSC-4";
  };
  EXPECT_NE(proven, another.verdict({hello, nonce}, verdict, cards));
  std::swap(cards[0], cards[1]), is_another(hello, verdict, cards), std::swap(cards[0], cards[1]);
  verdict.meeting[3] = 1, is_another(hello, verdict, cards), verdict.meeting[3] = 0;
  hello.rank = 3, is_another(hello, verdict, cards), hello.rank = 1;
  verdict.proof[0] = 1;
  EXPECT_EQ(proven, secret.verdict({hello, nonce}, verdict, cards)) << "but itself";
  const std::uint64_t key = secret.group_key(nonce, "g");
  EXPECT_EQ(key, MeetingSecret("t").group_key(nonce, "g"));
  EXPECT_NE(key, secret.group_key(nonce, "h"));
  const auto differs = [&](const MeetingHello& other) {
    EXPECT_NE(welcome, secret.welcome(other, nonce));
    EXPECT_NE(answer, secret.answer(other, nonce, card));
  };
  MeetingHello other = hello;
  other.rank = 2, differs(other), other = hello;
  other.size = 3, differs(other), other = hello;
  other.nonce[15] = 1, differs(other), other = hello;
  other.group[0] ^= 1, differs(other), other = hello;
  other.address[0] = 'x', differs(other);
  nonce[0] = 1;
  differs(hello);
  EXPECT_NE(key, secret.group_key(nonce, "g"));
}

// RC-2, RC-5, MSC-2: rank 0's own proof, said back to it, is no answer; nor is one that was said before.
TEST(JoinTest, AReflectedAndARepeatedProofAreRefusedAlone) {
  const std::string address = free_address();
  const auto codes = as_processes(2, [&](int r) {
    if (r == 1) {
      const Visit own =
          visit_of({.group = "net", .address = address, .token = "t", .rank = 1, .size = 2, .backend = Backend::kTcp});
      MeetingHello hello = own.hello;
      address.copy(hello.address.data(), hello.address.size());
      const MeetingSecret secret("t");
      MeetingAnswer answer{own.card, {}};
      for (int turn = 0; turn < 2; ++turn) {
        const UniqueFd socket = dialled(address);
        const auto soon = Clock::now() + std::chrono::seconds(50);
        MeetingWelcome welcome;
        if (!send_whole(socket.get(), &hello, sizeof hello, soon) ||
            !receive_whole(socket.get(), &welcome, sizeof welcome, soon) || welcome.refusal.error[0] != 0)
          return 1;
        if (welcome.proof != secret.welcome(hello, welcome.nonce)) return 2;
        if (turn == 0) answer.proof = welcome.proof;
        if (!send_whole(socket.get(), &answer, sizeof answer, soon)) return 3;
        answer.proof = secret.answer(hello, welcome.nonce, own.card);  // right for this connection only
        Refusal refusal;
        if (!receive_whole(socket.get(), &refusal, sizeof refusal, soon)) return 4;
        if (std::string(refusal.error) != "another token than rank 0's") return 5;
      }
    }
    return outcome([&] { (void)join("net", r, 2, {.address = address, .token = "t", .backend = Backend::kTcp}); });
  });
  EXPECT_EQ(codes, (std::vector{0, 0}));
}

// RC-2, RC-3, RV-1: who speaks version 2 hears of it in the words of version 2, of which 24 bytes can be read.
TEST(JoinTest, AnotherVersionIsToldApart) {
  for (const std::string& token : {std::string(), std::string("t")}) {
    const std::string address = free_address();
    const auto codes = as_processes(2, [&](int r) {
      std::string text;
      if (r == 0) {
        const int how = outcome([&] { (void)join("net", 0, 2, {.address = address, .token = token}); }, &text);
        if (!token.empty()) return how;
        return how == code(Reason::kMismatch) && text.find("version mismatch") != std::string::npos ? 0 : 2;
      }
      const std::array<std::uint32_t, 6> old{0x31565254, 2, 77, 0, 1, 2};
      std::array<char, 280> verdict{};
      const UniqueFd socket = dialled(address);
      const auto soon = Clock::now() + std::chrono::seconds(50);
      if (!send_whole(socket.get(), old.data(), sizeof old, soon)) return 3;
      if (!receive_whole(socket.get(), verdict.data(), verdict.size(), soon)) return 4;
      if (std::string(verdict.data()).find("rank 1 has version 2") == std::string::npos) return 5;
      if (token.empty()) return 0;
      return outcome([&] { (void)join("net", 1, 2, {.address = address, .token = token}); });
    });
    EXPECT_EQ(codes, (std::vector{0, 0}));
  }
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
      const MeetingPlan plan{.group = "meet",
                             .address = path,
                             .token = {},
                             .rank = 2,
                             .size = 3,
                             .deadline = Clock::now() + std::chrono::seconds(50)};
      const Visit own = visit_of(plan);
      (void)!::write(connected(path).get(), &own.hello, sizeof own.hello);  // gone before it is welcomed
      introduce(plan, own, connected(path).get());
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

// RC-1: more strangers than rank 0 has descriptors for make way for each other; they ended the meeting.
TEST(JoinTest, StrangersThatTakeAllDescriptorsEndNoMeeting) {
  const std::string address = free_address();
  int connected_all[2];
  ASSERT_EQ(::pipe(connected_all), 0);
  const UniqueFd read_end(connected_all[0]), write_end(connected_all[1]);
  const auto codes = as_processes(3, [&](int r) {
    char word = 0;
    if (r == 2) {
      std::vector<UniqueFd> strangers;
      while (strangers.size() < 100)
        if (auto one = dial(address, Clock::now() + std::chrono::seconds(50)); one.ok())
          strangers.push_back(std::move(*one));
      if (::write(write_end.get(), &word, 1) != 1) return 1;
      pollfd first{strangers.front().get(), POLLIN, 0};
      return ::poll(&first, 1, 50'000) == 1 ? 0 : 2;  // they stay until rank 0 ends, or puts the oldest out
    }
    if (r == 0) {
      const rlimit few{48, 48};
      ::setrlimit(RLIMIT_NOFILE, &few);
    } else if (::read(read_end.get(), &word, 1) != 1) {
      return 1;
    }
    return outcome([&] { (void)join("net", r, 2, {.address = address, .timeout = std::chrono::seconds(50)}); });
  });
  EXPECT_EQ(codes, (std::vector{0, 0, 0}));
}

// RV-3
TEST(JoinTest, RV3_WhoHasNoDescriptorForASocketDoesNotNameRank0) {
  if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors";
  const std::string address = free_address();
  const auto codes = as_processes(1, [&](int) {
    const FewDescriptors one(1);  // for its own listener: none is left to dial with
    std::string text;
    const int how = outcome(
        [&] {
          (void)join("net", 1, 2, {.address = address, .timeout = milliseconds(1000), .backend = Backend::kTcp});
        },
        &text);
    return how == code(Reason::kBackend) && text.find("no socket") != std::string::npos ? 0 : how;
  });
  EXPECT_EQ(codes, std::vector<int>{0});
}

// JP-4: the default path is in /tmp, where another user may have made a socket of that name before.
TEST(JoinTest, ASocketOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const std::string path = free_path();
  int listens[2];
  ASSERT_EQ(::pipe(listens), 0);
  const UniqueFd read_end(listens[0]), write_end(listens[1]);
  std::string text;
  const auto codes = as_processes(2, [&](int r) {
    char word = 0;
    if (r == 1) {
      if (::read(read_end.get(), &word, 1) != 1) return 1;
      const int refused = outcome([&] { (void)join("meet", 1, 2, {.address = path}); }, &text);
      return refused == code(Reason::kMismatch) && text.find("12345") != std::string::npos ? 0 : 2;
    }
    if (::setresuid(12345, 12345, 12345) != 0) return 3;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 4;
    if (::chmod(path.c_str(), 0777) != 0 || ::listen(socket.get(), 8) != 0) return 5;
    if (::write(write_end.get(), &word, 1) != 1) return 6;
    const UniqueFd guest(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 8> heard;
    return ::read(guest.get(), heard.data(), heard.size()) == 0 ? 0 : 7;  // it hangs up without a word
  });
  EXPECT_EQ(codes, (std::vector{0, 0}));
  ::unlink(path.c_str());
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
