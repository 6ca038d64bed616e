#include "core/node/store/transfers.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace troupe::node {

void Transfers::fetch(store::BufferId remote, std::span<std::byte> to, Done done) {
  const std::uint64_t id = ++last_;
  const Loop::TimePoint deadline =
      loop_.now() + std::chrono::duration_cast<Loop::TimePoint::duration>(
                        kFetchWait + std::chrono::seconds(to.size() / kSlowestBytesPerSecond));
  const Loop::TimerId timer = loop_.at(deadline, [this, id] {
    if (auto found = open_.find(id); found != open_.end()) perform(id, found->second.plan.late());
  });
  auto [at, fresh] =
      open_.emplace(id, Transfer{.plan = TransferPlan(remote.node),
                                 .remote = remote,
                                 .to = to,
                                 .deadline = deadline,
                                 .timer = timer,
                                 .result = {},
                                 .done = std::move(done)});
  perform(id, at->second.plan.begin());
}

wire::StoreHoldRequest Transfers::hold_of(const Transfer& transfer) const {
  const store::BufferId& id = transfer.remote;
  return {mail_.self(), {{id.node, id.slot, id.generation, transfer.to.size()}}};
}

/// Actions that end it at once come back here: so the transfer is looked up anew for each.
void Transfers::perform(std::uint64_t id, const TransferPlan::Actions& actions) {
  for (const TransferPlan::Action& action : actions) {
    auto found = open_.find(id);
    if (found == open_.end()) return;
    Transfer& transfer = found->second;
    if (const auto* one = std::get_if<TransferPlan::Ask>(&action)) ask(id, transfer, one->node);
    else if (const auto* draws = std::get_if<TransferPlan::Draw>(&action)) draw(id, transfer, draws->node);
    else if (const auto* rest = std::get_if<TransferPlan::Pause>(&action)) pause(id, rest->span);
    else if (const auto* release = std::get_if<TransferPlan::Release>(&action))
      mail_.notice(daemon_of(release->node), wire::Method::kStoreUnhold, hold_of(transfer));
    else if (const auto* end = std::get_if<TransferPlan::Finish>(&action)) finish(id, end->status);
  }
}

void Transfers::ask(std::uint64_t id, const Transfer& transfer, std::uint32_t node) {
  mail_.request(daemon_of(node), wire::Method::kStoreHold, hold_of(transfer), kAnswerPatience,
                [this, id, node](Result<Messenger::Bytes> reply) {
                  auto found = open_.find(id);
                  if (found == open_.end()) return;
                  const Status status = reply.ok() ? Status() : Status(reply.error_ptr());
                  perform(id, found->second.plan.answered(node, status, surroundings_.others()));
                });
}

void Transfers::draw(std::uint64_t id, Transfer& transfer, std::uint32_t node) {
  transfer.drawing = true;
  const store::BufferId& remote = transfer.remote;
  net::Fetch fetch{
      surroundings_.data_address(node), {remote.node, remote.slot, remote.generation}, transfer.to, transfer.deadline};
  client_.fetch(std::move(fetch), [this, id, node](const Status& status) {
    loop_.post([this, id, node, status] {
      auto found = open_.find(id);
      if (found == open_.end()) return;
      found->second.drawing = false;
      if (found->second.result) return finish(id, *found->second.result);
      if (!status.ok() && !std::exchange(found->second.complained, true))
        write_log(LogLevel::kInfo, "buffer {} could not be drawn from node {}: {}",
                  store::to_string(found->second.remote), node, status.error().message());
      perform(id, found->second.plan.drawn(status, surroundings_.others()));
    });
  });
}

void Transfers::pause(std::uint64_t id, Duration span) {
  loop_.after(span, [this, id] {
    if (auto found = open_.find(id); found != open_.end())
      perform(id, found->second.plan.resumed(surroundings_.others()));
  });
}

void Transfers::finish(std::uint64_t id, const Status& status) {
  auto found = open_.find(id);
  if (found->second.drawing) {  // the data client's deadline is the same: it lets go now
    found->second.result = status;
    return;
  }
  loop_.cancel(found->second.timer);
  const Done done = std::move(found->second.done);
  open_.erase(found);
  done(status);
}

}  // namespace troupe::node
