#include "core/node/daemon/rank_sockets.h"

#include "core/base/log.h"

namespace troupe::node {

void RankSockets::arrived(const net::Introduction& who, UniqueFd connection) {
  std::optional<HandOvers::Passed> passed = hand_overs_.arrive(who, std::move(connection), loop_.now());
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
