// The receiving end of data sockets: pools of connections, and the splitting of large buffers.
#include "core/net/data/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "core/net/base/handshakes.h"

namespace troupe::net {
namespace {

using SteadyClock = std::chrono::steady_clock;

// One I/O thread: for each address its connections and the parts that wait for one.
class Lane {
 public:
  Lane(const DataClientOptions& options, DataClientCounters& counters, std::unique_ptr<SocketLoop> loop)
      : options_(options),
        self_{.token = options.token, .purpose = ProofPurpose::kData, .incarnation = options.incarnation},
        counters_(counters),
        loop_(std::move(loop)) {}

  SocketLoop& loop() { return *loop_; }

  /// Loop's thread.
  void begin(std::unique_ptr<Part> part) {
    const std::string& address = part->state->fetch.address;
    if (part->state->fetch.deadline <= SteadyClock::now()) return part->state->part_ended(late(address));
    Part* raw = part.get();
    part->deadline =
        loop_->at(part->state->fetch.deadline, [this, address, raw] { give_up(address, raw, late(address)); });
    Pool& pool = pools_[address];
    watch_progress(address, *raw, pool.progress);
    pool.waiting.push_back(std::move(part));
    pump(address, pool);
  }

  /// After the loop has ended: what is left is cancelled.
  void finish() {
    auto pools = std::move(pools_);
    for (auto& [address, pool] : pools) {
      for (auto& connection : pool.connections) {
        if (auto part = connection->take_part()) pool.waiting.push_back(std::move(part));
      }
      pool.connections.clear();  // NDS-2: before done nobody writes any more
      for (auto& part : pool.waiting) part->state->part_ended(CancelledError("the data client was stopped"));
    }
  }

 private:
  struct Pool {
    std::vector<std::unique_ptr<ClientConnection>> connections;
    std::deque<std::unique_ptr<Part>> waiting;
    std::uint64_t progress = 0;  ///< counts connections made and chunks received
  };

  static Status late(const std::string& address) {
    return DeadlineExceededError("a buffer from " + address + " did not arrive before the deadline");
  }

  /// Of the whole address: a part that waits for its turn is no more stalled than those before it.
  void watch_progress(const std::string& address, Part& part, std::uint64_t seen) {
    const Duration stall = part.state->fetch.stall;
    part.stall = loop_->at(SteadyClock::now() + stall, [this, address, raw = &part, seen, stall] {
      Pool& pool = pools_[address];
      if (pool.progress != seen) return watch_progress(address, *raw, pool.progress);
      // Connections that never came up would be waited for again by the next part.
      std::erase_if(pool.connections, [](const auto& c) { return !c->established(); });
      give_up(address, raw, DeadlineExceededError("not a byte came from " + address + " for " +
                                                  std::to_string(stall.count() / 1'000'000) + " ms"));
    });
  }

  void pump(const std::string& address, Pool& pool) {
    for (auto& connection : pool.connections) {
      if (pool.waiting.empty()) return;
      if (connection->idle()) assign(*connection, pool);
    }
    // Those that are still connecting will each take a part.
    const auto busy = std::size_t(std::count_if(pool.connections.begin(), pool.connections.end(),
                                                [](const auto& c) { return c->part() != nullptr; }));
    std::size_t coming = pool.connections.size() - busy;
    while (coming < pool.waiting.size() && pool.connections.size() < std::size_t(options_.connections_per_address)) {
      if (!connect(address, pool)) return;
      ++coming;
    }
  }

  void assign(ClientConnection& connection, Pool& pool) {
    auto part = std::move(pool.waiting.front());
    pool.waiting.pop_front();
    connection.assign(std::move(part));
  }

