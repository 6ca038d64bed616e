#include "core/node/daemon/admission/frame_access.h"

namespace troupe::node {
namespace {

using wire::Method;

constexpr std::uint8_t bit(Sender sender) { return static_cast<std::uint8_t>(sender); }
constexpr std::uint8_t kHeadOnly = bit(Sender::kHead);
constexpr std::uint8_t kDaemons = bit(Sender::kDaemon);
constexpr std::uint8_t kLocal = bit(Sender::kLocalProcess);
constexpr std::uint8_t kProcesses = bit(Sender::kLocalProcess) | bit(Sender::kRemoteProcess);

std::uint8_t senders_of(Method method) {
  switch (method) {
    case Method::kConnect: return kLocal;
    case Method::kLeaseWanted: return kLocal;
    case Method::kLeaseRenew:
    case Method::kLeaseReturned: return kProcesses;  // to the daemon that granted
    case Method::kWorkerBlocked: return kLocal;
    case Method::kLightHost: return kProcesses;
    case Method::kStoreLease:
    case Method::kStoreAllocate:
    case Method::kStoreFree:
    case Method::kStoreWithdraw:
    case Method::kStoreFetch: return kLocal;
    case Method::kStoreHold:
    case Method::kStoreUnhold: return kProcesses | kDaemons;
    case Method::kStoreUsage: return kProcesses;
    case Method::kKillProcess: return kProcesses | kDaemons;  // a cancelled task that did not end
    case Method::kProcessDied: return kDaemons;
    case Method::kProcessDiedAck: return kLocal;
    case Method::kNodeDied: return kHeadOnly;
    case Method::kQueryState: return kHeadOnly | kLocal;  // it changes nothing
    case Method::kShutdown: return kHeadOnly;
    case Method::kClusterView: return kHeadOnly;
    case Method::kStartActor: return kHeadOnly;
    case Method::kKeep:
    case Method::kKeepNoMore: return kHeadOnly;
    case Method::kJobEnded: return kHeadOnly;
    case Method::kKillActorProcess: return kHeadOnly;
    case Method::kPing: return kHeadOnly | kProcesses;
    case Method::kForwardLease:
    case Method::kLeaseCounted:
    case Method::kJobImage:
    case Method::kCongestion:
    case Method::kCopiesVoid: return kDaemons;
    case Method::kJobFinished: return kLocal;
    case Method::kJobOutput: return kLocal | kDaemons;  // it shows a driver its own output
    case Method::kExpectRanks:
    case Method::kRankLeft: return kLocal;
    case Method::kRankDoor: return kProcesses;
    default: return 0;  // FA-1
  }
}

}  // namespace

Sender sender_of(ProcessId source, std::uint32_t this_node) {
  if (source == kHead) return Sender::kHead;
  if (source.serial == 0) return Sender::kDaemon;
  return source.node == this_node ? Sender::kLocalProcess : Sender::kRemoteProcess;
}

bool sent_by_its_node(ProcessId source, std::uint32_t node) { return node == 0 || source.node == node; }

bool may_ask_daemon(wire::Method method, Sender sender) { return (senders_of(method) & bit(sender)) != 0; }

bool may_ask_head(wire::Method method) {
  switch (method) {
    case Method::kRegisterNode:
    case Method::kRegisterJob:
    case Method::kJobFinished:
    case Method::kNodeLoad:
    case Method::kLinkReport:
    case Method::kStartActorFailed:
    case Method::kActorPlaced:
    case Method::kProcessDied: return false;
    default: return true;
  }
}

}  // namespace troupe::node
