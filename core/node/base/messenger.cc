#include "core/node/base/messenger.h"

namespace troupe::node {

ErrorRecord make_record(ErrorCode code, std::string message) {
  ErrorRecord record;
  record.code = code;
  record.message = std::move(message);
  return record;
}

ErrorRecord death_error(const wire::ProcessDied& death) {
  const std::string what = death.role == wire::Role::kDriver ? "the driver" : "the worker process";
  ErrorRecord record = make_record(death.out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kWorkerCrashed,
                                   what + " (pid " + std::to_string(death.pid) + ") is dead: " + death.reason);
  record.context.pid = death.pid;
  record.context.node = death.node_id;
  record.context.log_tail = death.log_tail;
  return record;
}

}  // namespace troupe::node