  bool connect(const std::string& address, Pool& pool) {
    ClientConnection::Hooks hooks;
    hooks.on_idle = [this, address](ClientConnection& connection) {
      Pool& mine = pools_[address];
      if (!mine.waiting.empty()) assign(connection, mine);
    };
    hooks.on_broken = [this, address](ClientConnection& connection, const ErrorPtr& why) {
      broken(address, connection, why);
    };
    hooks.progress = &pool.progress;
    hooks.idle_max = options_.idle_max;
    auto connection = std::make_unique<ClientConnection>(*loop_, self_, counters_, std::move(hooks));
    if (auto error = connection->begin(pool.waiting.front()->state->address, address)) {
      fail_waiting(pool, error);
      return false;
    }
    pool.connections.push_back(std::move(connection));
    return true;
  }

  // By value: the connection, which holds the caller's arguments, is destroyed here.
  void broken(std::string address, ClientConnection& connection, ErrorPtr why) {
    Pool& pool = pools_[address];
    auto part = connection.take_part();
    const bool stale = connection.reused() && !connection.reply_begun();
    const bool established = connection.established();
    remove(pool, connection);
    if (!established) {
      // Another attempt would end alike. Where connections work (the peer caps them), they will do; else nobody gets
      // through.
      const bool others =
          std::any_of(pool.connections.begin(), pool.connections.end(), [](const auto& c) { return c->established(); });
      if (!others) fail_waiting(pool, why);
      return;
    }
    if (part && stale) {  // the pooled connection had died, or was spoilt, before we used it; its deadline runs on
      pool.waiting.push_front(std::move(part));
    } else if (part) {
      loop_->cancel(part->deadline);
      loop_->cancel(part->stall);
      part->state->part_ended(why);
    }
    pump(address, pool);
  }

  void fail_waiting(Pool& pool, const ErrorPtr& why) {
    auto waiting = std::move(pool.waiting);
    pool.waiting.clear();
    for (auto& part : waiting) {
      loop_->cancel(part->deadline);
      loop_->cancel(part->stall);
      part->state->part_ended(why);
    }
  }

  /// By value: the timer that holds the arguments is destroyed here.
  void give_up(std::string address, Part* raw, Status why) {
    Pool& pool = pools_[address];
    std::unique_ptr<Part> part;
    for (auto& connection : pool.connections) {
      if (connection->part() != raw) continue;
      part = connection->take_part();
      remove(pool, *connection);
      break;
    }
    auto waiting =
        std::find_if(pool.waiting.begin(), pool.waiting.end(), [raw](const auto& p) { return p.get() == raw; });
    if (!part && waiting != pool.waiting.end()) {
      part = std::move(*waiting);
      pool.waiting.erase(waiting);
    }
    if (part) {
      loop_->cancel(part->deadline);
      loop_->cancel(part->stall);
      part->state->part_ended(why);
    }
    pump(address, pool);
  }

  void remove(Pool& pool, ClientConnection& connection) {
    std::erase_if(pool.connections, [&](const auto& c) { return c.get() == &connection; });
  }

  const DataClientOptions& options_;
  const ProofSelf self_;
  DataClientCounters& counters_;
  std::unordered_map<std::string, Pool> pools_;  // the loop's thread
  std::unique_ptr<SocketLoop> loop_;
};

class Client final : public DataClient {
 public:
  explicit Client(DataClientOptions options) : options_(std::move(options)) {}
  ~Client() override { stop(); }

  Status start() {
    raise_descriptor_limit();
    for (int i = 0; i < options_.io_threads; ++i) {
      auto loop = SocketLoop::start("troupe-data-in");
      if (!loop.ok()) return loop.error_ptr();
      lanes_.push_back(std::make_unique<Lane>(options_, counters_, std::move(*loop)));
    }
    return {};
  }

