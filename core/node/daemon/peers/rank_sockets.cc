#include "core/node/daemon/peers/rank_sockets.h"

#include <sys/socket.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/net/base/socket.h"

namespace troupe::node {
namespace {

/// Connections that have proven nothing hold an eighth of this process's descriptors at most.
std::size_t early_max() {
  return std::min<std::size_t>(HandOvers::kEarlyMax, std::max<std::size_t>(net::raise_descriptor_limit() / 8, 1));
}

}  // namespace

RankSockets::RankSockets(Loop& loop, ProcessTable& table) : loop_(loop), table_(table), hand_overs_(early_max()) {}

void RankSockets::arrived(const net::Introduction& who, UniqueFd connection) {
  const net::Source source = net::source_of(connection.get());
  std::optional<HandOvers::Passed> passed = hand_overs_.arrive(who, std::move(connection), loop_.now(), source);
  if (passed) pass_on(*std::move(passed));
  settle();
}

void RankSockets::expect(ProcessId owner, const wire::ExpectRanks& ranks) {
  if (!table_.find_alive(owner)) return;  // only processes of this node are reached by its data port
  for (HandOvers::Passed& passed : hand_overs_.expect(owner, ranks)) pass_on(std::move(passed));
  settle();
}

void RankSockets::pass_on(HandOvers::Passed passed) {
  NodeProcess* process = table_.find_alive(passed.to);
  if (!process) return;
  // Nothing was sent on it yet: these few bytes fit, or the connection is gone.
  const net::Token::Digest& answer = passed.acceptance;
  if (::send(passed.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(answer.size()))
    return;
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(passed.fd));
  process->channel->send(wire::BootKind::kRankSocket, passed.what, std::move(fds));
}

/// Logs what was refused, and comes back when the next connection has waited long enough.
void RankSockets::settle() {
  for (const std::string& refusal : hand_overs_.take_refusals()) write_log(LogLevel::kWarn, "{}", refusal);
  const std::optional<Loop::TimePoint> next = hand_overs_.next_deadline();
  if (!next || timer_) return;
  timer_ = loop_.at(*next, [this] {
    timer_.reset();
    hand_overs_.expire(loop_.now());
    settle();
  });
}

}  // namespace troupe::node
