#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/data/client.h"

namespace troupe::net {
namespace {
constexpr std::size_t kHeadMax = std::max<std::size_t>(kDataMessageMax, sizeof(ProofWelcome));
constexpr std::size_t kTurnBytes = 8u << 20;  // then other connections of the thread have their turn
constexpr int kUserTimeoutMs = 10'000;
}  // namespace

ClientConnection::ClientConnection(SocketLoop& loop, const ProofSelf& self, DataClientCounters& counters, Hooks hooks)
    : loop_(loop), self_(self), counters_(counters), hooks_(std::move(hooks)), head_(kHeadMax) {}

ClientConnection::~ClientConnection() {
  loop_.cancel(idle_end_);
  if (socket_) loop_.forget(socket_.get());
}

ErrorPtr ClientConnection::begin(const SocketAddress& address, const std::string& place) {
  place_ = place;
  auto connecting = begin_connect(address);
  if (connecting.error != 0)
    return make_error<NodeDiedError>("cannot reach the data port " + place + ": " + std::strerror(connecting.error));
  socket_ = std::move(connecting.fd);
  loop_.watch(socket_.get(), EPOLLOUT, [this](std::uint32_t) { on_event(); });
  return nullptr;
}

// Hooks are called here and at the end of idleness: last, for they may destroy this.
void ClientConnection::on_event() {
  if (state_ == State::kConnecting) connected();
  Progress progress = broken_ ? Progress::kOver : Progress::kAgain;
  while (progress == Progress::kAgain) progress = read_some();
  if (progress == Progress::kOver) return hooks_.on_broken(*this, broken_);
  if (state_ == State::kIdle) hooks_.on_idle(*this);
  if (state_ == State::kIdle) wait_for_a_part();
}

/// NDS-6
void ClientConnection::wait_for_a_part() {
  loop_.cancel(idle_end_);
  idle_end_ = loop_.at(std::chrono::steady_clock::now() + hooks_.idle_max, [this] {
    hooks_.on_broken(*this, make_error<NodeDiedError>("the data connection to " + place_ + " was closed unused"));
  });
}

void ClientConnection::connected() {
  if (const int error = connect_error(socket_.get()); error != 0) {
    broken(make_error<NodeDiedError>("cannot reach the data port " + place_ + ": " + std::strerror(error)));
    return;
  }
  set_tcp_options(socket_.get(), {.user_timeout_ms = kUserTimeoutMs, .probe = true});
  counters_.connections_made.fetch_add(1, std::memory_order_relaxed);
  auto proof = ProofExchange::dial(self_, {.role = ProofRole::kNode}, peer_address(socket_.get()));
  if (!proof.ok()) {
    broken(proof.error_ptr());
    return;
  }
  proof_ = std::move(*proof);
  want(State::kProving, proof_->wanted());
  loop_.rearm(socket_.get(), EPOLLIN);
  if (!send_all(as_bytes(proof_->output()))) hung_up(errno);
}

void ClientConnection::assign(std::unique_ptr<Part> part) {
  loop_.cancel(idle_end_);
  part_ = std::move(part);
  DataRequest request;
  request.id = ++request_id_;
  const BufferKey& key = part_->state->fetch.key;
  request.node = key.node;
  request.slot = key.slot;
  request.generation = key.generation;
  request.offset = part_->offset;
  request.length = part_->length;
  request.check = header_check(request);
  reply_begun_ = false;
  received_ = 0;
  want(State::kReply, sizeof(DataReply));
  // A failure shows as a readable hang-up: the loop comes to it.
  if (!send_all(bytes_of(request))) ::shutdown(socket_.get(), SHUT_RDWR);
}

/// A few bytes into a buffer that is empty between two requests: they fit, or the connection is broken.
bool ClientConnection::send_all(ByteView bytes) {
  return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(bytes.size());
}

void ClientConnection::want(State state, std::size_t bytes) {
  state_ = state;
  head_wanted_ = bytes;
  head_have_ = 0;
}

ClientConnection::Progress ClientConnection::broken(ErrorPtr why) {
  broken_ = std::move(why);
  return Progress::kOver;
}

ClientConnection::Progress ClientConnection::hung_up(int error) {
  const char* reason = error == 0 ? "the peer hung up" : std::strerror(error);
  if (state_ == State::kProving) {
    return broken(make_error<NodeDiedError>("the data port " + place_ + " ended the handshake: " + reason));
  }
  return broken(make_error<NodeDiedError>("the data connection to " + place_ + " broke: " + reason));
}

ClientConnection::Progress ClientConnection::read_some() {
  for (std::size_t turn = 0; turn < kTurnBytes;) {
    if (state_ == State::kIdle) {  // nothing may come now but the end
      std::byte unexpected;
      const ssize_t got = ::recv(socket_.get(), &unexpected, 1, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::kWait;
      return hung_up(got < 0 ? errno : 0);
    }
    const bool bytes = state_ == State::kBytes;
    iovec pieces[2] = {{bytes ? bytes_.data() + bytes_have_ : nullptr, bytes ? bytes_.size() - bytes_have_ : 0},
                       {head_.data() + head_have_, head_wanted_ - head_have_}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kWait;
    if (got <= 0) return hung_up(got < 0 ? errno : 0);
    turn += std::size_t(got);
    const std::size_t of_bytes = std::min(std::size_t(got), pieces[0].iov_len);
    bytes_have_ += bytes ? of_bytes : 0;
    head_have_ += std::size_t(got) - of_bytes;
    if (auto progress = take(); progress != Progress::kAgain) return progress;
  }
  return Progress::kWait;  // level-triggered: comes again
}

/// Uses what is complete; kAgain when more has to be read.
ClientConnection::Progress ClientConnection::take() {
  while (true) {
    if (state_ == State::kBytes) {
      if (bytes_have_ < bytes_.size()) return Progress::kAgain;
      if (auto progress = take_bytes(); progress != Progress::kAgain) return progress;
      if (state_ == State::kIdle) return Progress::kWait;
      continue;
    }
    if (head_have_ < head_wanted_) return Progress::kAgain;
    Progress progress = Progress::kOver;
    switch (state_) {
      case State::kProving: progress = take_proof(); break;
      case State::kReply: progress = take_reply(); break;
      case State::kMessage: progress = take_message(); break;
      case State::kChunk: progress = take_chunk(); break;
      default: break;
    }
    if (progress != Progress::kAgain || state_ == State::kIdle)
      return progress == Progress::kAgain ? Progress::kWait : progress;
  }
}

ClientConnection::Progress ClientConnection::take_proof() {
  proof_->take(ByteView(head_).first(head_wanted_));
  if (proof_->failure())
    return broken(make_error<UnauthenticatedError>("the data port " + place_ + ": " + proof_->failure()->message()));
  if (!send_all(as_bytes(proof_->output()))) return hung_up(errno);
  proof_.reset();
  established_ = true;
  ++*hooks_.progress;
  want(State::kIdle, 0);
  return Progress::kAgain;
}

ClientConnection::Progress ClientConnection::take_reply() {
  reply_ = header_from<DataReply>(head_.data());
  const bool sane = reply_.magic == kDataMagic && reply_.check == header_check(reply_) && reply_.id == request_id_ &&
                    reply_.message_size <= kDataMessageMax && (reply_.error != 0 || reply_.message_size == 0);
  if (!sane)
    return broken(
        make_error<SerializationError>("the data port " + place_ + " sent a reply that does not fit the request"));
  reply_begun_ = true;  // not before: what came may have been more than the last reply had to be
  if (reply_.error != 0) {
    want(State::kMessage, reply_.message_size);
    return Progress::kAgain;
  }
  const auto& fetch = part_->state->fetch;
  if (reply_.total != fetch.into.size() || reply_.length != part_->length) {
    return broken(make_error<ObjectLostError>("the buffer at " + place_ + " has " + std::to_string(reply_.total) +
                                              " bytes, not " + std::to_string(fetch.into.size())));
  }
  if (part_->length == 0) return part_done();
  want(State::kChunk, sizeof(DataChunk));
  return Progress::kAgain;
}

ClientConnection::Progress ClientConnection::take_message() {
  ErrorRecord record;
  record.code = ErrorCode(reply_.error);
  record.message = std::string(as_text(ByteView(head_).first(reply_.message_size)));
  auto part = std::move(part_);
  ++parts_done_;
  want(State::kIdle, 0);
  loop_.cancel(part->deadline);
  loop_.cancel(part->stall);
  part->state->part_ended(Status(Error::make(std::move(record))));
  return Progress::kAgain;
}

ClientConnection::Progress ClientConnection::take_chunk() {
  chunk_ = header_from<DataChunk>(head_.data());
  const std::size_t left = part_->length - received_;
  const bool sane = chunk_.magic == kDataMagic && chunk_.size != 0 && chunk_.size <= kDataChunkMax &&
                    chunk_.size <= left && chunk_.offset == part_->offset + received_;
  if (!sane) return broken(make_error<SerializationError>("the data port " + place_ + " sent bytes out of place"));
  bytes_ = part_->state->fetch.into.subspan(part_->offset + received_, chunk_.size);
  bytes_have_ = 0;
  // The header after this chunk, where there is one, is read by the same call as the end of its bytes.
  want(State::kBytes, chunk_.size < left ? sizeof(DataChunk) : 0);
  return Progress::kAgain;
}

ClientConnection::Progress ClientConnection::take_bytes() {
  if (chunk_check(bytes_, chunk_.offset) != chunk_.check) {
    counters_.checksum_failures.fetch_add(1, std::memory_order_relaxed);
    return broken(make_error<SerializationError>("wrong checksum: bytes " + std::to_string(chunk_.offset) + " to " +
                                                 std::to_string(chunk_.offset + chunk_.size) + " of a buffer from " +
                                                 place_ + " were damaged on the way"));
  }
  received_ += bytes_.size();
  ++*hooks_.progress;
  counters_.bytes_received.fetch_add(bytes_.size(), std::memory_order_relaxed);
  bytes_ = {};
  if (received_ == part_->length) return part_done();
  if (part_->state->failed()) return broken(make_error<CancelledError>("another part of the buffer failed"));
  state_ = State::kChunk;  // head_ may already hold the next header, or its beginning
  return Progress::kAgain;
}

ClientConnection::Progress ClientConnection::part_done() {
  auto part = std::move(part_);
  ++parts_done_;
  want(State::kIdle, 0);
  loop_.cancel(part->deadline);
  loop_.cancel(part->stall);
  part->state->part_ended({});
  return Progress::kAgain;
}

}  // namespace troupe::net
