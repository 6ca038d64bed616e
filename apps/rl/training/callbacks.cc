#include "apps/rl/training/callbacks.h"

#include <exception>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <troupe/error.h>

namespace rl {
namespace {

std::vector<TrainingCallback>& registered_callbacks() {
  static std::vector<TrainingCallback> all;
  return all;
}

}  // namespace

void register_callback(TrainingCallback callback) {
  if (!callback) troupe::InvalidArgumentError("an empty callback").raise();
  registered_callbacks().push_back(std::move(callback));
}

bool has_callbacks() { return !registered_callbacks().empty(); }

bool call_callbacks(const TrainingLog& log) {
  bool ends = false;
  for (const TrainingCallback& callback : registered_callbacks()) {
    try {
      ends = callback(log) || ends;
    } catch (const troupe::CancelledError&) {
      throw;  // Ctrl-C
    } catch (const std::exception& error) {
      throw troupe::Error(fmt::format("a callback threw: {}", error.what()));
    }
  }
  return ends;
}

}  // namespace rl
