// A daemon of the links' world: the real parts, wired as node/daemon/daemon.cc and node_parts.cc wire them.
#include <cstring>

#include "tests/sim/links_world.h"

namespace troupe::sim {

using namespace std::chrono_literals;
using store::BufferId;

namespace {

node::Loop::TimePoint point(Time now) {
  return node::Loop::TimePoint(std::chrono::duration_cast<node::Loop::TimePoint::duration>(now + 1h));
}
bool is(const net::FrameHeader& header, wire::FrameKind kind) { return header.kind == std::uint8_t(kind); }
BufferId id_of(const wire::BufferDesc& buffer) { return {buffer.node, buffer.slot, buffer.generation}; }
constexpr std::uint64_t kSaid = 0xFFFF;  ///< as a method: a numbered notice of the simulator

}  // namespace

SimDaemon::SimDaemon(LinksWorld& world, Machine machine) : world(world), machine(machine) {
  loop = std::move(*node::Loop::create([this] { return point(this->world.queue_.now()); }));
}

SimDaemon::~SimDaemon() { alive = false; }

Status SimDaemon::join() {
  node::LinkCallbacks callbacks;
  callbacks.frame = [this](std::uint32_t from, const net::FrameHeader& header, ByteView payload) {
    if (ended) return;
    if (from == 0) on_head_frame(header, payload);
    else on_frame(from, header, payload);
  };
  callbacks.head_answer = [this](const net::FrameHeader& header, ByteView payload) {
    (void)membership->take_answer(header, payload);
  };
  callbacks.head_up = [this] { membership->link_up(); };
  callbacks.head_down = [this](const std::string& why) {
    if (!ended) membership->link_down(why);
  };
  callbacks.report = [this](std::uint32_t node, wire::LinkState state, const std::string& why) {
    world.say("node " + std::to_string(number) + " reports its link to node " + std::to_string(node) + " as " +
              std::to_string(int(state)));
    membership->report(node, state, why);
  };
  callbacks.never_sent = [this](std::uint32_t to, const std::vector<net::FrameHeader>& frames) {
    never_sent(to, frames);
  };
  callbacks.room = [this](std::uint32_t node) { waits.erase(node); };
  net::LinkIdentity identity;
  identity.incarnation = 1000 + machine;
  auto opened = node::DaemonLinks::open(
      *loop, identity, std::move(callbacks), [this](net::LinkEvents& events, const net::LinksOptions& options) {
        return Result<std::unique_ptr<net::Links>>(world.network_.open(machine, events, options));
      });
  if (!opened.ok()) return opened.error_ptr();
  links = std::move(*opened);
  (void)links->listen("");
  transfers = std::make_unique<node::Transfers>(
      *loop, *this, *this,
      node::Transfers::Surroundings{.others = [this] { return links->linked(); },
                                    .data_address = [this](std::uint32_t node) { return links->data_address(node); }});
  node::Membership::Self self;
  self.head_address = ModelNetwork::address(0);
  self.registration.info.address = self.registration.info.data_address = ModelNetwork::address(machine);
  self.registration.info.resources = {{"CPU", 1}};
  node::Membership::Events events;
  events.registered = [this](const wire::RegisterNodeReply& reply) {
    number = reply.node;
    world.machines_[number] = machine;
    world.say("machine " + std::to_string(machine) + " is node " + std::to_string(number));
    return Status();
  };
  events.registered_again = [] {};
  events.available = [] { return std::map<std::string, double>{{"CPU", 1}}; };
  events.node_died = [this](const wire::NodeDied& death) { node_died(death); };
  events.head_died = [](const wire::NodeDied&) {};
  events.refused = [](const std::string&) {};
  events.stop = [this](const std::string& why) {
    if (std::exchange(ended, true)) return;
    world.say("node " + std::to_string(number) + " ends: " + why);
    if (number != 0 && world.shell_->state().membership().alive(number))
      world.broken("LWI-3: the daemon of node " + std::to_string(number) + " ends, and the head holds it for alive: " +
                   why);
    world.queue_.after(1ms, [this] { world.kill(*this); });
  };
  membership = std::make_unique<node::Membership>(*loop, *links, std::move(self), std::move(events));
  return membership->join();
}

void SimDaemon::pass() {
  loop->pass();
  if (!alive) return;
  const auto next = loop->next_timer();
  if (!next) return;
  const Time at = std::chrono::duration_cast<Time>(next->time_since_epoch()) - 1h;
  if (timer_at && *timer_at <= at && *timer_at > world.queue_.now()) return;
  timer_at = at;
  world.queue_.at(at, [this, at] {
    if (timer_at != at || !alive) return;
    timer_at.reset();
    if (!frozen) pass();
  });
}

// ---------------------------------------------------------------------------------------------------------------- mail

bool SimDaemon::deliver(net::FrameHeader header, ByteView payload) {
  const std::uint32_t to = header.destination.node;
  if (links->is_dead(to)) return false;
  if (to != 0) header.arg2 = ++sent[to];
  const bool taken = links->send(to, header, payload);
  if (to != 0 && links->is_full(to)) waits.insert(to);
  return taken;
}

void SimDaemon::send_notice(ProcessId to, wire::Method method, const Bytes& payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kNotice);
  header.source = self();
  header.destination = to;
  header.arg0 = std::uint64_t(method);
  (void)deliver(header, payload);
}

