#include "core/head/service/shell.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/net/link/batch.h"

namespace troupe::head {
namespace {
constexpr Duration kProbeTimeout = std::chrono::seconds(2);
}  // namespace

// -------------------------------------------------------------------------------------------------------- the journal

void Shell::note(Journal::Record record, ByteView more) {
  if (replaying_) return;
  record.time = at_ = now_();
  if (journal_) journal_->append(record, more);
}

void Shell::note_acknowledged(Way& way) {
  const std::uint64_t frames = way.session.acknowledged_frames();
  if (std::exchange(way.acknowledged, frames) != frames) note({Journal::Kind::kAcknowledged, {}, way.node, frames});
}

Status Shell::recover(Journal& journal) {
  replaying_ = true;
  Status status = journal.replay([this](const Journal::Record& record) { return replay(record); });
  replaying_ = false;
  if (!status.ok()) return status;
  journal_ = &journal;
  for (auto& [node, way] : ways_) way->session.presume_given();
  const auto open = peers_;
  for (const auto& [link, peer] : open) link_closed(link);
  write_log(LogLevel::kInfo, "goes on as the head before it: {} nodes are awaited", ways_.size());
  return {};
}

bool Shell::replay(const Journal::Record& record) {
  using Kind = Journal::Kind;
  at_ = record.time;
  const auto node = static_cast<std::uint32_t>(record.a);
  net::FrameHeader header;
  ByteView payload;
  if (record.kind == Kind::kFrame || record.kind == Kind::kOutside) {
    if (record.bytes.size() < sizeof header) return false;
    std::memcpy(&header, record.bytes.data(), sizeof header);
    payload = record.bytes.subspan(sizeof header);
  }
  auto way = ways_.find(node);
  switch (record.kind) {
    case Kind::kOpened: peers_[record.a] = {record.b, 0}; break;
    case Kind::kClosed: link_closed(record.a); break;
    case Kind::kOutside: take_outside(record.a, header, payload); break;
    case Kind::kNobodyListens: apply(NobodyListens{node}); break;
    case Kind::kProbeBroken: apply(ProbeBroken{node}); break;
    case Kind::kTick: apply(Tick{}); break;
    case Kind::kAcknowledged:
      if (way == ways_.end() || !way->second->session.restore_acknowledged(record.b)) return false;
      break;
    case Kind::kFrame:
      if (way == ways_.end()) return false;
      way->second->session.count_delivered();
      way->second->deliver(header, payload);
      forgotten_.clear();
      break;
    default: return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------ what is heard

void Shell::opened(net::LinkId link, std::uint64_t incarnation) {
  if (probes_.erase(link) != 0) return links_->close(link);  // it is there: it will come back
  note({Journal::Kind::kOpened, {}, link, incarnation});
  peers_[link] = {incarnation, 0};
}

void Shell::closed(net::LinkId link, bool nobody_there) {
  auto probe = probes_.find(link);
  if (probe == probes_.end()) return link_closed(link);
  const std::uint32_t node = probe->second;
  probes_.erase(probe);
  note({nobody_there ? Journal::Kind::kNobodyListens : Journal::Kind::kProbeBroken, {}, node});
  return nobody_there ? apply(NobodyListens{node}) : apply(ProbeBroken{node});
}

void Shell::link_closed(net::LinkId link) {
  note({Journal::Kind::kClosed, {}, link});
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

void Shell::tick() {
  const std::optional<Time> next = state_.next_deadline();
  if (!next || *next > now_()) return;
  note({Journal::Kind::kTick});
  apply(Tick{});
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
      links_->abort(link, "frames that contradict the session, or come too late for it");
      break;
    } else if (took == net::Session::Took::kControl) {
      note_acknowledged(*way->second);
    }
  }
  forgotten_.clear();
}

/// HSV-3
void Shell::take_outside(net::LinkId link, net::FrameHeader header, ByteView payload) {
  note({Journal::Kind::kOutside, {}, link, 0, std::as_bytes(std::span(&header, 1))}, payload);
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
  for (const auto& [node, at] : tools_)
    if (at == link) return {node, 1};
  const ProcessId tool{kToolNodes | (++last_tool_ & (kToolNodes - 1)), 1};  // a recovered head counts links anew
  tools_[tool.node] = link;
  return tool;
}

void Shell::apply(Event event) {
  state_.apply(at_, std::move(event), effects_);
  for (Effect& effect : effects_.take()) perform(effect);
}

void Shell::perform(Effect& effect) {
  if (auto* message = std::get_if<Send>(&effect)) return send(*message);
  if (auto* dead = std::get_if<ForgetNode>(&effect)) return forget(dead->node);
  if (auto* wanted = std::get_if<BindLink>(&effect)) return bind(*wanted);
  if (replaying_) return;
  if (auto* line = std::get_if<LogLine>(&effect))
    return write_log(line->warning ? LogLevel::kWarn : LogLevel::kInfo, "{}", line->text);
  if (auto* close = std::get_if<CloseLink>(&effect)) return links_->close(close->link);
  probe(std::get<ProbeNode>(effect));
}

/// Of a link that a node's frames come on.
void Shell::drop(net::LinkId link, std::string_view why) {
  if (!replaying_) links_->abort(link, std::string(why));
}

void Shell::bind(const BindLink& bind) {
  auto peer = peers_.find(bind.link);
  if (peer == peers_.end()) return;  // it has ended: the state hears of that next
  std::unique_ptr<Way>& way = ways_[bind.node];
  if (!way) way = std::make_unique<Way>(*this, bind.node);
  if (!way->session.identify(peer->second.incarnation))
    return drop(bind.link, "another process was that node");
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
  if (way.session.is_full() && way.link != 0) drop(way.link, "it acknowledges nothing");
}

void Shell::put(net::LinkId link, const Encoded& frame) {
  if (!replaying_ && !links_->send(link, frame.header, frame.payload))
    write_log(LogLevel::kDebug, "link {} takes no more frames", link);
}

}  // namespace troupe::head
