// The model network: frames to and from the head, with delays, in the order of their pair.
#include "tests/sim/world.h"

namespace troupe::sim {

using namespace std::chrono_literals;

Duration World::delay(const Node& node) {
  double micros = 50 + 450 * random_.unit();
  if (random_.chance(0.05)) micros *= 10;  // a hiccup
  return Duration(static_cast<Duration::rep>(micros * node.slowness * 1000));
}

Time World::in_order(ProcessId from, ProcessId to, const Node& node) {
  Time& last = last_delivery_[{from, to}];
  last = std::max(queue_.now() + delay(node), last + 1ns);
  return last;
}

Node* World::node_of(ProcessId process) {
  auto at = nodes_.find(process.node);
  return at == nodes_.end() ? nullptr : at->second.get();
}

Proc* World::proc_of(ProcessId process) {
  Node* node = node_of(process);
  if (!node || !node->alive) return nullptr;
  auto at = node->procs.find(process.serial);
  return at == node->procs.end() || !at->second.alive ? nullptr : &at->second;
}

/// Work of a node happens when it is not frozen.
void World::on_node(Node& node, EventQueue::Work work, Time when) {
  queue_.at(when, [&node, work = std::move(work)]() mutable {
    if (!node.alive) return;
    if (node.frozen) node.thaw.push_back(std::move(work));
    else work();
  });
}

void World::to_head(Node& node, Frame frame) {
  frame.link = node.link;
  Time when = in_order(frame.source, kHead, node);
  queue_.at(when, [this, &node, frame = std::move(frame)]() mutable {
    if (node.alive && links_.contains(frame.link)) apply(std::move(frame));  // what a broken link held is lost
  });
}

void World::apply(head::Event event) {
  ++steps_;
  state_.apply(queue_.now(), std::move(event), effects_);
  for (head::Effect& effect : effects_.take()) perform(effect);
  arm_tick();
  check_step();
}

void World::arm_tick() {
  std::optional<Time> next = state_.next_deadline();
  if (!next || (tick_at_ && *tick_at_ <= *next)) return;
  tick_at_ = next;
  queue_.at(*next, [this, at = *next] {
    if (tick_at_ != at) return;  // an earlier one took its place
    tick_at_.reset();
    apply(head::Tick{});
  });
}

void World::perform(head::Effect& effect) {
  if (auto* send = std::get_if<head::Send>(&effect)) {
    Node* node = nullptr;
    if (send->link != 0) {
      auto at = links_.find(send->link);
      if (at != links_.end()) node = at->second;
    } else {
      node = node_of(send->to);
    }
    if (node && node->alive && (send->link != 0 || node->link != 0)) deliver(*node, std::move(*send));
  } else if (auto* bind = std::get_if<head::BindLink>(&effect)) {
    Node* node = links_.at(bind->link);
    if (node->number != 0) return;
    node->number = bind->node;
    for (auto& joining : joining_) {
      if (joining.get() == node) nodes_[bind->node] = std::move(joining);
    }
    std::erase_if(joining_, [](const auto& joining) { return !joining; });
  } else if (auto* close = std::get_if<head::CloseLink>(&effect)) {
    auto at = links_.find(close->link);
    if (at == links_.end()) return;
    Node* node = at->second;
    links_.erase(at);
    say("link of node " + std::to_string(node->number) + " closed by the head");
    on_node(*node, [this, node] { fence(*node); }, queue_.now() + delay(*node));
  } else if (auto* line = std::get_if<head::LogLine>(&effect)) {
    say("head: " + line->text);
  }
}

void World::deliver(Node& node, head::Send send) {
  if (planted("lost-answer") && send.kind == wire::FrameKind::kResponse && send.to.serial != 0 && busy_ &&
      ++planted_ == 40)
    return;
  int copies =
      planted("double-answer") && send.kind == wire::FrameKind::kResponse && send.to.serial != 0 && ++planted_ == 40
          ? 2
          : 1;
  for (int i = 0; i < copies; ++i) {
    Time when = in_order(kHead, send.to, node);
    on_node(node, [this, &node, send]() mutable {
      if (send.to.serial == 0) return daemon_message(node, send);
      if (Proc* proc = proc_of(send.to)) process_message(*proc, send);
    }, when);
  }
}

std::uint64_t World::request(Proc& proc, Method method, Message body, ActorId actor,
                             std::function<void(const Message&)> done) {
  const std::uint64_t token = proc.next_token++;
  proc.pending.emplace(token, Proc::Pending{method, actor, std::move(done)});
  if (planted("lost-drop") && method == Method::kHandleCounts && !std::get<wire::HandleCounts>(body).dropped.empty()) {
    return proc.pending.erase(token), token;
  }
  to_head(*node_of(proc.id), Frame{0, wire::FrameKind::kRequest, proc.id, token, method, false, std::move(body)});
  return token;
}

void World::notice(Proc& proc, Method method, Message body) {
  to_head(*node_of(proc.id), Frame{0, wire::FrameKind::kNotice, proc.id, 0, method, false, std::move(body)});
}

void World::say(const std::string& text) {
  char stamp[40];
  std::snprintf(stamp, sizeof stamp, "%12.6f  ", std::chrono::duration<double>(queue_.now()).count());
  if (options_.verbose) std::printf("%s%s\n", stamp, text.c_str());
  trace_.push_back(stamp + text);
  if (trace_.size() > 400) trace_.pop_front();
}

void World::broken(const std::string& text) {
  if (!broken_.empty()) return;
  broken_ = text;
  say("BROKEN: " + text);
}

}  // namespace troupe::sim
