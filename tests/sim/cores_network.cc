// The model network of the cores' world: rings and links as channels, one for each pair, and the way to and from the
// head.
#include "core/head/service/frame_codec.h"
#include "core/node/daemon/mail/mail.h"
#include "tests/sim/cores.h"

namespace troupe::sim {

using namespace std::chrono_literals;

Duration CoreWorld::delay(std::uint32_t node) {
  double micros = 20 + 300 * random_.unit();
  if (random_.chance(0.05)) micros *= 20;  // a hiccup
  const SimNode* at = node_at(node);
  return Duration(static_cast<Duration::rep>(micros * (at ? at->slowness : 1) * 1000));
}

SimNode* CoreWorld::node_at(std::uint32_t number) {
  auto at = nodes_.find(number);
  return at == nodes_.end() ? nullptr : at->second.get();
}

SimProcess* CoreWorld::find_any(ProcessId id) {
  SimNode* node = node_at(id.node);
  if (!node) return nullptr;
  auto at = node->processes.find(id.serial);
  return at == node->processes.end() ? nullptr : at->second.get();
}

SimProcess* CoreWorld::find(ProcessId id) {
  SimProcess* process = find_any(id);
  return process && process->alive ? process : nullptr;
}

// ----------------------------------------------------------------------------------------------------------- as outlet

bool SimProcess::send(ProcessId peer, const net::FrameHeader& header, ByteView payload) {
  if (!alive) return true;
  if (!attached(peer)) return false;
  const bool local = header.destination.node == id.node && header.destination.serial != 0;
  world.post(id, header, payload, peer == daemon_of(id.node) && local);
  return true;
}

/// With --full-rings one ring in six is full for some milliseconds: frames by the daemon and counts wait (CR-4, CR-5).
std::size_t SimProcess::backlog(ProcessId peer) const {
  if (!alive || !world.options_.full_rings) return 0;
  const auto span = std::uint64_t(world.queue_.now() / 4ms);
  const std::uint64_t drawn = IdHash::mix(IdHash::mix(id.key() + world.options_.seed) + peer.key() * 3 + span * 7);
  return drawn % 6 == 0 ? worker::FrameRouter::kOutboxMax + 1 : 0;
}

net::BegunCalls SimProcess::begun(ProcessId peer) const {
  const SimProcess* other = world.find_any(peer);
  if (!other) return {};
  auto at = other->begun_of.find(id);
  return at == other->begun_of.end() ? net::BegunCalls() : at->second.snapshot();
}

void SimProcess::drain_and_close(ProcessId peer) {
  if (!alive) return;
  auto at = world.channels_.find({peer, id});
  while (alive && at != world.channels_.end() && !at->second.frames.empty()) world.deliver(peer, id);
  peers.erase(peer);
}

exec::Deadline SimProcess::now() const {
  world.check_ends(*this);
  return exec::Deadline(world.queue_.now() + std::chrono::hours(1));
}

double SimProcess::chance() { return world.random_.unit(); }

// ------------------------------------------------------------------------------------------------------------ channels

void CoreWorld::post(ProcessId source, const net::FrameHeader& header, ByteView payload, bool by_daemon) {
  const ProcessId to = header.destination;
  SimNode* far = node_at(to.node);
  if (to != kHead && (!far || !far->alive)) {
    if (SimNode* near = node_at(source.node); near && near->dead_nodes.contains(to.node)) refuse(*near, header);
    return;
  }
  Channel& channel = channels_[{source, to}];
  Duration way = delay(source.node == 0 ? to.node : source.node);
  if (source.node != to.node && to != kHead) way += delay(to.node);
  // one link: behind what that daemon has told the other
  if (source.is_daemon() && to.serial != 0 && source.node != to.node)
    channel.last = std::max(channel.last, channels_[{source, daemon_of(to.node)}].last);
  channel.last = std::max(queue_.now() + way, channel.last + 1ns);
  Frame frame{header, {payload.begin(), payload.end()}, channel.last, by_daemon};
  frame.header.payload_size = std::uint32_t(payload.size());
  if (to == kHead && source.node != 0 && header.kind == std::uint8_t(wire::FrameKind::kNotice))
    peek(*node_at(source.node), frame);
  channel.frames.push_back(std::move(frame));
  queue_.at(channel.last, [this, source, to] {
    Channel& channel = channels_[{source, to}];
    // else it was drained or lost
    if (!channel.frames.empty() && channel.frames.front().at <= queue_.now()) deliver(source, to);
  });
}

void CoreWorld::deliver(ProcessId from, ProcessId to) {
  Channel& channel = channels_.at({from, to});
  Frame frame = std::move(channel.frames.front());
  channel.frames.pop_front();
  ++steps_;
  if (options_.verbose)
    say("  frame of kind " + std::to_string(frame.header.kind) + " (" + std::to_string(frame.header.arg0) + ", " +
        std::to_string(frame.header.token) + ", " + std::to_string(frame.payload.size()) + " bytes) from " +
        to_string(from) + " to " + to_string(to));
  if (to == kHead) {
    if (SimNode* node = node_at(from.node); node && node->alive) to_head(*node, frame);
    return;
  }
  SimNode* node = node_at(to.node);
  if (!node || !node->alive) return;
  if (to.serial == 0) return on_daemon(*node, frame);
  SimProcess* process = find(to);
  if (!process || !process->core) return refuse(*node, frame.header);
  const bool pair = from.node == to.node && from.serial != 0 && !frame.by_daemon;
  if (!pair && frame.header.kind == std::uint8_t(wire::FrameKind::kCall))
    process->ledger.forwarded(from, frame.header.token);
  if (frame.header.kind == std::uint8_t(wire::FrameKind::kCall)) check_rounds(frame);
  if (spoil(from, to, frame)) return;
  hand_over(*process, std::move(frame), pair ? from : daemon_of(to.node));
}

/// As node::Mail: a frame for somebody who is known to be dead tells its sender so, once for each pair in kToldFor. A
/// request is answered besides, each one: its sender knows of that death already, and no news of it may come (ML-1,
/// RQ-1).
void CoreWorld::refuse(SimNode& node, const net::FrameHeader& header) {
  const auto kind = wire::FrameKind(header.kind);
  SimProcess* source = find(header.source);
  const bool node_lost = header.destination.node != node.number;
  if (source && kind == wire::FrameKind::kRequest)
    respond(header, wire::encode_message(head::error_record(ErrorCode::kNodeDied, "nobody is there")), true);
  if (!source || kind == wire::FrameKind::kResponse || kind == wire::FrameKind::kNotice ||
      (header.destination.serial == 0 && !node_lost))
    return;
  auto death = node.deaths.find(header.destination);
  if (!node_lost && death == node.deaths.end()) return;  // it is dying: the news of it comes soon
  const auto [told, is_first] = node.told.try_emplace({header.source, header.destination}, queue_.now());
  if (!is_first && queue_.now() - told->second < node::Mail::kToldFor) return;
  told->second = queue_.now();
  if (node_lost)
    notice(daemon_of(node.number), header.source, wire::Method::kNodeDied,
           wire::NodeDied{header.destination.node, "", "the node is not reachable"});
  else
    notice(daemon_of(node.number), header.source, wire::Method::kProcessDied, death->second,
           channels_[{header.destination, header.source}].last);  // DA-1: on one link, behind its last frames
}

void CoreWorld::hand_over(SimProcess& process, Frame frame, ProcessId ring) {
  process.core->handler().on_message(ring, frame.header, frame.payload);
  if (!process.alive) return;
  look(process);
  check(process);
}

/// A frame that dies with its sender: what it had not published yet is lost, from some frame on.
void CoreWorld::cut_tail(ProcessId from) {
  for (auto& [pair, channel] : channels_) {
    if (pair.first != from || channel.frames.empty() || !random_.chance(0.3)) continue;
    const std::size_t keep = below(channel.frames.size() + 1);
    channel.frames.resize(keep);
  }
}

/// What dies with a node: of each link to another one, all that had not left when the node did. A link keeps its order,
/// so what one daemon says to the other (a lease is counted) may arrive without what follows it (the lease).
void CoreWorld::cut_links(std::uint32_t node) {
  std::map<std::uint32_t, Time> last;
  for (auto& [pair, channel] : channels_) {
    if (pair.first.node != node || pair.second.node == node || pair.second == kHead || channel.frames.empty()) continue;
    const auto [link, fresh] = last.try_emplace(pair.second.node);
    if (fresh) link->second = queue_.now() + Duration(static_cast<Duration::rep>(late_.unit() * 1e6));
    while (!channel.frames.empty() && channel.frames.back().at > link->second) channel.frames.pop_back();
  }
}

void CoreWorld::notice_bytes(ProcessId from, ProcessId to, wire::Method method, const std::vector<std::byte>& bytes,
                             Time not_before) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kNotice);
  header.arg0 = std::uint64_t(method);
  header.source = from;
  header.destination = to;
  Channel& channel = channels_[{from, to}];
  channel.last = std::max(channel.last, not_before);
  post(from, header, bytes);
}