void SimDaemon::send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kResponse);
  header.source = self();
  header.destination = request.source;
  header.token = request.token;
  header.arg0 = failed ? 1 : 0;
  (void)deliver(header, payload);
}

void SimDaemon::send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) {
  const std::uint64_t token = ++last_token_;
  const node::Loop::TimerId timer =
      loop->after(timeout, [this, token] { finish(token, make_error<GetTimeoutError>("no answer")); });
  pending_.emplace(token, Pending{to, std::move(done), timer});
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kRequest);
  header.source = self();
  header.destination = to;
  header.token = token;
  header.arg0 = std::uint64_t(method);
  if (!deliver(header, payload)) finish(token, make_error<WorkerCrashedError>("nobody is there"));
}

void SimDaemon::finish(std::uint64_t token, Result<Bytes> result) {
  auto node = pending_.extract(token);
  if (!node) return;
  loop->cancel(node.mapped().timer);
  node.mapped().done(std::move(result));
}

void SimDaemon::say_something(std::uint32_t to, std::size_t bytes) {
  if (waits.contains(to)) return;
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kNotice);
  header.source = self();
  header.destination = daemon_of(to);
  header.arg0 = kSaid;
  const Bytes payload(bytes);
  (void)deliver(header, payload);
}

void SimDaemon::ask_head() {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kRequest);
  header.source = self();
  header.destination = kHead;
  header.token = ++head_asked;
  header.arg0 = std::uint64_t(wire::Method::kPing);
  (void)deliver(header, wire::encode_message(wire::Empty{}));
}

void SimDaemon::on_head_frame(const net::FrameHeader& header, ByteView payload) {
  if (is(header, wire::FrameKind::kRequest)) {  // a ping
    net::FrameHeader answer;
    answer.kind = std::uint8_t(wire::FrameKind::kResponse);
    answer.source = self();
    answer.destination = kHead;
    answer.token = header.token;
    return (void)deliver(answer, wire::encode_message(wire::Empty{}));
  }
  if (is(header, wire::FrameKind::kResponse)) {
    if (header.token != ++head_answered)
      world.broken("LWI-1: node " + std::to_string(number) + " hears answer " + std::to_string(header.token) +
                   " of the head, and it should be " + std::to_string(head_answered));
    return;
  }
  if (wire::Method(header.arg0) == wire::Method::kClusterView) {
    if (auto view = wire::decode_message<wire::ClusterView>(payload); view.ok()) {
      for (const wire::NodeInfo& info : view->nodes) known.insert(info.node);
      links->apply_view(*view);
    }
  } else if (wire::Method(header.arg0) == wire::Method::kNodeDied) {
    if (auto death = wire::decode_message<wire::NodeDied>(payload); death.ok()) membership->on_node_died(*death);
  }
}

void SimDaemon::on_frame(std::uint32_t from, const net::FrameHeader& header, ByteView payload) {
  const std::string way = "node " + std::to_string(number) + " takes from node " + std::to_string(from);
  if (heard_dead.contains(from)) return world.broken("LWI-4: " + way + ", which is dead");
  if (header.arg2 != ++got[from])
    return world.broken("LWI-1: " + way + " frame " + std::to_string(header.arg2) + ", and it should be frame " +
                        std::to_string(got[from]));
  if (is(header, wire::FrameKind::kResponse)) {
    if (header.arg0 == 0) return finish(header.token, Bytes(payload.begin(), payload.end()));
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
    return finish(header.token, record.ok() ? Result<Bytes>(Error::make(std::move(*record)))
                                            : Result<Bytes>(record.error_ptr()));
  }
  if (header.arg0 == kSaid) return;
  auto wanted = wire::decode_message<wire::StoreHoldRequest>(payload);
  if (!wanted.ok()) return world.broken("LWI-1: " + way + " a frame that does not decode");
  if (wire::Method(header.arg0) == wire::Method::kStoreHold) return hold(header, *wanted);
  for (const wire::BufferDesc& buffer : wanted->buffers) exposed[id_of(buffer)].erase(wanted->holder.node);
}

