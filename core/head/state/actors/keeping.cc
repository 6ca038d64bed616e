#include "core/head/state/actors/keeping.h"

#include <algorithm>

#include "core/wire/kept.h"

namespace troupe::head {
namespace {

using wire::buffers_of, wire::each_value, wire::may_come_back, wire::name_of;

/// They are called otherwise where they are pinned now.
template <class Desc>
void rename_buffers(Desc& desc, const std::vector<wire::BufferDesc>& names) {
  std::size_t next = 0;
  each_value(desc, [&](wire::ValueDesc& value) {
    for (wire::BufferDesc& buffer : value.buffers)
      if (next < names.size()) buffer = names[next++];
  });
}

template <class Desc>
std::vector<ActorId> handles_of(const Desc& desc, ActorId self) {
  std::vector<ActorId> handles;
  each_value(desc, [&](const wire::ValueDesc& value) {
    for (const wire::HandleDesc& handle : value.handles)
      if (handle.actor != self) handles.push_back(handle.actor);  // its own would keep it alive for ever
  });
  return handles;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------
// arguments

void Keeping::created(Turn& turn, const wire::ActorSpec& spec, std::uint32_t home) {
  std::vector<wire::BufferDesc> buffers = buffers_of(spec);
  std::vector<ActorId> handles = handles_of(spec, spec.id);
  const bool creator_holds = wire::creator_holds(spec);
  if (buffers.empty() && !creator_holds) return;
  Kept& kept = kept_[spec.id];
  kept.comes_back = may_come_back(spec);
  if (creator_holds) kept.creator = spec.creator;
  if (!kept.comes_back) handles.clear();  // the creator holds them until they are not needed any more
  kept.arguments = give(name_of(spec), home, std::move(buffers), std::move(handles));
  settle(turn, kept);
}

void Keeping::refused(Turn& turn, const wire::ActorSpec& spec, std::uint32_t home) {
  if (!buffers_of(spec).empty()) tell_no_more(turn, home, name_of(spec));
}

void Keeping::started(Turn& turn, const wire::ActorSpec& spec) {
  auto at = kept_.find(spec.id);
  if (at == kept_.end()) return;
  Kept& kept = at->second;
  if (kept.comes_back) return;
  let_go(turn, kept.arguments);
  if (kept.creator == ProcessId{}) kept_.erase(at);  // else it is still to be told (KP-4)
}

void Keeping::free_creator(Turn& turn, Kept& kept) {
  if (kept.creator == ProcessId{}) return;
  turn.effects.notice(std::exchange(kept.creator, {}), wire::Method::kArgumentsTaken,
                      wire::ResolveActor{kept.arguments.name.actor});
}

void Keeping::ended(Turn& turn, const wire::ActorSpec& spec) {
  auto at = kept_.find(spec.id);
  if (at == kept_.end()) return;
  Kept& kept = at->second;
  free_creator(turn, kept);
  let_go(turn, kept.arguments);
  drop(turn, kept, std::exchange(kept.latest, nullptr));
  drop(turn, kept, std::exchange(kept.copying, nullptr));
  drop(turn, kept, std::exchange(kept.safe, nullptr));
  kept_.erase(at);
}

// ----------------------------------------------------------------------------------------------------------
// checkpoints

void Keeping::checkpoint(Turn& turn, wire::Checkpoint checkpoint, std::uint32_t home) {
  Kept& kept = kept_[checkpoint.actor];
  if (kept.arguments.name.actor != checkpoint.actor) kept.arguments.name = {checkpoint.actor, 0, 0};
  if (kept.latest && name_of(checkpoint) <= kept.latest->thing.name) return;  // told twice
  kept.comes_back = true;
  kept.lives_on = home;
  auto saved = std::make_shared<Saved>();
  saved->thing = give(name_of(checkpoint), home, buffers_of(checkpoint), handles_of(checkpoint, checkpoint.actor));
  saved->checkpoint = std::move(checkpoint);
  drop(turn, kept, std::exchange(kept.latest, std::move(saved)));
  settle(turn, kept);
}

void Keeping::stale(Turn& turn, const wire::Checkpoint& checkpoint, std::uint32_t home) {
  if (!buffers_of(checkpoint).empty()) tell_no_more(turn, home, name_of(checkpoint));
}

/// KP-3
std::optional<std::string> Keeping::restore(Turn& turn, wire::StartActor& start) {
  auto at = kept_.find(start.spec.id);
  if (at == kept_.end()) return std::nullopt;
  Kept& kept = at->second;
  if (kept.arguments.lost())
    return "its constructor's arguments were kept by node " + kept.arguments.lost_with + ", which died";
  rename_buffers(start.spec, kept.arguments.at_home);
  if (!kept.latest) return std::nullopt;
  if (kept.latest->thing.lost()) {
    const std::string why = "its checkpoint " + std::to_string(kept.latest->checkpoint.number) + " was kept by node " +
                            kept.latest->thing.lost_with + ", which died";
    if (!kept.safe || kept.safe == kept.latest || kept.safe->thing.lost()) return why;
    turn.effects.warn("actor " + start.spec.class_name + ": " + why + "; it goes on from checkpoint " +
                      std::to_string(kept.safe->checkpoint.number));
    drop(turn, kept, std::exchange(kept.latest, kept.safe));
  }
  start.checkpoint = kept.latest->checkpoint;
  rename_buffers(*start.checkpoint, kept.latest->thing.at_home);
  return std::nullopt;
}

/// What follows from what is known now: what to copy, and which checkpoints nobody will ask for (KP-2).
void Keeping::settle(Turn& turn, Kept& kept) {
  if (kept.comes_back) copy(turn, kept, kept.arguments);
  if (!kept.latest) return;
  if (kept.copying && kept.copying->thing.asked == 0) {
    SavedPtr done = std::exchange(kept.copying, nullptr);
    if (done->thing.safe()) drop(turn, kept, std::exchange(kept.safe, done));
    else drop(turn, kept, std::move(done));
  }
  if (kept.latest->thing.safe()) {
    drop(turn, kept, std::exchange(kept.copying, nullptr));
    drop(turn, kept, std::exchange(kept.safe, kept.latest));
  }
  if (!kept.copying && !kept.latest->thing.safe()) {
    copy(turn, kept, kept.latest->thing);
    if (kept.latest->thing.asked != 0) kept.copying = kept.latest;
  }
  const bool no_better =
      kept.safe && kept.safe != kept.latest && !kept.safe->thing.safe() && !kept.latest->thing.lost();
  if (no_better) drop(turn, kept, std::exchange(kept.safe, nullptr));
}

// ---------------------------------------------------------------------------------------------------------------
// copies

/// Asks another node to pin copies, unless one does, or one that was asked could not.
void Keeping::copy(Turn& turn, Kept& kept, Thing& thing) {
  if (thing.lost() || thing.safe() || thing.asked != 0 || thing.token != 0) return;
  const std::uint32_t node = other_node(kept, thing);
  if (node == 0) return;
  thing.asked = node;
  thing.token = kKeepTokenBit | ++last_token_;
  asked_.emplace(thing.token, thing.name);
  turn.effects.request(daemon_of(node), wire::Method::kKeep, thing.token, wire::KeepRequest{thing.name, thing.at_home});
}

std::uint32_t Keeping::other_node(const Kept& kept, const Thing& thing) const {
  std::vector<std::uint32_t> nodes = membership_.living();
  std::erase(nodes, thing.home);
  if (nodes.size() > 1) std::erase(nodes, kept.lives_on);  // not where the actor would die with it
  return nodes.empty() ? 0 : nodes[thing.name.actor.seq % nodes.size()];
}

bool Keeping::answered(Turn& turn, std::uint32_t node, std::uint64_t token, const Message& body) {
  if ((token & kKeepTokenBit) == 0) return false;
  auto question = asked_.find(token);
  if (question == asked_.end()) return true;
  const wire::KeptName name = question->second;
  asked_.erase(question);
  auto at = kept_.find(name.actor);
  if (at == kept_.end()) return true;  // it was told to let go meanwhile (KP-1)
  Kept& kept = at->second;
  Thing* thing = name.number == 0 ? &kept.arguments : kept.copying ? &kept.copying->thing : nullptr;
  if (!thing || thing->token != token || thing->asked != node) return true;
  thing->asked = 0;
  const auto* reply = std::get_if<wire::KeepReply>(&body);
  if (reply && reply->buffers.size() == thing->at_home.size()) {
    if (thing->home != 0) {
      thing->away = node;
      thing->at_away = reply->buffers;
    } else {  // its home died meanwhile: this is its home
      thing->home = node;
      thing->at_home = reply->buffers;
      thing->token = 0;
    }
  } else {
    const auto* error = std::get_if<ErrorRecord>(&body);
    const std::string what =
        name.number == 0 ? "the constructor's arguments" : "checkpoint " + std::to_string(name.number);
    turn.effects.warn(what + " of actor " + to_string(name.actor) + " could not be copied to node " +
                      membership_.node_id(node) + ": " + (error ? error->message : "unreadable reply") +
                      (kept.safe && name.number != 0 ? "; should its node die, it comes back with an older one"
                                                     : "; it dies with its node"));
    tell_no_more(turn, node, name);
  }
  settle(turn, kept);
  return true;
}

/// True when it must be looked at again.
bool Keeping::lose(Thing& thing, std::uint32_t node) const {
  if (thing.at_home.empty() || (thing.home != node && thing.away != node && thing.asked != node)) return false;
  if (thing.home == node) {
    thing.lost_with = membership_.node_id(node);
    thing.home = thing.away;
    if (thing.home != 0) thing.at_home = thing.at_away;
  }
  if (thing.home == thing.away || thing.away == node) {
    thing.away = 0;
    thing.at_away.clear();
  }
  if (thing.asked == node) thing.asked = 0;
  if (thing.asked == 0) thing.token = 0;  // somebody else may be asked
  return true;
}

/// In the order of the actors: that of a hash table is no order for a replay.
void Keeping::each(const std::function<void(Kept& kept, const std::vector<Thing*>& things)>& see) {
  std::vector<ActorId> ids;
  for (const auto& [id, kept] : kept_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (ActorId id : ids) {
    Kept& kept = kept_.at(id);
    std::vector<Thing*> things{&kept.arguments};
    if (kept.latest) things.push_back(&kept.latest->thing);
    if (kept.copying && kept.copying != kept.latest) things.push_back(&kept.copying->thing);
    if (kept.safe && kept.safe != kept.latest && kept.safe != kept.copying) things.push_back(&kept.safe->thing);
    see(kept, things);
  }
}

void Keeping::node_died(Turn& turn, std::uint32_t node) {
  each([&](Kept& kept, const std::vector<Thing*>& things) {
    if (kept.lives_on == node) kept.lives_on = 0;
    bool changed = false;
    for (Thing* thing : things) changed |= lose(*thing, node);
    if (changed) settle(turn, kept);
  });
}

void Keeping::node_joined(Turn& turn) {
  each([&](Kept& kept, const std::vector<Thing*>& things) {
    for (Thing* thing : things)
      if (thing->asked == 0) thing->token = 0;
    settle(turn, kept);
  });
}

// -------------------------------------------------------------------------------------------------------- giving back

Keeping::Thing Keeping::give(wire::KeptName name, std::uint32_t home, std::vector<wire::BufferDesc> buffers,
                             std::vector<ActorId> handles) {
  Thing thing;
  thing.name = name;
  thing.home = home;
  thing.at_home = std::move(buffers);
  if (handles.empty()) return thing;
  thing.holder = {0, ++last_holder_};  // of no node: nobody else has such an id
  for (ActorId handle : handles) holds_.hold(thing.holder, handle);
  return thing;
}

/// KP-1
void Keeping::let_go(Turn& turn, Thing& thing) {
  if (!thing.at_home.empty())
    for (std::uint32_t node : {thing.home, thing.away, thing.asked}) tell_no_more(turn, node, thing.name);
  if (thing.holder != ProcessId{}) {
    const std::vector<ActorId> handles = holds_.drop_all(thing.holder);
    released_.insert(released_.end(), handles.begin(), handles.end());
  }
  const wire::KeptName name = thing.name;
  thing = {};
  thing.name = name;
}

void Keeping::drop(Turn& turn, Kept& kept, SavedPtr saved) {
  if (saved && saved != kept.latest && saved != kept.copying && saved != kept.safe) let_go(turn, saved->thing);
}

void Keeping::tell_no_more(Turn& turn, std::uint32_t node, const wire::KeptName& name) const {
  if (node != 0 && membership_.alive(node)) turn.effects.notice(daemon_of(node), wire::Method::kKeepNoMore, name);
}

}  // namespace troupe::head
