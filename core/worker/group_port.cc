#include "core/worker/group_port.h"

#include "core/worker/core.h"

namespace troupe::worker {

namespace {
GroupPort* the_port = nullptr;  // a program without collectives has none
}

void set_group_port(GroupPort& port) noexcept { the_port = &port; }

void Core::on_group_word(const net::FrameHeader& header, ByteView payload, bool answer) {
  Result<wire::GroupWord> word = wire::decode_message<wire::GroupWord>(payload);
  defer([this, header, answer, word = std::move(word)] {
    Result<wire::GroupAnswer> said = !word.ok()  ? Result<wire::GroupAnswer>(word.error_ptr())
                                     : !the_port ? Result<wire::GroupAnswer>(InvalidArgumentError("this program has no collectives"))
                                                 : the_port->word(*this, header.source, *word);
    if (!answer) {
      if (!word.ok()) warn(word.error().message());
      return;
    }
    net::FrameHeader back;
    back.kind = std::uint8_t(wire::FrameKind::kResponse);
    back.token = header.token;
    back.arg0 = said.ok() ? 0 : 1;
    CoreLock lock(*this);
    courier_.send(header.source, back, said.ok() ? wire::encode_message(*said) : wire::encode_message(said.error().record()));
  });
}

void Core::on_rank_socket(node::BootPacket packet) {
  Result<wire::RankSocket> what = wire::decode_message<wire::RankSocket>(packet.payload);
  if (!what.ok() || packet.fds.size() != 1 || !the_port) return;  // closed with the packet
  the_port->socket(*this, *what, std::move(packet.fds.front()));
}

void Core::group_member_moved(const wire::ActorLocation& location) {
  if (the_port) defer([this, location] { the_port->actor_moved(*this, location); });
}

void Core::group_process_died(ProcessId process, const std::string& why) {
  if (the_port) defer([this, process, why] { the_port->process_died(*this, process, why); });
}

void Core::group_node_died(std::uint32_t node, const std::string& why) {
  if (the_port) defer([this, node, why] { the_port->node_died(*this, node, why); });
}

}  // namespace troupe::worker