void CoreWorld::respond(const net::FrameHeader& request, const std::vector<std::byte>& bytes, bool failed) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kResponse);
  header.token = request.token;
  header.arg0 = failed ? 1 : 0;
  header.source = request.destination;
  header.destination = request.source;
  post(header.source, header, bytes);
}

// ---------------------------------------------------------------------------------------------------------------- head

void CoreWorld::to_head(SimNode& node, const Frame& frame) {
  if (std::optional<head::Frame> decoded = head::decode_frame(node.link, frame.header, frame.payload);
      decoded && links_.contains(node.link))
    apply_head(std::move(*decoded));
}

void CoreWorld::apply_head(head::Event event) {
  state_.apply(queue_.now(), std::move(event), effects_);
  std::vector<head::Effect> effects = effects_.take();
  for (head::Effect& effect : effects) {  // first: what is sent on a new link needs its node's number
    auto* bind = std::get_if<head::BindLink>(&effect);
    if (!bind) continue;
    SimNode* node = links_.at(bind->link);
    if (node->number != 0) continue;
      node->number = bind->node;
    for (auto& joining : joining_)
      if (joining.get() == node) nodes_[bind->node] = std::move(joining);
    std::erase_if(joining_, [](const auto& joining) { return !joining; });
  }
  for (head::Effect& effect : effects) {
    if (auto* send = std::get_if<head::Send>(&effect)) {
      SimNode* node = nullptr;
      if (auto at = links_.find(send->link); send->link != 0 && at != links_.end()) node = at->second;
      if (send->link == 0) node = node_at(send->to.node);
      if (!node || !node->alive || node->number == 0) continue;
      head::Encoded encoded = head::encode_send(*send);
      if (send->link != 0) encoded.header.destination = daemon_of(node->number);
      post(kHead, encoded.header, encoded.payload);
    } else if (auto* close = std::get_if<head::CloseLink>(&effect)) {
      auto at = links_.find(close->link);
      if (at == links_.end()) continue;
      SimNode* node = at->second;
      links_.erase(at);
      if (node->alive) kill_node(*node);
    } else if (auto* line = std::get_if<head::LogLine>(&effect)) {
      say("head: " + line->text);
    }
  }
  arm_tick();
}

