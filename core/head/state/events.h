// What goes into the head's state machine and what comes out: events in, effects out, with the time beside them.
//
// Plain data: no sockets, no threads, no clock. The shell (server.h) makes events of what the links deliver and
// performs the effects; the simulator does the same with a model network.
//
// Invariants
//   HE-1  Effects are performed in their order: what is sent to one process leaves in that order.
//   HE-2  A Frame event was decoded by its method's struct; a payload that did not decode is std::monostate.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/wire/messages.h"

namespace troupe::head {

/// Time since an origin that only the shell knows; never falls.
using Time = std::chrono::nanoseconds;

/// A connection to a daemon; numbered by the shell, never reused.
using LinkId = std::uint64_t;

/// The body of any control frame that the head reads or writes, decoded.
using Message =
    std::variant<std::monostate, wire::Empty, ErrorRecord, wire::ActorSpec, wire::CreateActorReply, wire::ResolveActor,
                 wire::ActorLocation, wire::NamedActor, wire::NamedActorReply, wire::KillActor, wire::ActorStarted,
                 wire::ActorExited, wire::HandleCounts, wire::Checkpoint, wire::LightActors, wire::StartActor,
                 wire::StartActorFailed, wire::EndActor, wire::KillProcess, wire::ProcessDied, wire::NodeDied,
                 wire::LinkReport, wire::RegisterNode, wire::RegisterNodeReply, wire::RegisterJob,
                 wire::RegisterJobReply, wire::JobFinished, wire::JobEnded, wire::NodeLoad, wire::ClusterView,
                 wire::ClusterInfo, wire::KvKey, wire::KvEntry, wire::KvValue, wire::KvSwap, wire::KvDeleted,
                 wire::KvKeyList, wire::StateQuery, wire::StateReply, wire::MetricsReport, wire::WarningText,
                 wire::KeptName, wire::KeepRequest, wire::KeepReply, ActorDeath>;

/// Set in the tokens of requests that a KeepReply answers.
inline constexpr std::uint64_t kKeepTokenBit = std::uint64_t{1} << 62;

/// A frame arrived. For a response, `failed` says that the body is an ErrorRecord, and `method` is not known.
struct Frame {
  LinkId link = 0;
  wire::FrameKind kind = wire::FrameKind::kNotice;
  ProcessId source;
  std::uint64_t token = 0;
  wire::Method method = {};
  bool failed = false;
  Message body;
};
/// A tool (`troupe status`) is of no node: it speaks as a process of node 0, and the shell gives it a number of this
/// range that names its link. It may only read.
inline constexpr std::uint32_t kToolNodes = 1u << 31;
inline bool is_tool(ProcessId process) { return process.node >= kToolNodes; }

struct LinkClosed { LinkId link = 0; };
/// The answer to ProbeNode, where it was that no process has the port.
struct NobodyListens { std::uint32_t node = 0; };
/// ... and where something took the connection and did not prove to be a node: a process that is ending does that.
struct ProbeBroken { std::uint32_t node = 0; };
/// The time that next_deadline() named has come; harmless when it comes early.
struct Tick {};
using Event = std::variant<Frame, LinkClosed, NobodyListens, ProbeBroken, Tick>;

/// Send a frame. Its way is the link that is bound to to.node; `link` is set where that is not yet known.
struct Send {
  ProcessId to;
  wire::FrameKind kind = wire::FrameKind::kNotice;
  wire::Method method = {};
  std::uint64_t token = 0;
  bool failed = false;
  Message body;
  LinkId link = 0;
};
/// From now on this link leads to that node; what waited for the node leaves on it.
struct BindLink { LinkId link = 0; std::uint32_t node = 0; };
/// Close it, after what was sent on it. Frames that still arrive on it are ignored.
struct CloseLink { LinkId link = 0; };
/// The node is dead: forget what waits for it.
struct ForgetNode { std::uint32_t node = 0; };
/// Look whether a process listens at this address still, where the node's daemon did: NobodyListens if not.
struct ProbeNode { std::uint32_t node = 0; std::string address; };
struct LogLine { bool warning = false; std::string text; };
using Effect = std::variant<Send, BindLink, CloseLink, ForgetNode, ProbeNode, LogLine>;

class Effects {
 public:
  void notice(ProcessId to, wire::Method method, Message body) {
    list_.push_back(Send{to, wire::FrameKind::kNotice, method, 0, false, std::move(body), 0});
  }
  void request(ProcessId to, wire::Method method, std::uint64_t token, Message body) {
    list_.push_back(Send{to, wire::FrameKind::kRequest, method, token, false, std::move(body), 0});
  }
  void respond(ProcessId to, std::uint64_t token, Message body, LinkId link = 0) {
    bool failed = std::holds_alternative<ErrorRecord>(body);
    list_.push_back(Send{to, wire::FrameKind::kResponse, {}, token, failed, std::move(body), link});
  }
  void log(std::string text) { list_.push_back(LogLine{false, std::move(text)}); }
  void warn(std::string text) { list_.push_back(LogLine{true, std::move(text)}); }
  void add(Effect effect) { list_.push_back(std::move(effect)); }

  const std::vector<Effect>& list() const { return list_; }
  std::vector<Effect> take() { return std::exchange(list_, {}); }

 private:
  std::vector<Effect> list_;
};

/// One step of the machine: its time, and where its effects go.
struct Turn {
  Time now;
  Effects& effects;
};

/// Who waits for an answer.
struct Caller {
  ProcessId process;
  std::uint64_t token = 0;
};

inline ErrorRecord error_record(ErrorCode code, std::string message) {
  ErrorRecord record;
  record.code = code;
  record.message = std::move(message);
  return record;
}

}  // namespace troupe::head
