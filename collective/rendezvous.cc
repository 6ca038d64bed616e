#include "collective/rendezvous.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/shm_communicator.h"
#include "collective/tcp_mesh.h"

namespace troupe::collective {
namespace {

constexpr std::uint32_t kMagic = 0x31565254, kVersion = 1;  // "TRV1"
constexpr auto kStranger = std::chrono::seconds(2);         // one that connects and says nothing
constexpr int kAgainMs = 10;

struct Card {
  std::uint32_t magic = kMagic, version = kVersion;
  std::uint64_t build = 0;
  std::int32_t rank = 0, size = 0, pid = 0;
  std::uint32_t backend = 0, user = 0, reserved = 0;
  std::uint64_t process_namespace = 0;
  char token[128] = {}, boot[40] = {};
  MeshAddress address;
};
struct Verdict {
  char error[256] = {};
  std::uint32_t backend = 0, reserved = 0;
  std::uint64_t key = 0;
  std::int32_t founder_fd = -1, reserved2 = 0;
};

/// What ranks must agree on beyond the version: the layout of what they exchange.
std::uint64_t build_number() { return sizeof(Card) << 32 | sizeof(ShmControl) << 16 | sizeof(RankLines) << 4 | sizeof(void*); }

[[noreturn]] void fail(const MeetingPlan& plan, Reason reason, const std::string& text, std::vector<int> missing = {}) {
  throw CollectiveError::from({.reason = reason, .group = plan.group, .operation = "join", .rank = plan.rank, .missing_ranks = std::move(missing)}, text);
}

template <std::size_t N> std::string text_of(const char (&chars)[N]) { return std::string(chars, ::strnlen(chars, N)); }

/// The time depends on the sizes alone.
bool same_token(const Card& a, const Card& b) {
  unsigned char difference = 0;
  for (std::size_t i = 0; i < sizeof a.token; ++i) difference = static_cast<unsigned char>(difference | (static_cast<unsigned char>(a.token[i]) ^ static_cast<unsigned char>(b.token[i])));
  return difference == 0;
}

bool same_machine(const Card& a, const Card& b) {
  return a.boot[0] != 0 && std::memcmp(a.boot, b.boot, sizeof a.boot) == 0 && a.process_namespace == b.process_namespace && a.user == b.user;
}

Card own_card(const MeetingPlan& plan) {
  if (plan.token.size() >= sizeof(Card::token)) throw InvalidArgumentError("join: the token is longer than 127 bytes");
  Card card;
  card.build = build_number();
  card.rank = plan.rank;
  card.size = plan.size;
  card.pid = ::getpid();
  card.backend = std::uint32_t(plan.backend);
  card.user = ::geteuid();
  plan.token.copy(card.token, sizeof card.token - 1);
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) card.process_namespace = info.st_ino;
  const UniqueFd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot && ::read(boot.get(), card.boot, sizeof card.boot - 1) < 0) card.boot[0] = 0;
  return card;
}

/// RV-1. Empty: welcome.
std::string objection(const Card& card, const Card& own, const std::vector<bool>& here) {
  if (card.magic != kMagic) return "this is not Troupe";
  if (card.version != kVersion || card.build != own.build) return fmt::format("version mismatch: rank {} has version {} (build {:x}), rank 0 has version {} (build {:x})", card.rank, card.version, card.build, own.version, own.build);
  if (!same_token(card, own)) return "another token than rank 0's";
  if (card.size != own.size) return fmt::format("rank {} says {} ranks, rank 0 says {}", card.rank, card.size, own.size);
  if (card.backend != own.backend) return fmt::format("rank {} wants another backend than rank 0", card.rank);
  if (card.rank < 1 || card.rank >= own.size) return fmt::format("there is no rank {} of {}", card.rank, own.size);
  if (here[std::size_t(card.rank)]) return fmt::format("rank {} has come twice", card.rank);
  return {};
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

UniqueFd listen_at(const MeetingPlan& plan) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const auto colon = plan.address.rfind(':');
  if (const int error = ::getaddrinfo(plan.address.substr(0, colon).c_str(), plan.address.substr(colon + 1).c_str(), &hints, &found); error != 0)
    throw InvalidArgumentError(fmt::format("join: '{}': {}", plan.address, ::gai_strerror(error)));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), 1024) != 0)
    fail(plan, Reason::kBackend, fmt::format("rank 0 cannot listen at {}: {}", plan.address, std::strerror(errno)));
  return fd;
}

struct Table {
  Backend backend = Backend::kTcp;
  std::uint64_t key = 0;
  int founder_fd = -1;
  std::vector<Card> cards;
  std::shared_ptr<ShmSegment> segment;
};

