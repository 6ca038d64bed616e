// Ranks of collective groups that come to this daemon's data port: to whom their connections go (HandOvers decides).
#include <sys/epoll.h>

#include "core/base/log.h"
#include "core/node/daemon.h"

namespace troupe::node {

/// Any thread (the data server's).
void Daemon::rank_connected(UniqueFd connection, ByteView body) {
  Result<net::Introduction> who = net::decode_introduction(body);
  if (!who.ok()) return write_log(LogLevel::kWarn, "closed a connection to the data port: {}", who.error().message());
  auto held = std::make_shared<UniqueFd>(std::move(connection));  // a Loop::Work can be copied
  loop_->post([this, who = *who, held] {
    std::optional<HandOvers::Passed> passed = hand_overs_.arrive(who, std::move(*held), loop_->now());
    if (passed) pass_rank(*std::move(passed));
    tend_door();
  });
}

void Daemon::expect_ranks(ProcessId owner, const wire::ExpectRanks& ranks) {
  if (!table_->find_alive(owner)) return;  // only processes of this node have a door here
  for (HandOvers::Passed& passed : hand_overs_.expect(owner, ranks)) pass_rank(std::move(passed));
  tend_door();
}

void Daemon::pass_rank(HandOvers::Passed passed) {
  NodeProcess* process = table_->find_alive(passed.to);
  if (!process) return;
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(passed.fd));
  process->channel->send_message(wire::BootKind::kRankSocket, passed.what, std::move(fds));
  if (process->channel->wants_write()) loop_->rearm(process->channel->fd(), EPOLLIN | EPOLLOUT);
}

/// Says what was refused, and comes back when the next that waits has waited long enough.
void Daemon::tend_door() {
  for (const std::string& refusal : hand_overs_.take_refusals()) write_log(LogLevel::kWarn, "{}", refusal);
  const std::optional<Loop::TimePoint> next = hand_overs_.next_deadline();
  if (!next || door_timer_) return;
  door_timer_ = loop_->at(*next, [this] {
    door_timer_.reset();
    hand_overs_.expire(loop_->now());
    tend_door();
  });
}

}  // namespace troupe::node
