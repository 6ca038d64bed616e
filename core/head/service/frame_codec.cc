#include "core/head/service/frame_codec.h"

#include "core/wire/codec.h"

namespace troupe::head {
namespace {

template <class T> Message decoded(ByteView payload) {
  Result<T> value = wire::decode_message<T>(payload);
  return value.ok() ? Message(std::move(*value)) : Message();
}

Message decode_request(wire::Method method, ByteView payload) {
  using wire::Method;
  switch (method) {
    case Method::kCreateActor: return decoded<wire::ActorSpec>(payload);
    case Method::kResolveActor:
    case Method::kMonitorActor: return decoded<wire::ResolveActor>(payload);
    case Method::kGetNamedActor: return decoded<wire::NamedActor>(payload);
    case Method::kKillActor: return decoded<wire::KillActor>(payload);
    case Method::kHandleCounts: return decoded<wire::HandleCounts>(payload);
    case Method::kKvPut: return decoded<wire::KvEntry>(payload);
    case Method::kKvGet:
    case Method::kKvDel:
    case Method::kKvKeys: return decoded<wire::KvKey>(payload);
    case Method::kKvSwap: return decoded<wire::KvSwap>(payload);
    case Method::kListState: return decoded<wire::StateQuery>(payload);
    case Method::kRegisterNode: return decoded<wire::RegisterNode>(payload);
    case Method::kRegisterJob: return decoded<wire::RegisterJob>(payload);
    case Method::kClusterInfo:
    case Method::kPing: return wire::Empty{};
    default: return {};
  }
}

Message decode_notice(wire::Method method, ByteView payload) {
  using wire::Method;
  switch (method) {
    case Method::kActorStarted:
    case Method::kActorPlaced: return decoded<wire::ActorStarted>(payload);
    case Method::kActorExited: return decoded<wire::ActorExited>(payload);
    case Method::kCheckpoint: return decoded<wire::Checkpoint>(payload);
    case Method::kLightActors: return decoded<wire::LightActors>(payload);
    case Method::kMetrics: return decoded<wire::MetricsReport>(payload);
    case Method::kJobFinished: return decoded<wire::JobFinished>(payload);
    case Method::kNodeLoad: return decoded<wire::NodeLoad>(payload);
    case Method::kStartActorFailed: return decoded<wire::StartActorFailed>(payload);
    case Method::kProcessDied: return decoded<wire::ProcessDied>(payload);
    case Method::kLinkReport: return decoded<wire::LinkReport>(payload);
    default: return {};
  }
}

/// The head asks for three things only: pings, whose answer is empty, rows, and that something is kept.
Message decode_response(const net::FrameHeader& header, ByteView payload) {
  if (header.arg0 != 0) return decoded<ErrorRecord>(payload);
  if (header.token & kKeepTokenBit) return decoded<wire::KeepReply>(payload);
  if (payload.empty()) return wire::Empty{};
  return decoded<wire::StateReply>(payload);
}

}  // namespace

std::optional<Frame> decode_frame(LinkId link, const net::FrameHeader& header, ByteView payload) {
  Frame frame;
  frame.link = link;
  frame.kind = static_cast<wire::FrameKind>(header.kind);
  frame.source = header.source;
  frame.token = header.token;
  if (frame.kind == wire::FrameKind::kResponse) {
    frame.failed = header.arg0 != 0;
    frame.body = decode_response(header, payload);
    return frame;
  }
  frame.method = static_cast<wire::Method>(header.arg0);
  if (frame.kind == wire::FrameKind::kRequest) frame.body = decode_request(frame.method, payload);
  else if (frame.kind == wire::FrameKind::kNotice) frame.body = decode_notice(frame.method, payload);
  else return std::nullopt;
  return frame;
}

Encoded encode_send(const Send& send) {
  Encoded encoded;
  net::FrameHeader& header = encoded.header;
  header.kind = static_cast<std::uint8_t>(send.kind);
  header.source = kHead;
  header.destination = send.to;
  header.token = send.token;
  header.arg0 =
      send.kind == wire::FrameKind::kResponse ? (send.failed ? 1 : 0) : static_cast<std::uint64_t>(send.method);
  encoded.payload = std::visit(
      [](const auto& body) -> std::vector<std::byte> {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(body)>, std::monostate>) return {};
        else return wire::encode_message(body);
      },
      send.body);
  header.payload_size = static_cast<std::uint32_t>(encoded.payload.size());
  return encoded;
}

}  // namespace troupe::head