void CoreWorld::arm_tick() {
  std::optional<Time> next = state_.next_deadline();
  if (!next || (tick_at_ && *tick_at_ <= *next)) return;
  tick_at_ = next;
  queue_.at(*next, [this, at = *next] {
    if (tick_at_ != at) return;
    tick_at_.reset();
    apply_head(head::Tick{});
  });
}

// ------------------------------------------------------------------------------------------------------------- planted

/// The planted bugs: true when the frame is not to be delivered.
bool CoreWorld::spoil(ProcessId from, ProcessId to, Frame& frame) {
  if (options_.plant.empty() || !busy_ || from.serial == 0) return false;
  const auto kind = wire::FrameKind(frame.header.kind);
  const bool control = kind == wire::FrameKind::kControl;
  auto is = [&](worker::Control what) { return control && worker::Control(frame.header.arg0) == what; };
  auto nth = [&](std::uint64_t n) { return ++planted_ == n; };
  if (planted("lost-reply")) return kind == wire::FrameKind::kReply && nth(20);
  if (planted("lost-release")) return is(worker::Control::kRelease) && nth(5);
  if (planted("lost-ack")) return is(worker::Control::kHoldAck) && nth(3);
  if (planted("lost-value")) return kind == wire::FrameKind::kValue && nth(3);
  SimProcess* process = find(to);
  const ProcessId ring = from.node == to.node ? from : daemon_of(to.node);
  if (planted("double-call") && kind == wire::FrameKind::kCall && nth(15))
    process->core->handler().on_message(ring, frame.header, frame.payload);
  // What was just borrowed is given back by nobody. Always, as most borrowers drop it before its owner does.
  if (planted("early-release") && is(worker::Control::kBorrow)) {
    ObjectId id;
    std::memcpy(&id, frame.payload.data(), sizeof id);
    process->core->handler().on_message(ring, frame.header, frame.payload);
    struct { ObjectId id; std::uint64_t grants; } release{id, 100};
    frame.header.arg0 = std::uint64_t(worker::Control::kRelease);
    frame.payload.assign(reinterpret_cast<std::byte*>(&release),
                         reinterpret_cast<std::byte*>(&release) + sizeof release);
  }
  if (planted("false-value") && kind == wire::FrameKind::kReply &&
      frame.payload.size() == sizeof(worker::ReplyHead) + sizeof(worker::ValueHead) + sizeof(Label) && nth(5)) {
    Label label{1, 77};
    std::memcpy(frame.payload.data() + frame.payload.size() - sizeof label, &label, sizeof label);
  }
  Channel& channel = channels_.at({from, to});
  if (planted("swapped-calls") && kind == wire::FrameKind::kCall && !channel.frames.empty() &&
      channel.frames.front().header.kind == frame.header.kind && nth(1)) {
    std::swap(frame, channel.frames.front());
    planted_ = 0;
  }
  return false;
}

// --------------------------------------------------------------------------------------------------------------- trace

void CoreWorld::say(const std::string& text) {
  char stamp[40];
  std::snprintf(stamp, sizeof stamp, "%12.6f  ", std::chrono::duration<double>(queue_.now()).count());
  if (options_.verbose) std::printf("%s%s\n", stamp, text.c_str());
  trace_.push_back(stamp + text);
  if (trace_.size() > 600) trace_.pop_front();
}

void CoreWorld::broken(const std::string& text) {
  if (!broken_.empty()) return;
  broken_ = text;
  say("BROKEN: " + text);
}

}  // namespace troupe::sim
