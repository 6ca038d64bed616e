#include "core/node/daemon/base/jobs.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>

#include "core/base/log.h"

namespace troupe::node {
namespace {
constexpr Duration kImageWait = std::chrono::seconds(5);

void open_program(Job& job) { job.executable.reset(::open(job.image.executable.c_str(), O_RDONLY | O_CLOEXEC)); }

}  // namespace

Job* Jobs::find(JobId id) {
  auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

Job& Jobs::add(JobId id) {
  Job& job = jobs_[id];
  job.id = id;
  return job;
}

void Jobs::with(JobId id, ProcessId who_knows, std::function<void(Job*)> then) {
  if (Job* job = find(id)) {
    if (!job->executable && !job->ended) open_program(*job);  // NJ-4
    return then(job);
  }
  if (is_over(id)) return then(nullptr);
  std::vector<Waiting>& waits = waiting_[id];
  waits.push_back({who_knows.node, std::move(then)});
  if (waits.size() == 1) ask(id, who_knows.node);  // NJ-1
}

void Jobs::ask(JobId id, std::uint32_t node) {
  auto answered = [this, id, node](Result<Messenger::Bytes> bytes) {
    if (!waiting_.contains(id)) return;  // who waited has been told (NJ-2)
    Result<wire::JobImageReply> reply =
        bytes.ok() ? wire::decode_message<wire::JobImageReply>(*bytes) : Result<wire::JobImageReply>(bytes.error_ptr());
    if (reply.ok()) return image_came(id, std::move(*reply));
    write_log(LogLevel::kWarn, "the image of job {} could not be had of node {}: {}", id, node,
              reply.error().message());
    no_image(id, node);
  };
  messenger_.request(daemon_of(node), wire::Method::kJobImage, wire::JobImageRequest{id}, kImageWait,
                     std::move(answered));
}

void Jobs::image_came(JobId id, wire::JobImageReply reply) {
  Job& job = add(id);
  job.driver = reply.driver;
  job.name_space = std::move(reply.name_space);
  job.registry_digest = std::move(reply.registry_digest);
  job.image = std::move(reply.image);
  open_program(job);
  tell_waiting(id, &job);
}

void Jobs::no_image(JobId id, std::uint32_t node) {
  std::vector<Waiting>& waits = waiting_.at(id);
  const auto others = std::stable_partition(waits.begin(), waits.end(),
                                            [node](const Waiting& one) { return one.who_knows == node; });
  std::vector<Waiting> failed(std::make_move_iterator(waits.begin()), std::make_move_iterator(others));
  waits.erase(waits.begin(), others);
  if (waits.empty()) waiting_.erase(id);
  else ask(id, waits.front().who_knows);
  for (Waiting& wait : failed) wait.then(nullptr);
}

void Jobs::tell_waiting(JobId id, Job* job) {
  auto waiting = waiting_.extract(id);
  if (!waiting) return;
  for (Waiting& wait : waiting.mapped()) wait.then(job);
}

void Jobs::over(JobId id) {
  if (!over_.insert(id).second) return;
  over_order_.push_back(id);
  if (over_order_.size() > kJobsOverKept) {
    over_.erase(over_order_.front());
    over_order_.pop_front();
  }
  tell_waiting(id, nullptr);
}

void Jobs::not_over(JobId id) {
  if (over_.erase(id) != 0) std::erase(over_order_, id);
}

void Jobs::answer_image(const net::FrameHeader& request, const wire::JobImageRequest& wanted,
                        const std::string& node_id) {
  Job* job = find(wanted.job);
  if (!job || (job->ended && job->kept.empty()))
    return messenger_.fail(request, make_record(ErrorCode::kNotFound, "job " + std::to_string(wanted.job) +
                                                                          " is not known on node " + node_id));
  messenger_.respond(request,
                     wire::JobImageReply{job->id, job->driver, job->name_space, job->registry_digest, job->image});
}

void Jobs::warn(JobId id, const std::string& text) {
  if (Job* job = find(id); job && !job->ended)
    messenger_.notice(job->driver, wire::Method::kWarning, wire::WarningText{text});
}

}  // namespace troupe::node
