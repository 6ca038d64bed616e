#include "collective/nccl/life.h"

namespace troupe::collective {

LifeStep next(Life state, LifeEvent event) {
  switch (state) {
    case Life::kInit:
      if (event == LifeEvent::kInitialized) return {Life::kReady};
      if (event == LifeEvent::kFailed || event == LifeEvent::kClose || event == LifeEvent::kLimit)
        return {Life::kFailing, LifeEffect::kAbort};
      break;
    case Life::kReady:
      if (event == LifeEvent::kFailed) return {Life::kFailing, LifeEffect::kAbort};
      if (event == LifeEvent::kClose) return {Life::kClosing, LifeEffect::kFinalize};
      break;
    case Life::kClosing:
      if (event == LifeEvent::kFinalized) return {Life::kClosed};
      if (event == LifeEvent::kFailed || event == LifeEvent::kLimit) return {Life::kFailing, LifeEffect::kAbort};
      break;
    case Life::kFailing:
      if (event == LifeEvent::kAborted) return {Life::kAborted};
      if (event == LifeEvent::kLimit) return {Life::kStuck, LifeEffect::kReport};  // NL-3
      break;
    case Life::kStuck:
      if (event == LifeEvent::kAborted) return {Life::kAborted};
      break;
    case Life::kAborted:
    case Life::kClosed: break;
  }
  return {state};
}

const char* life_name(Life state) {
  switch (state) {
    case Life::kInit: return "init";
    case Life::kReady: return "ready";
    case Life::kFailing: return "failing";
    case Life::kAborted: return "aborted";
    case Life::kStuck: return "stuck";
    case Life::kClosing: return "closing";
    case Life::kClosed: return "closed";
  }
  return "unknown";
}

}  // namespace troupe::collective
