#include "core/node/daemon/peers/membership.h"

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr Duration kHeadTimeout = std::chrono::seconds(15), kRedialHead = std::chrono::seconds(30),
                   kTellWait = std::chrono::milliseconds(100), kSeekHeadPause = std::chrono::milliseconds(50);
constexpr std::uint64_t kRegisterToken = ~std::uint64_t{0};  ///< Messenger's tokens count up from 1

}  // namespace

Status Membership::join() { return links_.dial_head(self_.head_address, kHeadTimeout); }

void Membership::link_up() {
  self_.registration.info.available = events_.available();
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kRequest);
  header.source = daemon_of(self_.registration.info.node);
  header.destination = kHead;
  header.token = kRegisterToken;
  header.arg0 = static_cast<std::uint64_t>(wire::Method::kRegisterNode);
  (void)links_.send_registration(header, wire::encode_message(self_.registration));
}

bool Membership::take_answer(const net::FrameHeader& header, ByteView payload) {
  const bool is_response = header.kind == static_cast<std::uint8_t>(wire::FrameKind::kResponse);
  if (header.token != kRegisterToken || !is_response) return false;
  if (header.arg0 == 0) {
    on_registered(wire::decode_message<wire::RegisterNodeReply>(payload));
  } else {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
    on_registered(record.ok() ? Error::make(std::move(*record)) : record.error_ptr());
  }
  return true;
}

void Membership::on_registered(Result<wire::RegisterNodeReply> reply) {
  if (!reply.ok()) {
    events_.refused(reply.error().message());
    return events_.stop("the head refused this node: " + reply.error().message());
  }
  head_lost_.reset();
  if (is_registered()) {
    links_.head_registered();
    return events_.registered_again();
  }
  self_.registration.info.node = reply->node;
  self_.registration.info.node_id = reply->node_id;
  self_.registration.cluster_id = reply->cluster_id;
  links_.set_self(reply->node, reply->cluster_id);
  links_.head_registered();
  if (Status status = events_.registered(*reply); !status.ok()) {
    events_.refused(status.error().message());
    events_.stop(status.error().message());
  }
}

void Membership::report(std::uint32_t node, wire::LinkState state, const std::string& why) {
  if (state == wire::LinkState::kDown)
    write_log(LogLevel::kWarn, "no link to node {} for some seconds ({}): the head is told", node, why);
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kNotice);
  header.source = daemon_of(self_.registration.info.node);
  header.destination = kHead;
  header.arg0 = static_cast<std::uint64_t>(wire::Method::kLinkReport);
  (void)links_.send(0, header, wire::encode_message(wire::LinkReport{node, state, why}));
}

void Membership::link_down(const std::string& why) {
  if (!is_registered()) {
    events_.refused("the head is not to be reached: " + why);
    return events_.stop(why);
  }
  write_log(LogLevel::kWarn, "the link to the head is lost: {}", why);
  if (self_.links_in_memory) return head_ended(why);
  redial_head(why);
}

/// NDM-2
void Membership::redial_head(const std::string& why) {
  if (!head_lost_) head_lost_ = loop_.now();
  const Duration left = *head_lost_ + kRedialHead - loop_.now();
  if (left <= Duration::zero()) return events_.stop("the head did not come back: " + why);
  loop_.after(kSeekHeadPause, [this, left] {
    if (Status status = links_.dial_head(self_.head_address, left); !status.ok())
      events_.stop(status.error().message());
  });
}

void Membership::head_ended(const std::string& why) {
  if (!is_registered()) {
    events_.refused("the head ended: " + why);
    return events_.stop(why);
  }
  if (!self_.embedded_head) return events_.stop("the head ended: " + why);
  events_.head_died({0, "", "the head of the embedded cluster died: " + why});
  loop_.after(kTellWait, [this] { events_.stop("the head died"); });
}

void Membership::on_node_died(const wire::NodeDied& death) {
  // NDM-1
  if (death.node == self_.registration.info.node)
    return events_.stop("the head declared this node dead: " + death.reason);
  if (links_.is_dead(death.node)) return;
  links_.node_dead(death.node);
  events_.node_died(death);
}

}  // namespace troupe::node
