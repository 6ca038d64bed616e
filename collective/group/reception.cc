#include "collective/group/reception.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/shm/segment.h"
#include "core/net/base/proof.h"
#include "core/net/base/socket.h"
#include "core/net/base/source.h"

namespace troupe::collective {
namespace {

using Ruling = Judgement::Ruling;

constexpr int kGreetedAtOnce = 64;
constexpr std::size_t kGuestsMax = 1024;  // connections that have not shown their card: strangers, most of them
constexpr std::size_t kTokenMax = 128;

/// What ranks must agree on beyond the version: the layout of what they exchange.
std::uint64_t build_number() {
  return std::uint64_t(sizeof(MeetingHello) + sizeof(MeetingAnswer)) << 32 | std::uint64_t(sizeof(ShmControl)) << 16 |
         sizeof(RankLines) << 4 | sizeof(void*);
}

template <std::size_t N> std::string text_of(const char (&chars)[N]) { return std::string(chars, ::strnlen(chars, N)); }

bool same_layout(const MeetingHello& a, const MeetingHello& b) { return a.version == b.version && a.build == b.build; }

constexpr char kAnotherToken[] = "another token than rank 0's";

/// One end of a connection, numeric; empty for a path (RC-5).
std::string address_of(int fd, std::string (*end)(int)) {
  int domain = AF_UNIX;
  socklen_t size = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX) return {};
  return end(fd);
}

void tell(int fd, Reason reason, const std::string& error) {
  Verdict verdict;  // begins as everything that rank 0 can say
  verdict.refusal.reason = std::uint32_t(reason);
  error.copy(verdict.refusal.error, sizeof verdict.refusal.error - 1);
  // its buffer takes it at once, or nobody is there
  (void)::send(fd, &verdict, sizeof verdict, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Rank 0's side while ranks come in.
class Reception {
 public:
  Reception(const MeetingPlan& plan, const Visit& own, int listener)
      : plan_(plan),
        own_(own),
        secret_(plan.token),
        listener_(listener),
        until_(plan.deadline),
        here_(std::size_t(plan.size), false) {
    arrivals_.cards.resize(std::size_t(plan.size));
    arrivals_.sockets.resize(std::size_t(plan.size));
    arrivals_.greetings.resize(std::size_t(plan.size));
    arrivals_.cards[0] = own.card;
    here_[0] = true;
  }

  Arrivals run() {
    while (std::ranges::count(here_, false) > 0 && Clock::now() < until_) {
      wait();
      greet();
      listen_to_guests();
      look_for_hangups();
    }
    if (!disagreement_.empty()) fail_meeting(plan_, Reason::kMismatch, disagreement_);
    std::vector<int> missing;
    for (int r = 1; r < plan_.size; ++r)
      if (!here_[std::size_t(r)]) missing.push_back(r);
    if (!missing.empty()) {
      refuse_all(arrivals_, Reason::kTimeout, fmt::format("ranks {} did not come", fmt::join(missing, ", ")));
      fail_meeting(plan_, Reason::kTimeout, fmt::format("ranks {} did not come", fmt::join(missing, ", ")), missing);
    }
    return std::move(arrivals_);
  }

 private:
  struct Guest {
    UniqueFd fd;
    net::Source source{};
    Clock::time_point until;
    std::size_t got = 0;  ///< of what is being read: its hello, then its answer
    bool welcomed = false;
    MeetingHello hello{};
    MeetingNonce nonce{};
    MeetingAnswer answer{};
  };
  enum class Heard { kWhole, kMore, kGone };

  void wait() {
    polled_.assign(1, {listener_, POLLIN, 0});
    auto until = until_;
    for (const Guest& guest : guests_)
      polled_.push_back({guest.fd.get(), POLLIN, 0}), until = std::min(until, guest.until);
    for (const UniqueFd& socket : arrivals_.sockets)
      if (socket) polled_.push_back({socket.get(), POLLRDHUP, 0});
    // a signal, a deadline, an event: everything is looked at
    (void)::poll(polled_.data(), polled_.size(), milliseconds_until(until));
  }

  /// A few at a time, so that those who are here are heard between them, and the deadline is looked at.
  void greet() {
    for (int i = 0; i < kGreetedAtOnce; ++i) {
      UniqueFd one(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (one) {
        if (guests_.size() >= kGuestsMax) make_room();
        const net::Source source = net::source_of(one.get());
        guests_.push_back({.fd = std::move(one), .source = source, .until = Clock::now() + kStranger});
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        if (!guests_.empty()) {
          make_room();
          continue;
        }
        const std::string text = fmt::format("rank 0 cannot take another connection: {}", std::strerror(errno));
        refuse_all(arrivals_, Reason::kBackend, text);
        fail_meeting(plan_, Reason::kBackend, text);
      }
      return;
    }
  }

  /// RC-1
  void make_room() {
    std::vector<net::Source> sources;
    for (const Guest& guest : guests_) sources.push_back(guest.source);
    guests_.erase(std::next(guests_.begin(), std::ptrdiff_t(net::who_makes_way(sources))));
  }

  void listen_to_guests() {
    const auto now = Clock::now();
    std::erase_if(guests_, [&](Guest& guest) { return !stays(guest, now); });
  }

  /// False: it is through, refused, gone, or too late (RC-1).
  bool stays(Guest& guest, Clock::time_point now) {
    if (!guest.welcomed) {
      const Heard heard = hear(guest, &guest.hello, sizeof guest.hello);
      if (heard != Heard::kWhole) return heard == Heard::kMore && now < guest.until;
      if (!welcome(guest)) return false;
    }
    const Heard heard = hear(guest, &guest.answer, sizeof guest.answer);
    if (heard == Heard::kWhole) admit(guest);
    return heard == Heard::kMore && now < guest.until;
  }

  Heard hear(Guest& guest, void* into, std::size_t size) {
    while (guest.got < size) {
      // a hello of another version may be shorter than ours
      if (!guest.welcomed && guest.got >= kFirstWords && !same_layout(guest.hello, own_.hello)) break;
      const ssize_t n = ::recv(guest.fd.get(), static_cast<char*>(into) + guest.got, size - guest.got, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n < 0 && errno == EAGAIN ? Heard::kMore : Heard::kGone;
      guest.got += std::size_t(n);
    }
    return Heard::kWhole;
  }

  /// RC-5: rank 0 proves first.
  bool welcome(Guest& guest) {
    const Judgement judgement = judge_hello(guest.hello, own_.hello, address_of(guest.fd.get(), net::local_address),
                                            !plan_.token.empty());
    if (judgement.ruling != Ruling::kWelcome) return settle(guest, judgement), false;
    if (!net::fill_random(guest.nonce).ok()) return false;
    MeetingWelcome welcome;
    welcome.nonce = guest.nonce;
    welcome.proof = secret_.welcome(guest.hello, guest.nonce);
    guest.welcomed = true;
    guest.got = 0;
    guest.until = Clock::now() + kStranger;
    // the first bytes on a new connection: its buffer takes them at once, or nobody is there
    return ::send(guest.fd.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(sizeof welcome);
  }

  void admit(Guest& guest) {
    const MeetingAnswer& answer = guest.answer;
    if (!net::same_proof(answer.proof, secret_.answer(guest.hello, guest.nonce, answer.card)))
      return tell(guest.fd.get(), Reason::kMismatch, kAnotherToken);
    settle(guest, judge({guest.hello, answer.card}, own_, here_));
  }

  void settle(Guest& guest, const Judgement& judgement) {
    if (judgement.ruling == Ruling::kRefused) return tell(guest.fd.get(), Reason::kMismatch, judgement.text);
    if (judgement.ruling == Ruling::kDisagrees && disagreement_.empty()) {  // RC-3
      disagreement_ = judgement.text;
      until_ = std::min<Clock::time_point>(until_, Clock::now() + kFarewell);
      refuse_all(arrivals_, Reason::kMismatch, disagreement_);
      for (UniqueFd& socket : arrivals_.sockets) socket.reset();  // their ends are no news any more
    }
    if (!disagreement_.empty()) tell(guest.fd.get(), Reason::kMismatch, disagreement_);
    const int rank = guest.hello.rank;
    if (rank < 1 || rank >= plan_.size) return;
    here_[std::size_t(rank)] = true;
    if (!disagreement_.empty()) return;
    arrivals_.cards[std::size_t(rank)] = guest.answer.card;
    arrivals_.greetings[std::size_t(rank)] = {guest.hello, guest.nonce};
    arrivals_.sockets[std::size_t(rank)] = std::move(guest.fd);
  }

  /// RC-4
  void look_for_hangups() {
    for (int r = 1; r < plan_.size; ++r) {
      UniqueFd& socket = arrivals_.sockets[std::size_t(r)];
      if (!socket) continue;
      pollfd one{socket.get(), POLLRDHUP, 0};
      if (::poll(&one, 1, 0) <= 0) continue;
      socket.reset();
      here_[std::size_t(r)] = false;
    }
  }

  const MeetingPlan& plan_;
  const Visit& own_;
  const MeetingSecret secret_;
  const int listener_;
  Clock::time_point until_;
  std::vector<bool> here_;
  std::list<Guest> guests_;
  Arrivals arrivals_;
  std::string disagreement_;
  std::vector<pollfd> polled_;
};

}  // namespace

void fail_meeting(const MeetingPlan& plan, Reason reason, const std::string& text, std::vector<int> missing) {
  throw CollectiveError::from({.reason = reason,
                               .group = plan.group,
                               .operation = "join",
                               .rank = plan.rank,
                               .missing_ranks = std::move(missing)},
                              text);
}

Visit visit_of(const MeetingPlan& plan) {
  if (plan.token.size() >= kTokenMax)
    throw InvalidArgumentError(fmt::format("join: the token is longer than {} bytes", kTokenMax - 1));
  Visit visit;
  visit.hello.build = build_number();
  visit.hello.rank = plan.rank;
  visit.hello.size = plan.size;
  visit.hello.group = net::sha256(plan.group);
  Card& card = visit.card;
  card.pid = ::getpid();
  card.backend = std::uint32_t(plan.backend);
  card.user = ::geteuid();
  plan.group.copy(card.group, sizeof card.group - 1);
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) card.process_namespace = info.st_ino;
  const UniqueFd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot && ::read(boot.get(), card.boot, sizeof card.boot - 1) < 0) card.boot[0] = 0;
  return visit;
}

bool same_machine(const Card& a, const Card& b) {
  return a.boot[0] != 0 && std::memcmp(a.boot, b.boot, sizeof a.boot) == 0 &&
         a.process_namespace == b.process_namespace && a.user == b.user;
}

Judgement judge_hello(const MeetingHello& hello, const MeetingHello& own, std::string_view here, bool token_asked) {
  if (hello.magic != MeetingHello::kMagic) return {Ruling::kRefused, "this is not Troupe"};
  if (!same_layout(hello, own))
    return {token_asked ? Ruling::kRefused : Ruling::kDisagrees,
            fmt::format("version mismatch: rank {} has version {} (build {:x}), rank 0 has version {} (build {:x})",
                        hello.rank, hello.version, hello.build, own.version, own.build)};
  const std::string_view dialled(hello.address.data(), ::strnlen(hello.address.data(), hello.address.size()));
  if (token_asked && dialled != here)
    return {Ruling::kRefused,
            "the connection was dialled to another address than the one where it came in: by a relay, or a translated "
            "address, which only ranks without a token may use"};
  return {};
}

Judgement judge(const Visit& guest, const Visit& own, const std::vector<bool>& here) {
  const MeetingHello& hello = guest.hello;
  if (hello.group != own.hello.group)
    return {Ruling::kDisagrees, fmt::format("rank {} joins the group '{}', rank 0 '{}'", hello.rank,
                                            text_of(guest.card.group), text_of(own.card.group))};
  if (hello.size != own.hello.size)
    return {Ruling::kDisagrees,
            fmt::format("rank {} says {} ranks, rank 0 says {}", hello.rank, hello.size, own.hello.size)};
  if (guest.card.backend != own.card.backend)
    return {Ruling::kDisagrees, fmt::format("rank {} wants another backend than rank 0", hello.rank)};
  if (hello.rank < 1 || hello.rank >= own.hello.size)
    return {Ruling::kRefused, fmt::format("there is no rank {} of {}", hello.rank, own.hello.size)};
  if (here[std::size_t(hello.rank)]) return {Ruling::kRefused, fmt::format("rank {} has come twice", hello.rank)};
  return {};
}

Arrivals receive_cards(const MeetingPlan& plan, const Visit& own, int listener) {
  return Reception(plan, own, listener).run();
}

void refuse_all(const Arrivals& arrivals, Reason reason, const std::string& text) {
  for (const UniqueFd& socket : arrivals.sockets)
    if (socket) tell(socket.get(), reason, text);
}

void check_verdict(const MeetingPlan& plan, const MeetingGreeting& greeting, const Verdict& verdict,
                   std::span<const Card> cards) {
  check_refusal(plan, verdict.refusal);
  if (!net::same_proof(verdict.proof, MeetingSecret(plan.token).verdict(greeting, verdict, cards)))
    fail_meeting(plan, Reason::kMismatch, "what came as rank 0's verdict is not what it has said: it was altered");
}

void check_refusal(const MeetingPlan& plan, const Refusal& refusal) {
  if (refusal.error[0] != 0)
    fail_meeting(plan, Reason(std::min(refusal.reason, std::uint32_t(Reason::kBackend))), text_of(refusal.error));
}

MeetingNonce draw_nonce(const MeetingPlan& plan) {
  MeetingNonce nonce;
  if (Status filled = net::fill_random(nonce); !filled.ok())
    fail_meeting(plan, Reason::kBackend, filled.error().message());
  return nonce;
}

MeetingGreeting introduce(const MeetingPlan& plan, const Visit& own, int socket) {
  const auto receive = [&](void* into, std::size_t size) {
    if (receive_whole(socket, into, size, plan.deadline)) return;
    if (Clock::now() >= plan.deadline)
      fail_meeting(plan, Reason::kTimeout, "rank 0 does not answer: not all ranks have come", {0});
    fail_meeting(plan, Reason::kDied, "rank 0 hung up", {0});
  };
  MeetingHello hello = own.hello;
  hello.nonce = draw_nonce(plan);
  address_of(socket, net::peer_address).copy(hello.address.data(), hello.address.size());
  (void)send_whole(socket, &hello, sizeof hello, plan.deadline);  // where it fails, the answer says more
  MeetingWelcome welcome;
  receive(&welcome.refusal, sizeof welcome.refusal);
  check_refusal(plan, welcome.refusal);  // of another version nothing may follow
  receive(&welcome.nonce, sizeof welcome - sizeof welcome.refusal);
  const MeetingSecret secret(plan.token);
  if (!net::same_proof(welcome.proof, secret.welcome(hello, welcome.nonce)))
    fail_meeting(plan, Reason::kMismatch, kAnotherToken);
  const MeetingAnswer answer{own.card, secret.answer(hello, welcome.nonce, own.card)};
  (void)send_whole(socket, &answer, sizeof answer, plan.deadline);
  return {hello, welcome.nonce};
}

}  // namespace troupe::collective