void SimDaemon::never_sent(std::uint32_t to, const std::vector<net::FrameHeader>& frames) {
  const std::uint64_t given = world.on_links_[{machine, to}], all = sent[to];
  std::uint64_t next = given;
  for (const net::FrameHeader& header : frames)
    if (header.arg2 != ++next)
      return world.broken("LWI-2: node " + std::to_string(number) + " is told that frame " +
                          std::to_string(header.arg2) + " for node " + std::to_string(to) +
                          " was never sent; links were given " + std::to_string(given) + " of " + std::to_string(all));
  if (next != all)
    return world.broken("LWI-2: node " + std::to_string(number) + " is not told that frame " +
                        std::to_string(next + 1) + " for node " + std::to_string(to) + " was never sent");
  for (const net::FrameHeader& header : frames)
    if (is(header, wire::FrameKind::kRequest))
      finish(header.token, make_error<NodeDiedError>("it died before this was sent there"));
}

void SimDaemon::node_died(const wire::NodeDied& death) {
  if (!heard_dead.insert(death.node).second)
    world.broken("LWI-4: node " + std::to_string(number) + " hears twice that node " + std::to_string(death.node) +
                 " died");
  if (world.shell_->state().membership().alive(death.node))
    world.broken("LWI-3: node " + std::to_string(number) + " takes node " + std::to_string(death.node) +
                 " for dead, and the head does not");
  for (auto& [id, holders] : exposed) holders.erase(death.node);
  std::vector<std::uint64_t> lost;
  for (const auto& [token, pending] : pending_)
    if (pending.to.node == death.node) lost.push_back(token);
  for (std::uint64_t token : lost) finish(token, make_error<NodeDiedError>("the node died"));
}

// ----------------------------------------------------------------------------------------------------------- transfers

/// As node::StoreService::offer.
void SimDaemon::hold(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted) {
  for (const wire::BufferDesc& buffer : wanted.buffers) {
    const BufferId id = id_of(buffer);
    if (!buffers.contains(id))
      return fail(request, node::make_record(id.node == number ? ErrorCode::kObjectLost : ErrorCode::kNotFound,
                                             "the buffer is no longer there"));
    exposed[id].insert(wanted.holder.node);
  }
  respond(request, wire::Empty{});
}

void SimDaemon::fetch_something(BufferId id) {
  auto& copy = copying[id];
  copy = std::make_unique<Copy>();
  copy->began = world.queue_.now();
  const auto& whole = world.daemons_.at(world.machines_.at(id.node))->buffers.at(id);
  copy->to.resize(whole.size());
  for (std::uint32_t node : links->linked())
    if (SimDaemon* other = world.by_number(node); other && node != id.node && other->buffers.contains(id))
      copy->helper = node;
  transfers->fetch(id, copy->to, [this, id](const Status& status) {
    auto found = copying.extract(id);
    if (!found) return world.broken("LWI-6: a transfer of " + store::to_string(id) + " ends twice");
    world.check_transfer(*this, id, *found.mapped(), status);
    copied.push_back(std::move(found.mapped()));
  });
}

void SimDaemon::fetch(net::Fetch fetch, net::DoneFunction done) {
  auto shared = std::make_shared<net::Fetch>(std::move(fetch));
  const Duration way = Duration(static_cast<Duration::rep>(1e6 + world.random_.unit() * 60e6));
  world.queue_.after(way, [this, shared, done, began = world.queue_.now()] { draw(shared, done, began); });
}

void SimDaemon::draw(const std::shared_ptr<net::Fetch>& fetch, net::DoneFunction done, Time stalled_since) {
  if (!alive) return;
  const auto tell = [&](const Status& status) {
    done(status);
    world.poke(machine);
  };
  const BufferId id{fetch->key.node, fetch->key.slot, fetch->key.generation};
  if (fetch->address.empty()) return tell(make_error<NodeDiedError>("it has no address"));
  SimDaemon& from = *world.daemons_.at(Machine(std::strtoul(fetch->address.c_str() + 1, nullptr, 10)));
  const bool is_cut = world.network_.is_cut(machine, from.machine) || world.network_.is_cut(from.machine, machine);
  if (is_cut || from.frozen) {
    if (world.queue_.now() - stalled_since >= fetch->stall || point(world.queue_.now()) >= fetch->deadline)
      return tell(make_error<DeadlineExceededError>("no bytes came"));
    world.queue_.after(50ms, [this, fetch, done, stalled_since] { draw(fetch, done, stalled_since); });
    return;
  }
  if (!from.alive) return tell(make_error<NodeDiedError>("it is not reached"));
  auto found = from.buffers.find(id);
  if (found == from.buffers.end() || from.exposed[id].empty())
    return tell(make_error<NotFoundError>("it does not offer that buffer"));
  auto copy = copying.find(id);
  const bool damaged = copy != copying.end() && copy->second->failures < 2 && world.random_.chance(0.3);
  const std::size_t whole = std::min(fetch->into.size(), found->second.size());
  std::memcpy(fetch->into.data(), found->second.data(), damaged ? whole / 2 : whole);
  if (!damaged) return tell(Status());
  ++copy->second->failures;
  tell(world.random_.chance(0.5) ? Status(make_error<NodeDiedError>("the connection was reset"))
                                 : Status(make_error<SerializationError>("a wrong checksum")));
}

}  // namespace troupe::sim
