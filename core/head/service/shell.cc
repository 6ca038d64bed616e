#include "core/head/service/shell.h"

#include <algorithm>
#include <string>

#include "core/base/log.h"
#include "core/net/link/batch.h"

namespace troupe::head {
namespace {
constexpr Duration kProbeTimeout = std::chrono::seconds(2);
}  // namespace

void Shell::opened(net::LinkId link, std::uint64_t incarnation) {
  if (probes_.erase(link) != 0) return links_->close(link);  // it is there: it will come back
  peers_[link] = {incarnation, 0};
}

void Shell::closed(net::LinkId link, bool nobody_there) {
  if (auto probe = probes_.find(link); probe != probes_.end()) {
    const std::uint32_t node = probe->second;
    probes_.erase(probe);
    return nobody_there ? apply(NobodyListens{node}) : apply(ProbeBroken{node});
  }
  std::erase_if(tools_, [&](const auto& one) { return one.second == link; });
  if (auto peer = peers_.find(link); peer != peers_.end()) {
    if (auto way = ways_.find(peer->second.node); way != ways_.end()) {
      way->second->session.link_down(link);
      if (way->second->link == link) way->second->link = 0;
    }
    peers_.erase(peer);
  }
  apply(LinkClosed{link});
}

void Shell::batch(net::LinkId link, ByteView rest) {
  for (;;) {
    const auto [state, header, payload] = net::next_frame(rest);
    if (state == net::BatchFrame::State::kEnd) break;
    if (state == net::BatchFrame::State::kBad) {
      links_->abort(link, "a frame that does not decode");
      break;
    }
    auto peer = peers_.find(link);
    auto way = peer == peers_.end() ? ways_.end() : ways_.find(peer->second.node);
    const auto took =
        way == ways_.end() ? net::Session::Took::kOutside : way->second->session.receive(link, header, payload);
    if (took == net::Session::Took::kOutside) {
      take_outside(link, header, payload);
    } else if (took == net::Session::Took::kViolation) {
      links_->abort(link, "frames that contradict the session");
      break;
    }
  }
  forgotten_.clear();
}

/// HSV-3
void Shell::take_outside(net::LinkId link, net::FrameHeader header, ByteView payload) {
  const bool is_tools = header.source.node == 0 && header.source.serial != 0;
  const bool registers = header.kind == static_cast<std::uint8_t>(wire::FrameKind::kRequest) &&
                         header.arg0 == static_cast<std::uint64_t>(wire::Method::kRegisterNode);
  if (is_tools) header.source = tool_at(link);
  if (is_tools || registers) take_frame(link, header, payload);
}

void Shell::take_frame(net::LinkId link, const net::FrameHeader& header, ByteView payload) {
  if (header.destination != kHead) return;  // the head is no post office
  if (auto frame = decode_frame(link, header, payload)) apply(std::move(*frame));
}

/// The name under which a tool's answers find their way back.
ProcessId Shell::tool_at(net::LinkId link) {
  const ProcessId tool{kToolNodes | static_cast<std::uint32_t>(link & (kToolNodes - 1)), 1};
  tools_[tool.node] = link;
  return tool;
}

void Shell::apply(Event event) {
  state_.apply(now_(), std::move(event), effects_);
  for (Effect& effect : effects_.take()) perform(effect);
}

void Shell::perform(Effect& effect) {
  if (auto* message = std::get_if<Send>(&effect)) return send(*message);
  if (auto* line = std::get_if<LogLine>(&effect))
    return write_log(line->warning ? LogLevel::kWarn : LogLevel::kInfo, "{}", line->text);
  if (auto* close = std::get_if<CloseLink>(&effect)) return links_->close(close->link);
  if (auto* dead = std::get_if<ForgetNode>(&effect)) return forget(dead->node);
  if (auto* wanted = std::get_if<ProbeNode>(&effect)) return probe(*wanted);
  bind(std::get<BindLink>(effect));
}

void Shell::bind(const BindLink& bind) {
  auto peer = peers_.find(bind.link);
  if (peer == peers_.end()) return;  // it has ended: the state hears of that next
  std::unique_ptr<Way>& way = ways_[bind.node];
  if (!way) way = std::make_unique<Way>(*this, bind.node);
  if (!way->session.identify(peer->second.incarnation))
    return links_->abort(bind.link, "another process was that node");
  peer->second.node = bind.node;
  way->link = bind.link;
  way->session.link_up(bind.link);
}

void Shell::forget(std::uint32_t node) {
  auto way = ways_.find(node);
  if (way == ways_.end()) return;
  way->second->session.end();
  forgotten_.push_back(std::move(way->second));
  ways_.erase(way);
}

/// Does anybody listen where the node did? Only a refusal says something, and that at once.
void Shell::probe(const ProbeNode& probe) {
  Result<net::LinkId> link =
      links_->dial({.address = probe.address, .timeout = kProbeTimeout, .expected = {.role = net::ProofRole::kNode}});
  if (link.ok()) probes_[*link] = probe.node;
}

void Shell::send(Send& message) {
  Encoded frame = encode_send(message);
  if (frame.payload.size() > net::kPayloadMax && message.kind == wire::FrameKind::kResponse) {
    message.body = error_record(ErrorCode::kSerialization, "the answer has " + std::to_string(frame.payload.size()) +
                                                               " bytes: more than a frame can carry");
    message.failed = true;
    frame = encode_send(message);
  }
  if (message.link != 0) return put(message.link, frame);
  if (auto tool = tools_.find(message.to.node); tool != tools_.end()) return put(tool->second, frame);
  auto at = ways_.find(message.to.node);
  if (at == ways_.end()) return;  // a dead node
  Way& way = *at->second;
  if (frame.payload.size() > net::kPayloadMax)
    return write_log(LogLevel::kError, "a notice of {} bytes is dropped: it is longer than any may be",
                     frame.payload.size());
  way.session.send(frame.header, frame.payload);
  if (way.session.is_full() && way.link != 0) links_->abort(way.link, "it acknowledges nothing");
}

void Shell::put(net::LinkId link, const Encoded& frame) {
  if (!links_->send(link, frame.header, frame.payload))
    write_log(LogLevel::kDebug, "link {} takes no more frames", link);
}

}  // namespace troupe::head
