#include "core/node/daemon/admission/ring_pairs.h"

#include <fcntl.h>

#include <array>

#include "core/net/endpoint/endpoint.h"

namespace troupe::node {

void RingPairs::connect(const net::FrameHeader& request, const wire::ConnectRequest& wanted) {
  NodeProcess* from = table_.find_alive(request.source);
  if (!from) return;
  if (wanted.peer.node != table_.node() || wanted.peer.serial == 0 || wanted.peer == from->id)
    return messenger_.fail(request, make_record(ErrorCode::kInvalidArgument,
                                                to_string(wanted.peer) + " is not another process of this node"));
  NodeProcess* peer = table_.find_alive(wanted.peer);
  if (!peer) return refuse_unknown(request, wanted.peer);
  if (from->paired.contains(peer->id)) return messenger_.respond(request, wire::ConnectReply{});
  const wire::ConnectReply through_daemon{.through_daemon = true};
  if ((table_.pairs() + 1) * net::Endpoint::pair_bytes({}) > memory_)
    return messenger_.respond(request, through_daemon);
  Result<UniqueFd> pair = net::Endpoint::create_pair({});
  if (!pair.ok()) return messenger_.respond(request, through_daemon);

  struct Side {
    NodeProcess* to;
    NodeProcess* other;
    std::uint8_t number;
    std::vector<UniqueFd> fds;
  };
  std::array<Side, 2> sides{{{peer, from, 1, {}}, {from, peer, 0, {}}}};
  for (Side& side : sides)
    for (int fd : {pair->get(), side.other->doorbell.get(), side.other->event.get()}) {
      side.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
      // NDP-1: no descriptor is left
      if (side.fds.back().get() < 0) return messenger_.respond(request, through_daemon);
    }
  from->paired.insert(peer->id);
  peer->paired.insert(from->id);
  for (Side& side : sides)
    side.to->channel->send(wire::BootKind::kPair, wire::PairOffer{side.other->id, side.number}, std::move(side.fds));
  messenger_.respond(request, wire::ConnectReply{});
}

void RingPairs::refuse_unknown(const net::FrameHeader& request, ProcessId peer) {
  const wire::ProcessDied* death = table_.death(peer);
  if (!death)
    return messenger_.fail(request, make_record(ErrorCode::kWorkerCrashed, "there is no process " + to_string(peer)));
  messenger_.notice(request.source, wire::Method::kProcessDied, *death);
  messenger_.fail(request, death_error(*death));
}

}  // namespace troupe::node
