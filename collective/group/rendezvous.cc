#include "collective/group/rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "collective/shm/communicator.h"
#include "collective/tcp/mesh.h"

namespace troupe::collective {
namespace {

constexpr int kAgainMs = 10;

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

UniqueFd listen_at(const MeetingPlan& plan) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const auto colon = plan.address.rfind(':');
  if (const int error =
          ::getaddrinfo(plan.address.substr(0, colon).c_str(), plan.address.substr(colon + 1).c_str(), &hints, &found);
      error != 0)
    throw InvalidArgumentError(fmt::format("join: '{}': {}", plan.address, ::gai_strerror(error)));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), 1024) != 0)
    fail_meeting(plan, Reason::kBackend,
                 fmt::format("rank 0 cannot listen at {}: {}", plan.address, std::strerror(errno)));
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
Table receive_all(const MeetingPlan& plan, const Visit& own) {
  Table table;
  const MeetingNonce meeting = draw_nonce(plan);
  table.key = MeetingSecret(plan.token).group_key(meeting, plan.group);
  if (plan.size == 1) table.cards = {own.card};
  const UniqueFd listener = plan.size > 1 ? listen_at(plan) : UniqueFd();
  Arrivals arrivals;
  if (plan.size > 1) {
    arrivals = receive_cards(plan, own, listener.get());
    table.cards = arrivals.cards;
  }
  const bool together = std::ranges::all_of(table.cards, [&](const Card& one) { return same_machine(one, own.card); });
  if (plan.backend == Backend::kShm && !together) {
    const std::string text = "shared memory was asked for, but the ranks are not on one machine";
    refuse_all(arrivals, Reason::kBackend, text);
    fail_meeting(plan, Reason::kBackend, text);
  }
  table.backend =
      plan.backend == Backend::kShm || (plan.backend != Backend::kTcp && together) ? Backend::kShm : Backend::kTcp;
  if (table.backend == Backend::kShm) {
    auto segment = ShmSegment::create({.ranks = plan.size, .epoch = 1, .key = table.key});
    if (!segment.ok()) refuse_all(arrivals, Reason::kBackend, segment.error().message());
    table.segment = std::move(segment).value();
    table.founder_fd = table.segment->fd();
  }
  Verdict verdict;
  verdict.backend = std::uint32_t(table.backend);
  verdict.founder_fd = table.founder_fd;
  verdict.meeting = meeting;
  const MeetingSecret secret(plan.token);
  for (int r = 1; r < plan.size; ++r) {
    const int fd = arrivals.sockets[std::size_t(r)].get();
    verdict.proof = secret.verdict(arrivals.greetings[std::size_t(r)], verdict, table.cards);
    if (!send_whole(fd, &verdict, sizeof verdict, plan.deadline) ||
        !send_whole(fd, table.cards.data(), table.cards.size() * sizeof(Card), plan.deadline))
      fail_meeting(plan, Reason::kDied, fmt::format("rank {} hung up", r), {r});
  }
  return table;
}

Table ask(const MeetingPlan& plan, const Visit& own) {
  UniqueFd socket;
  for (;;) {  // rank 0 may not be there yet: there is no event for the birth of a listener
    auto dialled = dial(plan.address, plan.deadline);
    if (dialled.ok()) {
      socket = *std::move(dialled);
      break;
    }
    if (dialled.error().code() == ErrorCode::kInvalidArgument) dialled.error().raise();
    // It lacks a socket: that may pass, and at the deadline rank 0 is not to blame for it (RV-3).
    const bool by_itself = dialled.error().code() != ErrorCode::kCollective;
    if (Clock::now() >= plan.deadline && by_itself)
      fail_meeting(plan, Reason::kBackend, fmt::format("rank {}: {}", plan.rank, dialled.error().message()));
    if (Clock::now() >= plan.deadline)
      fail_meeting(plan, Reason::kTimeout, fmt::format("rank 0 does not listen at {}", plan.address), {0});
    (void)::poll(nullptr, 0, kAgainMs);
  }
  const MeetingGreeting greeting = introduce(plan, own, socket.get());
  Table table;
  Verdict verdict;
  if (!receive_whole(socket.get(), &verdict, sizeof verdict, plan.deadline)) {
    if (Clock::now() >= plan.deadline)
      fail_meeting(plan, Reason::kTimeout, "rank 0 does not answer: not all ranks have come", {0});
    fail_meeting(plan, Reason::kDied, "rank 0 hung up", {0});
  }
  check_refusal(plan, verdict.refusal);
  table.cards.resize(static_cast<std::size_t>(plan.size));
  if (!receive_whole(socket.get(), table.cards.data(), table.cards.size() * sizeof(Card), plan.deadline))
    fail_meeting(plan, Reason::kDied, "rank 0 hung up", {0});
  check_verdict(plan, greeting, verdict, table.cards);
  table.backend = Backend(verdict.backend);
  table.key = MeetingSecret(plan.token).group_key(verdict.meeting, plan.group);
  table.founder_fd = verdict.founder_fd;
  return table;
}

/// Where others reach this process: the address by which it reaches rank 0, or rank 0's own.
std::string listening_host(const MeetingPlan& plan) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;  // nothing is sent: the route tells the address
  const auto colon = plan.address.rfind(':');
  if (::getaddrinfo(host_of(plan.address).c_str(), plan.address.substr(colon + 1).c_str(), &hints, &found) != 0)
    throw InvalidArgumentError(fmt::format("join: '{}' is no address", plan.address));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[48] = {};
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    fail_meeting(plan, Reason::kBackend, fmt::format("no way to {}: {}", plan.address, std::strerror(errno)));
  return host;
}

}  // namespace

std::unique_ptr<Communicator> meet_at(const MeetingPlan& plan) {
  if (plan.size > kTcpRanksMax)
    throw InvalidArgumentError(fmt::format("join: {} ranks, and at most {} can meet", plan.size, kTcpRanksMax));
  MeshListener listener = MeshListener::open(listening_host(plan)).value();
  Visit own = visit_of(plan);
  own.card.address = listener.address();
  const Table table = plan.rank == 0 ? receive_all(plan, own) : ask(plan, own);
  if (table.backend == Backend::kShm) {
    if (table.segment) return std::make_unique<ShmCommunicator>(table.segment, plan.rank);
    auto opened = ShmSegment::attach_from(table.cards[0].pid, table.founder_fd, table.key);
    if (const auto why = opened.ok() ? Failure{} : failure_of_attaching(opened.error_ptr(), 0); !opened.ok())
      fail_meeting(plan, why.reason, why.text, why.missing_ranks);
    return std::make_unique<ShmCommunicator>(*std::move(opened), plan.rank);
  }
  std::vector<MeshAddress> addresses;
  for (const Card& card : table.cards) addresses.push_back(card.address);
  const auto is_here = [&](const Card& card) { return same_machine(card, own.card); };
  const int here = int(std::ranges::count_if(table.cards, is_here));
  auto links = connect_mesh({plan.rank, plan.size, 1}, std::move(listener), addresses, table.key, plan.deadline);
  if (!links.ok()) {
    const bool met = links.error().code() == ErrorCode::kCollective;  // else this rank has no socket (RV-3)
    fail_meeting(plan, met ? Reason::kTimeout : Reason::kBackend, links.error().message());
  }
  return std::make_unique<TcpCommunicator>(
      *std::move(links), TcpOptions{.deterministic = plan.deterministic, .ranks_here = here, .key = table.key});
}

}  // namespace troupe::collective
