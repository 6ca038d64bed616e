#include "core/node/daemon/base/jobs.h"

#include <fcntl.h>

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
  std::vector<std::function<void(Job*)>>& waits = waiting_[id];
  waits.push_back(std::move(then));
  if (waits.size() > 1) return;  // NJ-1
  auto answered = [this, id](Result<Messenger::Bytes> bytes) {
    if (!waiting_.contains(id)) return;  // who waited has been told (NJ-2)
    Result<wire::JobImageReply> reply =
        bytes.ok() ? wire::decode_message<wire::JobImageReply>(*bytes) : Result<wire::JobImageReply>(bytes.error_ptr());
    Job* job = nullptr;
    if (reply.ok()) {
      job = &add(id);
      job->driver = reply->driver;
      job->name_space = reply->name_space;
      job->registry_digest = reply->registry_digest;
      job->image = reply->image;
      open_program(*job);
    } else {
      write_log(LogLevel::kWarn, "the image of job {} could not be had: {}", id, reply.error().message());
    }
    tell_waiting(id, job);
  };
  messenger_.request(daemon_of(who_knows.node), wire::Method::kJobImage, wire::JobImageRequest{id}, kImageWait,
                     std::move(answered));
}

void Jobs::tell_waiting(JobId id, Job* job) {
  auto waiting = waiting_.extract(id);
  if (!waiting) return;
  for (auto& wait : waiting.mapped()) wait(job);
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
