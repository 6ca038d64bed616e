#include "core/node/logs/job_output.h"

namespace troupe::node {
namespace {
// Other nodes have what their own processes may take, and time for two messages.
constexpr Duration kFlushWait = std::chrono::milliseconds(500), kOutputWait = std::chrono::seconds(1);
}  // namespace

std::vector<ProcessId> JobOutput::processes(JobId job) const {
  std::vector<ProcessId> found;
  for (const auto& [serial, process] : table_.all())
    if (process->role == wire::Role::kWorker && process->job == job) found.push_back(process->id);
  return found;
}

void JobOutput::hand_over(const net::FrameHeader& request, const wire::JobOutput& wanted) {
  auto asked = std::make_shared<Asked>(Asked{request, wanted.job, 1});  // shared by the answers
  const auto done = [this, asked](const Result<Messenger::Bytes>&) { answered(asked); };
  for (ProcessId process : processes(wanted.job)) {
    if (!table_.find_alive(process)) continue;
    ++asked->open;
    messenger_.request(process, wire::Method::kFlushOutput, wire::Empty{}, kFlushWait, done);
  }
  const bool from_driver = request.source.serial != 0;
  for (std::uint32_t node : from_driver ? linked_() : std::vector<std::uint32_t>()) {
    ++asked->open;
    messenger_.request(daemon_of(node), wire::Method::kJobOutput, wanted, kOutputWait, done);
  }
  answered(asked);
}

void JobOutput::answered(const std::shared_ptr<Asked>& asked) {
  if (--asked->open > 0) return;
  for (ProcessId process : processes(asked->job)) logs_.drain(process);
  messenger_.respond(asked->request, wire::Empty{});
}

}  // namespace troupe::node
