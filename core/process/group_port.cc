#include "core/process/group_port.h"

#include "core/process/core.h"

namespace troupe::worker {

namespace {
GroupPort* the_port = nullptr;  // a program without collectives has none
}

void set_group_port(GroupPort& port) noexcept { the_port = &port; }

void group_word_arrived(Core& core, const net::FrameHeader& header, ByteView payload, bool answer) {
  Result<wire::GroupWord> word = wire::decode_message<wire::GroupWord>(payload);
  core.defer([&core, header, answer, word = std::move(word)] {
    Result<wire::GroupAnswer> said =
        !word.ok()  ? Result<wire::GroupAnswer>(word.error_ptr())
        : !the_port ? Result<wire::GroupAnswer>(InvalidArgumentError("this program has no collectives"))
                    : the_port->word(core, header.source, *word);
    if (!answer) {
      if (!word.ok()) core.warn(word.error().message());
      return;
    }
    net::FrameHeader back;
    back.kind = std::uint8_t(wire::FrameKind::kResponse);
    back.token = header.token;
    back.arg0 = said.ok() ? 0 : 1;
    CoreLock lock(core);
    core.frames().send(header.source, back,
                       said.ok() ? wire::encode_message(*said) : wire::encode_message(said.error().record()));
  });
}

void group_socket_arrived(Core& core, node::BootPacket packet) {
  Result<wire::RankSocket> what = wire::decode_message<wire::RankSocket>(packet.payload);
  if (!what.ok() || packet.fds.size() != 1 || !the_port) return;  // closed with the packet
  the_port->socket(core, *what, std::move(packet.fds.front()));
}

void group_member_moved(Core& core, const wire::ActorLocation& location) {
  if (the_port) core.defer([&core, location] { the_port->actor_moved(core, location); });
}

void group_process_died(Core& core, ProcessId process, const std::string& why) {
  if (the_port) core.defer([&core, process, why] { the_port->process_died(core, process, why); });
}

void group_node_died(Core& core, std::uint32_t node, const std::string& why) {
  if (the_port) core.defer([&core, node, why] { the_port->node_died(core, node, why); });
}

}  // namespace troupe::worker
