#include "tests/sim/store_world.h"

#include <algorithm>
#include <cstdio>

namespace troupe::sim {

using store::BufferId, store::Range;

namespace {

/// Pages are made in steps of 2 MiB, so that a store of less would wait for pages once. Nothing is touched: it costs
/// nothing.
constexpr std::uint64_t kCapacity = 10 << 20, kLargeFrom = 256 << 10, kChunkMax = 1 << 20;
constexpr std::uint32_t kSmallMax = 200'000, kLargeMax = 3'000'000, kCopyMax = 2'000'000;
constexpr std::uint32_t kSlots = 96, kNode = 1, kReaders = 2, kCopied = 3;
constexpr int kActions = 400;
constexpr std::size_t kClientsMax = 4, kTraceMax = 60;
constexpr ProcessId kDaemon{kNode, 0};

store::TimePoint point(Time time) {
  return store::TimePoint(std::chrono::duration_cast<store::TimePoint::duration>(time));
}

}  // namespace

StoreWorld::StoreWorld(WorldOptions options) : options_(std::move(options)), random_(options_.seed, 3) {
  store::StoreServerOptions server;
  server.node = kNode;
  server.capacity = kCapacity;
  server.slots = kSlots;
  server.large_from = kLargeFrom;
  server.chunk_bytes_max = kChunkMax;
  server.lease_slots_max = 16;
  server.make_pages = [](const UniqueFd&, const store::Mapping&, Range, bool) { return Status(); };
  server_ = std::move(*store::StoreServer::create(std::move(server)));
}

void StoreWorld::say(const std::string& text) {
  const std::string line = std::to_string(queue_.now().count() / 1000) + " us: " + text;
  if (options_.verbose) std::printf("%s\n", line.c_str());
  trace_.push_back(line);
  if (trace_.size() > kTraceMax) trace_.pop_front();
}

void StoreWorld::broken(const std::string& text) {
  if (broken_.empty()) broken_ = text;
  say("BROKEN: " + text);
}

// ------------------------------------------------------------------------------------------------------------- network

void StoreWorld::in_order(Channel& channel, Work work) {
  channel.last = std::max(channel.last, queue_.now() + delay());
  queue_.at(channel.last, std::move(work));
}

void StoreWorld::to_daemon(SimStoreClient& client, Work work) {
  in_order(up_[client.id], [this, work = std::move(work)] {
    work();
    apply();
  });
}

void StoreWorld::to_client(ProcessId id, std::function<void(SimStoreClient&)> work) {
  in_order(down_[id], [this, id, work = std::move(work)] {
    if (SimStoreClient* client = find(id)) work(*client);
  });
}

/// A living one.
SimStoreClient* StoreWorld::find(ProcessId id) {
  auto found = clients_.find(id);
  return found == clients_.end() || !found->second->alive ? nullptr : found->second.get();
}

SimStoreClient* StoreWorld::any_client() {
  std::vector<SimStoreClient*> living;
  for (auto& [id, client] : clients_)
    if (client->alive) living.push_back(client.get());
  return living.empty() ? nullptr : living[random_.below(std::uint32_t(living.size()))];
}

void StoreWorld::plan_step(SimStoreClient& client, std::uint64_t number) {
  queue_.after(Duration(random_.below(100'000)), [this, id = client.id, number] {
    SimStoreClient* owner = find(id);
    if (!owner) return;
    auto found = owner->scripts.find(number);
    if (found == owner->scripts.end() || found->second.blocked()) return;
    ++steps_;
    if (!found->second.resume()) owner->scripts.erase(number);
    else if (!found->second.blocked()) plan_step(*owner, number);
  });
}

void StoreWorld::wake(SimStoreClient& client) {
  for (auto& [number, script] : client.scripts) plan_step(client, number);
}

// --------------------------------------------------------------------------------------------------- requests, replies

void StoreWorld::join() {
  const ProcessId id{kNode, ++last_client_};
  auto handles = server_->add_client(id);
  if (!handles.ok()) return broken("a client was not taken: " + std::string(handles.error().what()));
  clients_[id] = std::make_unique<SimStoreClient>(*this, id, std::move(*handles));
  say(to_string(id) + " joins");
}

std::uint64_t StoreWorld::new_request(SimStoreClient& client) {
  requests_[++last_token_] = {client.id, nullptr, busy_ && random_.chance(0.2), false};
  return last_token_;
}

store::TimePoint StoreWorld::deadline_of(std::uint64_t token) {
  if (!requests_.at(token).deadline) return store::kNever;
  const Time when = queue_.now() + Duration(random_.below(20'000'000));
  queue_.at(when, [this] {
    server_->expire(point(queue_.now()));
    apply();
  });
  return point(when);
}

std::uint64_t StoreWorld::ask_lease(SimStoreClient& client, const store::LeaseRequest& request) {
  const std::uint64_t token = new_request(client);
  to_daemon(client, [this, id = client.id, token, request] {
    say(to_string(id) + " asks for a lease, request " + std::to_string(token));
    server_->lease(id, token, request, deadline_of(token));
  });
  return token;
}

std::uint64_t StoreWorld::ask_buffer(SimStoreClient& client, std::uint64_t size) {
  const std::uint64_t token = new_request(client);
  to_daemon(client, [this, id = client.id, token, size] {
    say(to_string(id) + " asks for " + std::to_string(size) + " bytes, request " + std::to_string(token));
    server_->allocate(id, token, size, deadline_of(token));
  });
  return token;
}

void StoreWorld::ask_ahead(SimStoreClient& client, const store::LeaseRequest& request) {
  const std::uint64_t token = ask_lease(client, request);
  requests_.at(token).ahead = std::make_shared<Asked>();
}

void StoreWorld::maybe_free(SimStoreClient& client, std::vector<BufferId> ids) {
  to_daemon(client, [this, id = client.id, ids = std::move(ids)] {
    for (BufferId one : ids) say(to_string(id) + " drops " + to_string(one));
    server_->maybe_free(id, ids);
  });
}

void StoreWorld::give_back(SimStoreClient& client, store::LocalLeases::GiveBack back) {
  if (back.empty()) return;
  to_daemon(client, [this, id = client.id, back = std::move(back)] {
    for (const auto& chunk : back.chunks) say(to_string(id) + " returns chunk " + std::to_string(chunk.chunk));
    server_->give_back(id, back.chunks, back.slots);
  });
}

/// As StoreService does it: answered once, also when it was withdrawn.
void StoreWorld::withdraw(ProcessId client, std::uint64_t token) {
  if (requests_.at(token).over) return;
  if (server_->cancel_request(client, token)) answer(client, token, [](Asked&) {});
}

void StoreWorld::answer(ProcessId client, std::uint64_t token, const std::function<void(Asked&)>& fill) {
  auto found = requests_.find(token);
  if (found == requests_.end() || found->second.over)
    return broken("STI-4: request " + std::to_string(token) + " is answered again");
  if (dying_.contains(client) && !dying_.at(client))
    return broken("STI-4: " + to_string(client) + " is closing and is answered");
  found->second.over = true;
  Asked filled;
  fill(filled);
  to_client(client, [token, filled, ahead = found->second.ahead != nullptr](SimStoreClient& owner) {
    if (ahead) {
      if (filled.lease) owner.leases.add(*filled.lease);
      return;
    }
    auto asked = owner.asked.find(token);
    if (asked == owner.asked.end()) return;
    const AskedPtr one = asked->second;
    one->lease = filled.lease;
    one->grant = filled.grant;
    owner.answered(one);
  });
}

void StoreWorld::apply() {
  for (auto effects = server_->take_effects(); !effects.empty(); effects = server_->take_effects())
    for (const store::StoreEffect& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  check();
}

void StoreWorld::perform(const store::LeaseGranted& effect) {
  say("request " + std::to_string(effect.token) + ": chunk " + std::to_string(effect.lease.chunk));
  answer(effect.client, effect.token, [&](Asked& asked) { asked.lease = effect.lease; });
}

void StoreWorld::perform(const store::BufferGranted& effect) {
  say("request " + std::to_string(effect.token) + ": buffer " + to_string(effect.grant.id));
  answer(effect.client, effect.token, [&](Asked& asked) { asked.grant = effect.grant; });
}

void StoreWorld::perform(const store::RequestFailed& effect) {
  say("request " + std::to_string(effect.token) + ": " + effect.error->what());
  answer(effect.client, effect.token, [](Asked&) {});
}

void StoreWorld::perform(const store::TrimAsked& effect) {
  to_client(effect.client, [](SimStoreClient& client) { client.trim(); });
}

void StoreWorld::perform(const store::PagesWanted& effect) {
  const bool fails = chance(0.1);
  queue_.after(3 * delay(), [this, effect, fails] {
    const Status made = fails ? Status(Error("the machine has none left")) : server_->arena().reserve(effect.range);
    server_->pages_made(effect.ticket, made);
    apply();
  });
}

/// A thread gives up waiting; the answer may be on its way (OSR-1).
void StoreWorld::give_up() {
  SimStoreClient* client = any_client();
  if (!client || client->asked.empty()) return;
  auto at = client->asked.begin();
  std::advance(at, random_.below(std::uint32_t(client->asked.size())));
  const AskedPtr one = at->second;
  one->given_up = one->done = true;
  const std::uint64_t token = one->token;
  say(to_string(client->id) + " gives up request " + std::to_string(token));
  to_daemon(*client, [this, id = client->id, token] { withdraw(id, token); });
  wake(*client);
}

// ----------------------------------------------------------------------------------------------- ids between processes

void StoreWorld::send(BufferId id, SimStoreClient& from, ProcessId to) {
  const Parcel parcel{++last_parcel_, id, from.id, to};
  parcels_[parcel.number] = parcel;
  queue_.after(delay(), [this, parcel] {
    if (SimStoreClient* receiver = find(parcel.to)) receiver->start(receiver->take_in(parcel));
    else taken_in(parcel, true);
  });
}

/// The receiver has it, or is dead: the sender's pin may go.
void StoreWorld::taken_in(const Parcel& parcel, bool pinned) {
  if (parcels_.erase(parcel.number) == 0) return;  // its receiver died meanwhile
  if (!pinned && (find(parcel.from) || dying_.contains(parcel.from)))
    broken("STI-3: the buffer " + to_string(parcel.id) + " was lost under way");
  SimStoreClient* const sender = find(parcel.from);
  if (sender) sender->start(sender->drop(parcel.id, SimStoreClient::Whose::kFrames));
  else forget_if_drained(parcel.from);
}

// -------------------------------------------------------------------------------------------------------------- deaths

void StoreWorld::kill(SimStoreClient& client) {
  const ProcessId dead = client.id;
  say(to_string(dead) + " dies");
  client.dies();
  dying_[dead] = true;
  in_order(up_[dead], [this, dead] {  // its last messages came first (DA-1)
    server_->client_closing(dead);
    dying_[dead] = false;
    apply();
    std::vector<Parcel> lost;  // on their way to it
    for (const auto& [number, parcel] : parcels_)
      if (parcel.to == dead) lost.push_back(parcel);
    for (const Parcel& parcel : lost) taken_in(parcel, true);
    forget_if_drained(dead);
  });
}

/// DA-2: nobody has still to take in what it sent, or all have waited enough.
void StoreWorld::forget_if_drained(ProcessId dead) {
  auto found = dying_.find(dead);
  if (found == dying_.end() || found->second) return;
  for (const auto& [number, parcel] : parcels_)
    if (parcel.from == dead) return;
  queue_.after(delay(), [this, dead] {
    if (dying_.erase(dead) == 0) return;
    say(to_string(dead) + " is forgotten");
    server_->client_died(dead);
    clients_.erase(dead);
    apply();
  });
}

// --------------------------------------------------------------------------------------------------------- other nodes

/// A process of another node is sent an id; the sender keeps its pin until the daemon has counted the hold.
void StoreWorld::remote_hold() {
  SimStoreClient* client = any_client();
  if (!client || client->pins.empty()) return;
  auto at = client->pins.begin();
  std::advance(at, random_.below(std::uint32_t(client->pins.size())));
  const BufferId id = at->first;
  if (std::find(seen_.begin(), seen_.end(), id) == seen_.end()) return;  // not shared yet
  const ProcessId holder{kReaders, 1 + random_.below(3)};
  if (!server_->hold(holder, id)) return broken(to_string(id) + " is pinned and cannot be held");
  say(to_string(holder) + " holds " + to_string(id));
  held_.emplace_back(holder, id);
  apply();
}

void StoreWorld::remote_release() {
  if (held_.empty()) return;
  const std::size_t at = random_.below(std::uint32_t(held_.size()));
  const auto [holder, id] = held_[at];
  const std::uint32_t how = random_.below(6);
  say(to_string(holder) + (how == 0 ? "'s node dies" : how == 1 ? " dies" : " releases " + to_string(id)));
  if (how == 0) server_->holders_of_node_gone(kReaders);
  else if (how == 1) server_->holder_gone(holder);
  else server_->release(holder, id);
  if (how == 0) held_.clear();
  else if (how == 1) std::erase_if(held_, [&, gone = holder](const auto& one) { return one.first == gone; });
  else held_.erase(held_.begin() + long(at));
  apply();
}

void StoreWorld::begin_copy() {
  const std::uint32_t slot = 1 + random_.below(6);
  const BufferId remote{kCopied, slot, 1 + generations_[slot]};
  auto ticket = server_->begin_copy(remote, 100 + random_.below(kCopyMax));
  if (!ticket.ok()) return broken("a copy was refused: " + std::string(ticket.error().what()));
  using State = store::StoreServer::CopyTicket::State;
  if (!copies_node_gone_) origins_.insert(remote);
  say("a copy of " + to_string(remote) + " is wanted");
  if (ticket->state == State::kPresent) hand_out(ticket->local);
  if (ticket->state == State::kStarted) perform(store::CopyGranted{remote, ticket->local, ticket->bytes});
  apply();
}

void StoreWorld::perform(const store::CopyGranted& effect) {
  filling_[effect.remote] = effect.local;
  // Freed at its origin while it waited for room. Of a node that is gone others have copies.
  const bool lost = !copies_node_gone_ && !origins_.contains(effect.remote);
  queue_.after(delay(), [this, remote = effect.remote, lost] { end_copy(remote, lost); });
}

void StoreWorld::end_copy(BufferId remote, bool lost) {
  const BufferId expected = filling_.at(remote);
  filling_.erase(remote);
  if (lost || chance(0.2)) {
    say("the transfer of " + to_string(remote) + " fails");
    server_->abort_copy(remote);
    return apply();
  }
  auto local = server_->finish_copy(remote);
  if (!local.ok() || *local != expected) return broken("the copy of " + to_string(remote) + " cannot be finished");
  say("the copy of " + to_string(remote) + " is " + to_string(*local));
  server_->hold(kDaemon, *local);
  hand_out(*local);
  server_->release(kDaemon, *local);
  apply();
}

/// Held for the client until it has pinned it (SV-3).
void StoreWorld::hand_out(BufferId local) {
  SimStoreClient* client = any_client();
  if (!client || !server_->hold(client->id, local)) return;
  ++handed_out_[local];
  to_client(client->id, [local](SimStoreClient& receiver) { receiver.start(receiver.pin_copy(local)); });
}

void StoreWorld::copy_pinned(SimStoreClient& client, BufferId local, bool pinned) {
  if (!pinned) broken("the copy " + to_string(local) + " was handed out and cannot be pinned");
  to_daemon(client, [this, id = client.id, local] {
    if (!find(id) && !dying_.contains(id)) return;
    server_->release(id, local);
  });
}

void StoreWorld::origin_gone() {
  if (origins_.empty()) return;
  auto at = origins_.begin();
  std::advance(at, random_.below(std::uint32_t(origins_.size())));
  const BufferId remote = *at;
  if (filling_.contains(remote)) return;  // its holder keeps it meanwhile
  say(to_string(remote) + " was freed at its origin");
  origins_.erase(at);
  ++generations_[remote.slot];
  server_->origin_gone(remote);
  apply();
}

void StoreWorld::node_of_copies_gone() {
  if (copies_node_gone_) return;
  say("node 3 is gone");
  copies_node_gone_ = true;
  origins_.clear();
  server_->origin_node_gone(kCopied);
  apply();
}

// -------------------------------------------------------------------------------------------------------------- a run

void StoreWorld::act() {
  std::size_t living = 0;
  for (auto& [id, client] : clients_) living += client->alive;
  if (living == 0 || (living < kClientsMax && chance(0.1))) join();
  SimStoreClient* client = any_client();
  if (!client) return;
  auto pinned = [&](SimStoreClient& of) -> std::optional<BufferId> {
    if (of.pins.empty()) return std::nullopt;
    auto at = of.pins.begin();
    std::advance(at, random_.below(std::uint32_t(of.pins.size())));
    return at->first;
  };
  const std::uint32_t what = random_.below(100);
  if (what < 30)
    client->start(client->put(random_.chance(0.3) ? kLargeFrom + random_.below(kLargeMax) : random_.below(kSmallMax)));
  else if (what < 45) {
    SimStoreClient* to = any_client();
    if (auto id = pinned(*client); id && to != client) client->start(client->send(*id, to->id));
  } else if (what < 72) {
    if (auto id = pinned(*client)) client->start(client->drop(*id));
  } else if (what < 76) give_up();
  else if (what < 79) client->flush();
  else if (what < 80) client->trim();
  else if (what < 84) remote_hold();
  else if (what < 87) remote_release();
  else if (what < 91) begin_copy();
  else if (what < 93) origin_gone();
  else if (what < 96) {
    if (!seen_.empty()) client->start(client->try_stale(seen_[random_.below(std::uint32_t(seen_.size()))]));
  } else if (what < 98) kill(*client);
  else if (random_.chance(0.05)) node_of_copies_gone();
}

std::string StoreWorld::run() {
  for (actions_left_ = kActions; actions_left_ > 0 && broken_.empty(); --actions_left_) {
    act();
    const Time until = queue_.now() + Duration(random_.below(2'000'000));
    while (broken_.empty() && queue_.step(until)) {}
  }
  if (broken_.empty()) rest();
  if (broken_.empty()) check_rest();
  return broken_;
}

/// Everybody lets go of everything, again and again: what was asked for is granted meanwhile, and dropped in its turn.
void StoreWorld::rest() {
  busy_ = false;
  say("rest");
  for (int round = 0; round < 200 && broken_.empty(); ++round) {
    while (!held_.empty()) remote_release();
    if (!copies_node_gone_)
      while (!origins_.empty() && filling_.empty()) origin_gone();
    for (auto& [id, client] : clients_) {
      if (!client->alive) continue;
      for (const auto& [buffer, count] : client->pins)
        for (std::uint32_t i = 0; i < client->users_pins(buffer); ++i) client->start(client->drop(buffer));
      client->trim();
    }
    const Time until = queue_.now() + Duration(5'000'000);
    while (broken_.empty() && queue_.step(until)) {}
  }
}

// ------------------------------------------------------------------------------------------------------------- checks

void StoreWorld::check() {
  if (!broken_.empty()) return;
  if (const std::string wrong = server_->audit(); !wrong.empty()) return broken("STI-1: " + wrong);
  std::map<BufferId, Range> used;
  for (const auto& [id, client] : clients_) {
    for (const auto& [buffer, count] : client->pins) {
      const Range bytes = client->made_bytes.at(buffer);
      const auto now = server_->bytes(buffer);
      if (!now) return broken("STI-2: " + to_string(buffer) + " is pinned by " + to_string(id) + " and was freed");
      const Range is{std::uint64_t(now->data() - server_->arena().data()), now->size()};
      if (is != bytes) return broken("STI-2: the bytes of " + to_string(buffer) + " are others now");
      used[buffer] = bytes;
    }
    for (const auto& [buffer, bytes] : client->open) used[buffer] = bytes;
  }
  for (const auto& [holder, buffer] : held_)
    if (!server_->contains(buffer))
      return broken("STI-2: " + to_string(buffer) + " is held by " + to_string(holder) + " and was freed");
  std::vector<std::pair<Range, BufferId>> ranges;
  for (const auto& [buffer, bytes] : used)
    if (bytes.size > 0) ranges.emplace_back(bytes, buffer);
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i - 1].first.end() > ranges[i].first.offset)
      return broken("STI-2: " + to_string(ranges[i - 1].second) + " and " + to_string(ranges[i].second) + " overlap");
}

void StoreWorld::check_rest() {
  check();
  if (!broken_.empty()) return;
  for (const auto& [id, client] : clients_) {
    if (!client->alive) return broken("STI-5: " + to_string(id) + " is dead and not forgotten");
    if (client->asked.empty()) continue;
    const std::string token = std::to_string(client->asked.begin()->first);
    return broken("STI-5: request " + token + " of " + to_string(id) + " waits for ever");
  }
  const store::StoreUsage left = server_->usage();
  if (left.objects != 0 || left.used != 0)
    return broken("STI-5: " + std::to_string(left.objects) + " objects with " + std::to_string(left.used) +
                  " bytes are left");
  if (left.leased != 0) return broken("STI-5: " + std::to_string(left.leased) + " bytes of chunks are left");
  if (left.waiting != 0) return broken("STI-5: " + std::to_string(left.waiting) + " requests wait");
}

}  // namespace troupe::sim