/// Rank 0: waits for all, then tells all.
Table receive_all(const MeetingPlan& plan, const Card& own) {
  Table table;
  std::random_device random;
  table.key = std::uint64_t(random()) << 32 | random();
  table.cards.resize(static_cast<std::size_t>(plan.size));
  table.cards[0] = own;
  const UniqueFd listener = plan.size > 1 ? listen_at(plan) : UniqueFd();
  std::vector<bool> here(std::size_t(plan.size), false);
  std::vector<UniqueFd> sockets(static_cast<std::size_t>(plan.size));
  for (int come = 1; come < plan.size;) {
    pollfd one{listener.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(plan.deadline - Clock::now(), std::chrono::hours(1))).count();
    if (left <= 0 || ::poll(&one, 1, int(left)) <= 0) {
      if (Clock::now() < plan.deadline) continue;
      std::vector<int> missing;
      for (int r = 1; r < plan.size; ++r)
        if (!here[std::size_t(r)]) missing.push_back(r);
      fail(plan, Reason::kTimeout, fmt::format("ranks {} did not come", fmt::join(missing, ", ")), missing);
    }
    UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Card card;
    if (!socket || !receive_whole(socket.get(), &card, sizeof card, std::min(plan.deadline, Clock::now() + kStranger))) continue;
    const std::string wrong = objection(card, own, here);
    if (!wrong.empty()) {
      Verdict verdict;
      wrong.copy(verdict.error, sizeof verdict.error - 1);
      (void)send_whole(socket.get(), &verdict, sizeof verdict, std::min(plan.deadline, Clock::now() + kStranger));
      continue;
    }
    here[std::size_t(card.rank)] = true;
    table.cards[std::size_t(card.rank)] = card;
    sockets[std::size_t(card.rank)] = std::move(socket);
    ++come;
  }
  const bool together = std::ranges::all_of(table.cards, [&](const Card& card) { return same_machine(card, own); });
  if (plan.backend == Backend::kShm && !together) fail(plan, Reason::kBackend, "shared memory was asked for, but the ranks are not on one machine");
  table.backend = plan.backend == Backend::kShm || (plan.backend != Backend::kTcp && together) ? Backend::kShm : Backend::kTcp;
  if (table.backend == Backend::kShm) {
    table.segment = ShmSegment::create({.ranks = plan.size, .epoch = 1, .key = table.key}).value();
    table.founder_fd = table.segment->fd();
  }
  Verdict verdict;
  verdict.backend = std::uint32_t(table.backend);
  verdict.key = table.key;
  verdict.founder_fd = table.founder_fd;
  for (auto& card : table.cards) std::memset(card.token, 0, sizeof card.token);
  for (int r = 1; r < plan.size; ++r) {
    const int fd = sockets[std::size_t(r)].get();
    if (!send_whole(fd, &verdict, sizeof verdict, plan.deadline) || !send_whole(fd, table.cards.data(), table.cards.size() * sizeof(Card), plan.deadline))
      fail(plan, Reason::kDied, fmt::format("rank {} hung up", r), {r});
  }
  return table;
}

Table ask(const MeetingPlan& plan, const Card& own) {
  UniqueFd socket;
  for (;;) {  // rank 0 may not be there yet: there is no event for the birth of a listener
    auto dialled = dial(plan.address, plan.deadline);
    if (dialled.ok()) {
      socket = *std::move(dialled);
      break;
    }
    if (dialled.error().code() == ErrorCode::kInvalidArgument) dialled.error().raise();
    if (Clock::now() >= plan.deadline) fail(plan, Reason::kTimeout, fmt::format("rank 0 does not listen at {}", plan.address), {0});
    (void)::poll(nullptr, 0, kAgainMs);
  }
  Table table;
  Verdict verdict;
  if (!send_whole(socket.get(), &own, sizeof own, plan.deadline) || !receive_whole(socket.get(), &verdict, sizeof verdict, plan.deadline)) {
    if (Clock::now() >= plan.deadline) fail(plan, Reason::kTimeout, "rank 0 does not answer: not all ranks have come", {0});
    fail(plan, Reason::kDied, "rank 0 hung up", {0});
  }
  if (verdict.error[0] != 0) fail(plan, Reason::kMismatch, text_of(verdict.error));
  table.backend = Backend(verdict.backend);
  table.key = verdict.key;
  table.founder_fd = verdict.founder_fd;
  table.cards.resize(static_cast<std::size_t>(plan.size));
  if (!receive_whole(socket.get(), table.cards.data(), table.cards.size() * sizeof(Card), plan.deadline)) fail(plan, Reason::kDied, "rank 0 hung up", {0});
  return table;
}

/// Where others reach this process: the address by which it reaches rank 0, or rank 0's own.
std::string listening_host(const MeetingPlan& plan) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;  // nothing is sent: the route tells the address
  const auto colon = plan.address.rfind(':');
  if (::getaddrinfo(host_of(plan.address).c_str(), plan.address.substr(colon + 1).c_str(), &hints, &found) != 0) throw InvalidArgumentError(fmt::format("join: '{}' is no address", plan.address));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[48] = {};
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    fail(plan, Reason::kBackend, fmt::format("no way to {}: {}", plan.address, std::strerror(errno)));
  return host;
}

}  // namespace

std::unique_ptr<Communicator> meet_at(const MeetingPlan& plan) {
  if (plan.size > kTcpRanksMax) throw InvalidArgumentError(fmt::format("join: {} ranks, and at most {} can meet", plan.size, kTcpRanksMax));
  MeshListener listener = MeshListener::open(listening_host(plan)).value();
  Card own = own_card(plan);
  own.address = listener.address();
  const Table table = plan.rank == 0 ? receive_all(plan, own) : ask(plan, own);
  if (table.backend == Backend::kShm) {
    auto segment = table.segment ? table.segment : ShmSegment::attach_from(table.cards[0].pid, table.founder_fd, table.key).value();
    return std::make_unique<ShmCommunicator>(std::move(segment), plan.rank);
  }
  std::vector<MeshAddress> addresses;
  for (const Card& card : table.cards) addresses.push_back(card.address);
  const int here = int(std::ranges::count_if(table.cards, [&](const Card& card) { return same_machine(card, own); }));
  auto links = connect_mesh({plan.rank, plan.size, 1}, std::move(listener), addresses, table.key, plan.deadline);
  if (!links.ok()) fail(plan, Reason::kTimeout, links.error().message());
  return std::make_unique<TcpCommunicator>(*std::move(links), TcpOptions{.deterministic = plan.deterministic, .ranks_here = here, .key = table.key});
}

}  // namespace troupe::collective