  void fetch(Fetch fetch, DoneFunction done) override {
    counters_.fetches.fetch_add(1, std::memory_order_relaxed);
    auto address = parse_address(fetch.address);
    if (!address.ok()) return done(address.error_ptr());
    const std::size_t size = fetch.into.size();
    const std::size_t parts = std::clamp<std::size_t>(size / options_.split_bytes, 1, lanes_.size());
    auto state = std::make_shared<FetchState>(std::move(fetch), *address, int(parts), std::move(done));
    // Parts end on page borders, so that two threads never touch one page for the first time.
    const std::size_t step = round_up((size + parts - 1) / parts, 4096);
    const std::size_t first = next_lane_.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < parts; ++i) {
      auto part = std::make_shared<std::unique_ptr<Part>>(std::make_unique<Part>());
      (*part)->state = state;
      (*part)->offset = std::min(size, i * step);
      (*part)->length = std::min(size, (i + 1) * step) - (*part)->offset;
      submit(*lanes_[(first + i) % lanes_.size()], std::move(part));
    }
  }

  void stop() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(stopped_, true)) return;
    }
    for (auto& lane : lanes_) lane->loop().stop();
    for (auto& lane : lanes_) lane->finish();
  }

  Stats stats() const override {
    return {counters_.connections_made, counters_.fetches, counters_.bytes_received, counters_.checksum_failures};
  }

 private:
  // The work owns the part; if the loop ends before it ran, the part ends with it (its deleter cannot report, so it
  // does).
  void submit(Lane& lane, std::shared_ptr<std::unique_ptr<Part>> part) {
    struct Pending {
      std::unique_ptr<Part> part;
      ~Pending() {
        if (part) part->state->part_ended(CancelledError("the data client was stopped"));
      }
    };
    auto pending = std::make_shared<Pending>();
    pending->part = std::move(*part);
    lane.loop().post([&lane, pending] { lane.begin(std::move(pending->part)); });
  }

  const DataClientOptions options_;
  DataClientCounters counters_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::size_t> next_lane_{0};
  std::mutex mutex_;
  bool stopped_ = false;
};

bool wait_for(int fd, short events, SteadyTime deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return false;
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, int(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return true;
  }
}

}  // namespace

Result<std::unique_ptr<DataClient>> DataClient::open(DataClientOptions options) {
  if (!options.token.is_set()) return InvalidArgumentError("fetching from data ports needs the cluster token");
  options.io_threads = std::clamp(options.io_threads, 1, 64);
  options.connections_per_address = std::clamp(options.connections_per_address, 1, 64);
  options.split_bytes = std::max<std::size_t>(options.split_bytes, 64 * 1024);
  if (options.incarnation == 0) {
    auto drawn = draw_incarnation();
    if (!drawn.ok()) return drawn.error_ptr();
    options.incarnation = *drawn;
  }
  auto client = std::make_unique<Client>(std::move(options));
  if (auto started = client->start(); !started.ok()) return started.error_ptr();
  return std::unique_ptr<DataClient>(std::move(client));
}

Result<UniqueFd> dial_hand_over(const std::string& address, ByteView body,
                                std::chrono::steady_clock::time_point deadline) {
  if (body.empty() || body.size() > HandOverHeader::kBodyMax)
    return InvalidArgumentError("the body of a hand-over has 1 to 1024 bytes");
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.error_ptr();
  auto connecting = begin_connect(*parsed);
  if (!connecting.fd) return Error("no socket for the data port " + address + ": " + std::strerror(connecting.error));
  if (connecting.error == 0 && !wait_for(connecting.fd.get(), POLLOUT, deadline)) {
    return DeadlineExceededError("no answer from the data port " + address);
  }
  const int error = connecting.error != 0 ? connecting.error : connect_error(connecting.fd.get());
  if (error != 0) return NodeDiedError("cannot reach the data port " + address + ": " + std::strerror(error));
  UniqueFd socket = std::move(connecting.fd);
  set_tcp_options(socket.get(), {});
  HandOverHeader header;
  header.body_size = std::uint32_t(body.size());
  std::string bytes(as_text(bytes_of(header)));
  bytes += as_text(body);
  // An empty send buffer takes this whole.
  if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != ssize_t(bytes.size())) {
    return NodeDiedError("the data port " + address + " hung up: " + std::strerror(errno));
  }
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  return socket;
}

}  // namespace troupe::net
