#include "core/runtime/requests.h"

#include <fmt/format.h>

#include "core/runtime/runtime.h"

namespace troupe::worker {

exec::ThreadBlocker& Requests::blocker() { return runtime_; }
StateMutex& Requests::mutex() { return runtime_.mutex(); }

std::uint64_t Requests::send_bytes(ProcessId to, wire::Method method, const std::vector<std::byte>& bytes,
                                   std::function<void(Result<ByteView>)> done) {
  if (runtime_.shutting_down()) {
    done(runtime_.shutdown_reason());
    return 0;
  }
  if (bytes.size() > net::kPayloadMax) {  // CR-6
    done(make_error<InvalidArgumentError>(
        fmt::format("a message of {} bytes does not go to {}: {} MiB is the most", bytes.size(),
                    to == kHead ? "the head" : "the node daemon", net::kPayloadMax >> 20)));
    return 0;
  }
  if (to != kHead && runtime_.frames().is_dead(to)) {
    done(make_error<WorkerCrashedError>(fmt::format("the process {} died before it was asked", to_string(to))));
    return 0;
  }
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kRequest);
  header.token = ++last_;
  header.arg0 = std::uint64_t(method);
  const std::uint64_t token = header.token;
  open_[token] = {to, std::move(done)};
  runtime_.frames().send(to, header, bytes);
  return token;
}

void Requests::on_response(const net::FrameHeader& header, ByteView payload) {
  auto found = open_.find(header.token);
  if (found == open_.end()) return;  // answered by a deadline or a death meanwhile
  Open request = std::move(found->second);
  open_.erase(found);
  if (header.arg0 == 0) return request.done(payload);
  Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
  request.done(record.ok() ? Error::make(*record) : record.error_ptr());
}

void Requests::fail_all(const std::function<bool(ProcessId)>& to, const ErrorPtr& error) {
  std::vector<Open> failed;
  for (auto at = open_.begin(); at != open_.end();) {
    if (to(at->second.to)) {
      failed.push_back(std::move(at->second));
      open_.erase(at++);
    } else {
      ++at;
    }
  }
  for (Open& request : failed) request.done(error);
}

ErrorPtr Requests::no_answer(ProcessId to, wire::Method method, Duration timeout) {
  return make_error<GetTimeoutError>(fmt::format("{} did not answer request {} within {} s",
                                                 to == kHead ? "the head" : "the node daemon", int(method),
                                                 std::chrono::duration<double>(timeout).count()));
}

}  // namespace troupe::worker
