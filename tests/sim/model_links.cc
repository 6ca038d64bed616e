#include "tests/sim/model_links.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace troupe::sim {

using namespace std::chrono_literals;

namespace {
constexpr Duration kKeepAlive = 4800ms, kSynPause = 200ms, kNobodyPause = 50ms;

ModelNetwork::Machine machine_of(const std::string& address) {
  return static_cast<ModelNetwork::Machine>(std::strtoul(address.c_str() + 1, nullptr, 10));
}
}  // namespace

/// One machine's links.
class ModelNetwork::Side final : public net::Links {
 public:
  struct Link {
    ConnectionPtr connection;  ///< null: it is being dialled
    int end = 0;
    net::ConnectOptions dialled;
    Time until{};
  };

  Side(ModelNetwork& network, Machine machine, net::LinkEvents& events, net::LinkIdentity identity)
      : network(network), machine(machine), events(events), identity(std::move(identity)) {}
  ~Side() override { shutdown(); }

  void identify(net::LinkIdentity changed) override { identity = std::move(changed); }
  Result<int> listen(const net::ListenOptions&) override {
    listens = true;
    return 1;
  }
  Result<net::LinkId> dial(const net::ConnectOptions& options) override {
    const net::LinkId id = ++last_link;
    links[id] = {nullptr, 0, options, network.queue_.now() + options.timeout};
    network.queue_.after(network.delay(),
                         [&network = network, machine = machine, id] { network.attempt(machine, id); });
    return id;
  }
  Result<net::LinkId> connect(const net::ConnectOptions&) override {
    return make_error<InvalidArgumentError>("the model does not wait");
  }
  bool send(net::LinkId link, const net::FrameHeader& given, std::span<const ByteView> pieces) override {
    net::FrameHeader header = given;
    header.version = net::kFrameVersion;
    std::size_t size = 0;
    for (const ByteView& piece : pieces) size += piece.size();
    header.payload_size = static_cast<std::uint32_t>(size);
    std::vector<std::byte> frame(sizeof header);
    std::memcpy(frame.data(), &header, sizeof header);
    for (const ByteView& piece : pieces) frame.insert(frame.end(), piece.begin(), piece.end());
    return send_raw(link, frame);
  }
  bool send_raw(net::LinkId link, ByteView frames) override {
    if (network.spy_) network.spy_(machine, frames);
    auto at = links.find(link);
    if (at == links.end() || !at->second.connection) return false;
    Connection& connection = *at->second.connection;
    const int end = at->second.end;
    if (connection.ends[end].closed || connection.ways[end].shut) return false;
    network.put(at->second.connection, end, {.bytes = {frames.begin(), frames.end()}});
    return true;
  }
  std::size_t backlog(net::LinkId) const override { return 0; }
  void close(net::LinkId link) override { end(link, false, nullptr); }
  void abort(net::LinkId link, std::string reason) override {
    end(link, true, make_error<NodeDiedError>(std::move(reason)));
  }
  void end(net::LinkId link, bool lose, ErrorPtr why) {
    auto at = links.find(link);
    if (at == links.end()) return;
    if (!at->second.connection) {
      network.queue_.after(1us, [&network = network, machine = machine, link, why] {
        Side* self = network.side(machine);
        if (!self || self->links.erase(link) == 0) return;
        self->events.on_closed(link, why ? Status(why) : Status());
        network.poke_(machine);
      });
      return;
    }
    const ConnectionPtr connection = at->second.connection;
    const int end = at->second.end;
    network.shut(connection, end, lose, nullptr);
    network.queue_.after(1us, [&network = network, connection, end, why] { network.closed(connection, end, why); });
  }
  void shutdown() override { network.die(machine); }
  Stats stats() const override { return {}; }

  ModelNetwork& network;
  const Machine machine;
  net::LinkEvents& events;
  net::LinkIdentity identity;
  bool listens = false;
  net::LinkId last_link = 0;
  std::map<net::LinkId, Link> links;
};

std::unique_ptr<net::Links> ModelNetwork::open(Machine machine, net::LinkEvents& events,
                                               const net::LinksOptions& options) {
  auto side = std::make_unique<Side>(*this, machine, events, options.identity);
  sides_[machine] = side.get();
  return side;
}

ModelNetwork::Side* ModelNetwork::side(Machine machine) {
  auto at = sides_.find(machine);
  return at == sides_.end() ? nullptr : at->second;
}

Duration ModelNetwork::delay() {
  double micros = 50 + 500 * random_.unit();
  if (random_.chance(0.03)) micros *= 30;  // a hiccup
  return Duration(static_cast<Duration::rep>(micros * 1000));
}

// ------------------------------------------------------------------------------------------------------------ dialling

