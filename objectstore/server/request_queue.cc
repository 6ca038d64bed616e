#include "objectstore/server/request_queue.h"

namespace troupe::store {

std::vector<MemoryRequest> RequestQueue::expired(TimePoint now) {
  std::vector<MemoryRequest> late;
  std::erase_if(queue_, [&](const MemoryRequest& request) {
    if (request.deadline > now) return false;
    late.push_back(request);
    return true;
  });
  return late;
}

TimePoint RequestQueue::next_deadline() const {
  TimePoint earliest = kNever;
  for (const MemoryRequest& request : queue_) earliest = std::min(earliest, request.deadline);
  return earliest;
}

}  // namespace troupe::store
