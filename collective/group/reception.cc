#include "collective/group/reception.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/shm/segment.h"
#include "core/net/base/source.h"

namespace troupe::collective {
namespace {

using Ruling = Judgement::Ruling;

constexpr std::size_t kGuestsMax = 1024;  // connections that have not shown their card: strangers, most of them

/// What ranks must agree on beyond the version: the layout of what they exchange.
std::uint64_t build_number() {
  return std::uint64_t(sizeof(Card)) << 32 | std::uint64_t(sizeof(ShmControl)) << 16 | sizeof(RankLines) << 4 |
         sizeof(void*);
}

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

template <std::size_t N> std::string text_of(const char (&chars)[N]) { return std::string(chars, ::strnlen(chars, N)); }

bool same_layout(const Card& a, const Card& b) { return a.version == b.version && a.build == b.build; }

bool same_token(const Card& a, const Card& b) {
  unsigned char difference = 0;
  for (std::size_t i = 0; i < sizeof a.token; ++i)
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a.token[i]) ^ static_cast<unsigned char>(b.token[i])));
  return difference == 0;
}

void tell(int fd, Reason reason, const std::string& error) {
  Verdict verdict;
  verdict.reason = std::uint32_t(reason);
  error.copy(verdict.error, sizeof verdict.error - 1);
  // its buffer takes it at once, or nobody is there
  (void)send_whole(fd, &verdict, sizeof verdict, Clock::now() + kStranger);
}

/// Rank 0's side while ranks come in.
class Reception {
 public:
  Reception(const MeetingPlan& plan, const Card& own, int listener)
      : plan_(plan), own_(own), listener_(listener), until_(plan.deadline), here_(std::size_t(plan.size), false) {
    arrivals_.cards.resize(std::size_t(plan.size));
    arrivals_.sockets.resize(std::size_t(plan.size));
    arrivals_.cards[0] = own;
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
    for (Card& card : arrivals_.cards) std::memset(card.token, 0, sizeof card.token);
    return std::move(arrivals_);
  }

 private:
  struct Guest {
    UniqueFd fd;
    net::Source source{};
    Clock::time_point until;
    Card card{};
    std::size_t got = 0;
  };

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

  void greet() {
    for (;;) {
      UniqueFd one(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (one) {
        if (guests_.size() >= kGuestsMax) make_room();
        const net::Source source = net::source_of(one.get());
        guests_.push_back({.fd = std::move(one), .source = source, .until = Clock::now() + kStranger});
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
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
    std::erase_if(guests_, [&](Guest& guest) {
      while (guest.got < sizeof guest.card) {
        if (guest.got >= offsetof(Card, pid) && !same_layout(guest.card, own_)) break;  // it may be shorter than ours
        const ssize_t n = ::recv(guest.fd.get(), reinterpret_cast<char*>(&guest.card) + guest.got,
                                 sizeof guest.card - guest.got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return now >= guest.until;  // RC-1
        if (n <= 0) return true;
        guest.got += std::size_t(n);
      }
      admit(guest);
      return true;
    });
  }

  void admit(Guest& guest) {
    const Judgement judgement = judge(guest.card, own_, here_);
    if (judgement.ruling == Ruling::kRefused) return tell(guest.fd.get(), Reason::kMismatch, judgement.text);
    if (judgement.ruling == Ruling::kDisagrees && disagreement_.empty()) {  // RC-3
      disagreement_ = judgement.text;
      until_ = std::min<Clock::time_point>(until_, Clock::now() + kFarewell);
      refuse_all(arrivals_, Reason::kMismatch, disagreement_);
    }
    if (!disagreement_.empty()) tell(guest.fd.get(), Reason::kMismatch, disagreement_);
    const int rank = guest.card.rank;
    if (rank < 1 || rank >= plan_.size) return;
    here_[std::size_t(rank)] = true;
    if (!disagreement_.empty()) return;
    arrivals_.cards[std::size_t(rank)] = guest.card;
    arrivals_.sockets[std::size_t(rank)] = std::move(guest.fd);
  }

  /// RC-4
  void look_for_hangups() {
    for (int r = 1; r < plan_.size; ++r) {
      UniqueFd& socket = arrivals_.sockets[std::size_t(r)];
      if (!socket || !disagreement_.empty()) continue;
      pollfd one{socket.get(), POLLRDHUP, 0};
      if (::poll(&one, 1, 0) <= 0) continue;
      socket.reset();
      here_[std::size_t(r)] = false;
    }
  }

  const MeetingPlan& plan_;
  const Card& own_;
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

Card card_of(const MeetingPlan& plan) {
  if (plan.token.size() >= sizeof(Card::token)) throw InvalidArgumentError("join: the token is longer than 127 bytes");
  Card card;
  card.build = build_number();
  card.rank = plan.rank;
  card.size = plan.size;
  card.pid = ::getpid();
  card.backend = std::uint32_t(plan.backend);
  card.user = ::geteuid();
  card.group_hash = hash_of(plan.group);
  plan.group.copy(card.group, sizeof card.group - 1);
  plan.token.copy(card.token, sizeof card.token - 1);
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) card.process_namespace = info.st_ino;
  const UniqueFd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot && ::read(boot.get(), card.boot, sizeof card.boot - 1) < 0) card.boot[0] = 0;
  return card;
}

bool same_machine(const Card& a, const Card& b) {
  return a.boot[0] != 0 && std::memcmp(a.boot, b.boot, sizeof a.boot) == 0 &&
         a.process_namespace == b.process_namespace && a.user == b.user;
}

Judgement judge(const Card& card, const Card& own, const std::vector<bool>& here) {
  if (card.magic != Card::kMagic) return {Ruling::kRefused, "this is not Troupe"};
  if (!same_layout(card, own))
    return {own.token[0] == 0 ? Ruling::kDisagrees : Ruling::kRefused,
            fmt::format("version mismatch: rank {} has version {} (build {:x}), rank 0 has version {} (build {:x})",
                        card.rank, card.version, card.build, own.version, own.build)};
  if (!same_token(card, own)) return {Ruling::kRefused, "another token than rank 0's"};
  if (card.group_hash != own.group_hash)
    return {Ruling::kDisagrees, fmt::format("rank {} joins the group '{}', rank 0 '{}'", card.rank, text_of(card.group),
                                            text_of(own.group))};
  if (card.size != own.size)
    return {Ruling::kDisagrees, fmt::format("rank {} says {} ranks, rank 0 says {}", card.rank, card.size, own.size)};
  if (card.backend != own.backend)
    return {Ruling::kDisagrees, fmt::format("rank {} wants another backend than rank 0", card.rank)};
  if (card.rank < 1 || card.rank >= own.size)
    return {Ruling::kRefused, fmt::format("there is no rank {} of {}", card.rank, own.size)};
  if (here[std::size_t(card.rank)]) return {Ruling::kRefused, fmt::format("rank {} has come twice", card.rank)};
  return {};
}

Arrivals receive_cards(const MeetingPlan& plan, const Card& own, int listener) {
  return Reception(plan, own, listener).run();
}

void refuse_all(const Arrivals& arrivals, Reason reason, const std::string& text) {
  for (const UniqueFd& socket : arrivals.sockets)
    if (socket) tell(socket.get(), reason, text);
}

void check_verdict(const MeetingPlan& plan, const Verdict& verdict) {
  if (verdict.error[0] != 0)
    fail_meeting(plan, Reason(std::min(verdict.reason, std::uint32_t(Reason::kBackend))), text_of(verdict.error));
}

}  // namespace troupe::collective