void ModelNetwork::attempt(Machine machine, net::LinkId link) {
  Side* from = side(machine);
  auto at = from ? from->links.find(link) : decltype(from->links.find(link)){};
  if (!from || at == from->links.end()) return;
  const net::ConnectOptions& wanted = at->second.dialled;
  const Machine target = machine_of(wanted.address);
  const bool unreachable = is_cut(machine, target) || is_cut(target, machine);
  Side* to = side(target);
  const bool nobody = !to || !to->listens;
  const auto again = [&](Duration pause) {
    queue_.after(pause, [this, machine, link] { attempt(machine, link); });
  };
  if (unreachable && queue_.now() + kSynPause < at->second.until) return again(kSynPause);
  if (!unreachable && nobody && wanted.retry && queue_.now() + kNobodyPause < at->second.until)
    return again(kNobodyPause);
  if (unreachable || nobody) {
    from->links.erase(at);
    from->events.on_closed(link, unreachable ? Status(make_error<DeadlineExceededError>("not reached in time"))
                                             : Status(make_error<NotFoundError>("nobody listens there")));
    return poke_(machine);
  }
  auto connection = std::make_shared<Connection>();
  connections_.push_back(connection);
  const net::LinkId accepted = ++to->last_link;
  connection->ends[0] = {machine, link};
  connection->ends[1] = {target, accepted};
  at->second.connection = connection;
  at->second.end = 0;
  to->links[accepted] = {connection, 1, {}, {}};
  for (const int end : {0, 1}) {
    const Time when = queue_.now() + delay();
    connection->ways[1 - end].last = when;  // what comes there comes later
    queue_.at(when, [this, connection, end] {
      Side* here = side(connection->ends[end].machine);
      Side* there = side(connection->ends[1 - end].machine);
      if (!here || connection->ends[end].closed) return;
      connection->ends[end].open = true;
      const std::string hello = there ? there->identity.hello : std::string();
      const net::LinkPeer peer{hello, end == 0, {net::ProofRole::kAny, there ? there->identity.incarnation : 1, 0}};
      here->events.on_open(connection->ends[end].link, peer);
      poke_(here->machine);
    });
  }
}

// ----------------------------------------------------------------------------------------------------------- connected

void ModelNetwork::put(const ConnectionPtr& connection, int from, Chunk chunk) {
  Connection::Way& way = connection->ways[from];
  way.last = std::max(way.last, queue_.now() + delay());
  chunk.at = way.last;
  way.chunks.push_back(std::move(chunk));
  queue_.at(way.last, [this, connection, from] { pump(connection, from); });
}

void ModelNetwork::pump(const ConnectionPtr& connection, int from) {
  Connection::Way& way = connection->ways[from];
  const Connection::End& source = connection->ends[from];
  const Connection::End& target = connection->ends[1 - from];
  if (is_cut(source.machine, target.machine)) return;  // heal() comes here again
  while (!way.chunks.empty() && way.chunks.front().at <= queue_.now()) {
    const Chunk chunk = std::move(way.chunks.front());
    way.chunks.pop_front();
    if (chunk.last) {
      shut(connection, 1 - from, true, nullptr);
      return closed(connection, 1 - from, chunk.why);
    }
    Side* to = side(target.machine);
    if (!to || target.closed) return;
    to->events.on_batch(target.link, chunk.bytes);
    poke_(target.machine);
  }
}

/// No more goes this way; the other end sees it.
void ModelNetwork::shut(const ConnectionPtr& connection, int from, bool lose, ErrorPtr why) {
  Connection::Way& way = connection->ways[from];
  if (way.shut) return;
  if (lose) way.chunks.clear();
  put(connection, from, {.last = true, .why = std::move(why)});
  way.shut = true;
}

void ModelNetwork::closed(const ConnectionPtr& connection, int end, const ErrorPtr& why) {
  Connection::End& here = connection->ends[end];
  if (std::exchange(here.closed, true)) return;
  Side* to = side(here.machine);
  if (!to) return;
  to->links.erase(here.link);
  if (!here.open && end == 1) return;  // who connects and never was there is nobody's link
  to->events.on_closed(here.link, why ? Status(why) : Status());
  poke_(here.machine);
}

std::vector<ModelNetwork::ConnectionPtr> ModelNetwork::between(Machine a, Machine b) {
  std::erase_if(connections_, [](const auto& one) { return one.expired(); });
  std::vector<ConnectionPtr> found;
  for (const auto& one : connections_)
    if (ConnectionPtr connection = one.lock())
      if ((connection->ends[0].machine == a && connection->ends[1].machine == b) ||
          (connection->ends[0].machine == b && connection->ends[1].machine == a))
        found.push_back(std::move(connection));
  return found;
}

// -------------------------------------------------------------------------------------------------------------- faults

void ModelNetwork::reset(Machine a, Machine b) {
  for (const ConnectionPtr& connection : between(a, b)) {
    for (const int from : {0, 1})
      shut(connection, from, random_.chance(0.6), make_error<NodeDiedError>("the connection was reset"));
  }
}

void ModelNetwork::cut(Machine from, Machine to) {
  const std::uint64_t number = ++last_cut_;
  if (!cuts_.emplace(std::pair(from, to), number).second) return;
  queue_.after(kKeepAlive, [this, from, to, number] {
    if (auto at = cuts_.find({from, to}); at == cuts_.end() || at->second != number) return;
    for (const ConnectionPtr& connection : between(from, to))
      for (const int end : {0, 1}) {
        connection->ways[end].chunks.clear();
        connection->ways[end].shut = true;
        closed(connection, end, make_error<NodeDiedError>("the peer answers no keep-alive"));
      }
  });
}

void ModelNetwork::heal(Machine from, Machine to) {
  if (cuts_.erase({from, to}) == 0) return;
  for (const ConnectionPtr& connection : between(from, to))
    pump(connection, connection->ends[0].machine == from ? 0 : 1);
}

void ModelNetwork::die(Machine machine) {
  Side* gone = side(machine);
  if (!gone) return;
  sides_.erase(machine);
  for (auto& [id, link] : gone->links) {
    if (!link.connection) continue;
    link.connection->ends[link.end].closed = true;
    shut(link.connection, link.end, random_.chance(0.5), make_error<NodeDiedError>("the connection was reset"));
  }
  gone->links.clear();
}

}  // namespace troupe::sim
