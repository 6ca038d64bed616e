// The sending end of data sockets.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <unordered_map>

#include "core/net/base/handshakes.h"
#include "core/net/base/loop.h"
#include "core/net/base/socket.h"
#include "core/net/data/codec.h"
#include "core/net/data/data_socket.h"

namespace troupe::net {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kSendTurnBytes = 4u << 20;  // then other connections of the thread have their turn
constexpr int kSendTimeoutMs = 10'000;

struct Counters {
  std::atomic<std::uint64_t> connections{0}, refused{0}, handshakes_failed{0}, requests{0}, bytes_sent{0};
};

struct Shared {
  DataSource& source;
  DataServerOptions options;
  Counters counters;
};

//   a connection that has proven itself (net/base/handshakes.h)
//            DataRequest
//   REQUEST ------------> REPLY (header, then chunks)
//      ^                    |
//      +----- all sent -----+      anything wrong, a hang-up or a deadline: closed
class ServerConnection {
 public:
  ServerConnection(SocketLoop& loop, Shared& shared, UniqueFd socket, std::function<void()> over)
      : loop_(loop), shared_(shared), socket_(std::move(socket)), over_(std::move(over)) {
    want(State::kRequest, sizeof(DataRequest));  // a quiet connection is a pooled one: no deadline
    loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t) { on_event(); });
  }
  ~ServerConnection() {
    loop_.cancel(deadline_);
    if (socket_) loop_.forget(socket_.get());
  }

 private:
  enum class State { kRequest, kReply };
  enum class Progress { kAgain, kWait, kOver };

  void on_event() {
    Progress progress = Progress::kAgain;
    while (progress == Progress::kAgain) progress = state_ == State::kReply ? send_some() : read_some();
    if (progress == Progress::kOver) {
      auto over = std::move(over_);
      over();  // destroys this
    }
  }

  void want(State state, std::size_t bytes) {
    state_ = state;
    in_.resize(bytes);
    have_ = 0;
  }

  void set_deadline(Duration span) {
    loop_.cancel(deadline_);
    deadline_ = loop_.at(SteadyClock::now() + span, [this] {
      auto over = std::move(over_);
      over();
    });
  }

  Progress read_some() {
    while (have_ < in_.size()) {
      const ssize_t got = ::recv(socket_.get(), in_.data() + have_, in_.size() - have_, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kWait;
      if (got <= 0) return Progress::kOver;
      have_ += std::size_t(got);
    }
    return take_request();
  }

  Progress take_request() {
    const auto request = header_from<DataRequest>(in_.data());
    if (request.magic != kDataMagic || request.check != header_check(request) || request.type != DataType::kGet)
      return Progress::kOver;
    shared_.counters.requests.fetch_add(1, std::memory_order_relaxed);
    begin_reply(request);
    state_ = State::kReply;
    set_deadline(shared_.options.stall_timeout);
    return Progress::kAgain;
  }

  void begin_reply(const DataRequest& request) {
    DataReply reply;
    reply.id = request.id;
    std::string message;
    auto pinned = shared_.source.open({request.node, request.slot, request.generation});
    if (!pinned.ok()) {
      reply.error = std::uint16_t(pinned.error().code());
      message = pinned.error().message().substr(0, kDataMessageMax);
    } else if (request.offset > pinned->bytes.size() || request.length > pinned->bytes.size() - request.offset) {
      reply.error = std::uint16_t(ErrorCode::kObjectLost);
      message = "bytes " + std::to_string(request.offset) + " + " + std::to_string(request.length) +
                " asked of a buffer of " + std::to_string(pinned->bytes.size());
    } else {
      reply.total = pinned->bytes.size();
      reply.length = request.length;
      keep_ = std::move(pinned->keep);
      rest_ = pinned->bytes.subspan(request.offset, request.length);
      offset_ = request.offset;
    }
    reply.message_size = std::uint32_t(message.size());
    reply.check = header_check(reply);
    header_.assign(reinterpret_cast<const char*>(&reply), sizeof reply);
    header_ += message;
    header_sent_ = 0;
    chunk_ = {};
  }

  void next_chunk() {
    chunk_ = rest_.first(std::min(rest_.size(), shared_.options.chunk_bytes));
    DataChunk header;
    header.size = std::uint32_t(chunk_.size());
    header.offset = offset_;
    header.check = chunk_check(chunk_, offset_);
    header_.assign(reinterpret_cast<const char*>(&header), sizeof header);
    header_sent_ = 0;
    rest_ = rest_.subspan(chunk_.size());
    offset_ += chunk_.size();
  }

  // Within one turn: header and chunk by chunk, until the socket is full or everything is out.
  Progress send_some() {
    std::size_t turn = 0;
    while (turn < kSendTurnBytes) {
      if (header_sent_ == header_.size() && chunk_.empty()) {
        if (rest_.empty()) return reply_sent();
        next_chunk();
      }
      iovec pieces[2] = {{header_.data() + header_sent_, header_.size() - header_sent_},
                         {const_cast<std::byte*>(chunk_.data()), chunk_.size()}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (sent < 0) return Progress::kOver;
      const std::size_t of_header = std::min(std::size_t(sent), header_.size() - header_sent_);
      header_sent_ += of_header;
      chunk_ = chunk_.subspan(std::size_t(sent) - of_header);
      turn += std::size_t(sent);
      shared_.counters.bytes_sent.fetch_add(std::size_t(sent), std::memory_order_relaxed);
    }
    if (turn != 0) set_deadline(shared_.options.stall_timeout);
    wait_for(EPOLLOUT);
    return Progress::kWait;
  }

  Progress reply_sent() {
    keep_.reset();  // NDS-4
    loop_.cancel(deadline_);
    want(State::kRequest, sizeof(DataRequest));
    wait_for(EPOLLIN);
    return Progress::kAgain;
  }

  void wait_for(std::uint32_t events) {
    if (std::exchange(armed_, events) != events) loop_.rearm(socket_.get(), events);
  }

  SocketLoop& loop_;
  Shared& shared_;
  UniqueFd socket_;
  std::function<void()> over_;
  State state_ = State::kRequest;
  SocketLoop::TimerId deadline_{};
  std::uint32_t armed_ = EPOLLIN;
  std::vector<std::byte> in_;  // a request
  std::size_t have_ = 0;
  // of the reply under way
  std::shared_ptr<const void> keep_;
  ByteView rest_, chunk_;  // not yet begun; begun and not yet sent
  std::uint64_t offset_ = 0;
  std::string header_;
  std::size_t header_sent_ = 0;
};

class Server final : public DataServer {
 public:
  Server(DataSource& source, DataServerOptions options) : shared_{source, std::move(options), {}} {}
  ~Server() override { stop(); }

  Status start() {
    const ProofSelf self{
        .token = shared_.options.token, .purpose = ProofPurpose::kData, .incarnation = shared_.options.incarnation};
    auto socket = listen_tcp(shared_.options.address, shared_.options.port);
    if (!socket.ok()) return socket.error_ptr();
    auto port = local_port(socket->get());
    if (!port.ok()) return port.error_ptr();
    port_ = *port;
    for (int i = 0; i < shared_.options.io_threads; ++i) {
      auto loop = SocketLoop::start("troupe-data-out");
      if (!loop.ok()) return loop.error_ptr();
      lanes_.push_back(std::make_unique<Lane>());
      lanes_.back()->loop = std::move(*loop);
    }
    connections_max_ = std::min<std::uint64_t>(std::uint64_t(std::max(1, shared_.options.connections_max)),
                                               std::max<std::uint64_t>(raise_descriptor_limit() / 4, 1));
    Listener::Options limits;
    limits.has_room = [this] { return has_room(); };
    limits.refused = &shared_.counters.refused;
    Handshakes::Options handshakes;
    handshakes.self = [self] { return self; };
    handshakes.also_reached_at = shared_.options.also_reached_at;
    handshakes.unproven_max = std::size_t(std::max(1, shared_.options.unproven_max));
    handshakes.timeout = shared_.options.handshake_timeout;
    handshakes.failed = &shared_.counters.handshakes_failed;
    handshakes.admitted = [this](UniqueFd socket, const ProofPeer&) { admitted(std::move(socket)); };
    if (shared_.options.hand_over) {
      handshakes.handed_over = [this](UniqueFd socket, std::vector<std::byte> body) {
        shared_.options.hand_over(std::move(socket), body);
      };
    }
    auto held = std::make_shared<UniqueFd>(std::move(*socket));
    lanes_.front()->loop->post([this, held, limits, handshakes] {
      SocketLoop& loop = *lanes_.front()->loop;
      handshakes_ = std::make_unique<Handshakes>(loop, handshakes);
      listener_ = std::make_unique<Listener>(loop, std::move(*held), limits, [this](UniqueFd fd) {
        set_tcp_options(fd.get(), {.user_timeout_ms = kSendTimeoutMs, .probe = true});
        handshakes_->add(std::move(fd));
      });
    });
    return {};
  }

  int port() const override { return port_; }
  void stop() override {
    for (auto& lane : lanes_) lane->loop->stop();
    listener_.reset();
    handshakes_.reset();
    for (auto& lane : lanes_) lane->connections.clear();
  }
  Stats stats() const override {
    const auto& c = shared_.counters;
    return {c.connections, c.refused, c.handshakes_failed, c.requests, c.bytes_sent};
  }

 private:
  /// One I/O thread and its connections, which only that thread touches.
  struct Lane {
    std::unique_ptr<SocketLoop> loop;
    std::unordered_map<std::uint64_t, std::unique_ptr<ServerConnection>> connections;
  };

  bool has_room() const { return shared_.counters.connections.load() < connections_max_; }

  void admitted(UniqueFd socket) {
    if (!has_room()) {  // NLS-3: others may have proven themselves since it was accepted
      shared_.counters.refused.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    shared_.counters.connections.fetch_add(1);
    const std::uint64_t id = next_id_++;
    Lane& lane = *lanes_[id % lanes_.size()];
    auto held = std::make_shared<UniqueFd>(std::move(socket));
    lane.loop->post([this, &lane, id, held] {
      auto over = [this, &lane, id] {
        lane.connections.erase(id);
        shared_.counters.connections.fetch_sub(1);
      };
      lane.connections[id] = std::make_unique<ServerConnection>(*lane.loop, shared_, std::move(*held), over);
    });
  }

  Shared shared_;
  int port_ = 0;
  std::uint64_t connections_max_ = 0;  // set before the first connection
  std::uint64_t next_id_ = 1;          // first lane's thread
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Handshakes> handshakes_;  // first lane's thread
  std::unique_ptr<Listener> listener_;      // first lane's thread
};

}  // namespace

Result<std::unique_ptr<DataServer>> DataServer::open(DataSource& source, DataServerOptions options) {
  if (!options.token.is_set()) return InvalidArgumentError("a data port needs the cluster token");
  options.io_threads = std::clamp(options.io_threads, 1, 64);
  options.chunk_bytes = std::clamp<std::size_t>(options.chunk_bytes, 4096, kDataChunkMax);
  if (options.incarnation == 0) {
    auto drawn = draw_incarnation();
    if (!drawn.ok()) return drawn.error_ptr();
    options.incarnation = *drawn;
  }
  auto server = std::make_unique<Server>(source, std::move(options));
  if (auto started = server->start(); !started.ok()) return started.error_ptr();
  return std::unique_ptr<DataServer>(std::move(server));
}

}  // namespace troupe::net
