#include "core/net/link/link_stream.h"

#include <utility>

namespace troupe::net {

LinkStream::LinkStream(Setup setup, LinkEvents& events, LinkCounters& counters, Judge judge, Ended ended)
    : setup_(std::move(setup)),
      events_(events),
      counters_(counters),
      judge_(std::move(judge)),
      ended_(std::move(ended)) {}

// ----------------------------------------------------------------------------------------------------------------
// sending

template <class Push>
bool LinkStream::push(std::size_t bytes, const Push& push) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kClosing || state_ == State::kClosed) return false;
  push();
  counters_.frames_sent.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  if (state_ == State::kOpen && !writing_) pump(std::move(lock));
  return true;
}

bool LinkStream::send(const FrameHeader& header, std::span<const ByteView> pieces, std::size_t payload_size) {
  return push(sizeof header + payload_size, [&] { queue_.push(header, pieces, payload_size); });
}

bool LinkStream::send_raw(ByteView frames) {
  return push(frames.size(), [&] { queue_.push_raw(frames); });
}

/// Starts the next write, or the orderly end; only when no write is under way. NLA-1: writing_ keeps everybody else
/// out.
void LinkStream::pump(std::unique_lock<std::mutex> lock) {
  if (!stream_ || (state_ != State::kOpen && state_ != State::kClosing)) return;
  auto stream = stream_;
  if (!queue_.empty()) {
    writing_ = true;
    std::string batch = queue_.take();
    in_flight_ = batch.size();
    counters_.batches_sent.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    stream->write(std::move(batch));
  } else if (state_ == State::kClosing && !finish_sent_) {
    finish_sent_ = true;
    lock.unlock();
    stream->finish();
  }
}

void LinkStream::written(std::string buffer) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  queue_.done(std::exchange(in_flight_, 0), std::move(buffer));
  pump(std::move(lock));
}

std::size_t LinkStream::backlog() const {
  std::lock_guard lock(mutex_);
  return queue_.bytes();
}

// ----------------------------------------------------------------------------------------------------------- opening,
// ending

void LinkStream::attach(std::shared_ptr<abi::Stream> stream) {
  std::unique_lock lock(mutex_);
  // opened() may have come before the dialing thread got the stream from its call: nothing could be written until now.
  if (state_ != State::kClosed) stream_ = stream;
  const bool cancel = state_ == State::kClosed || abort_reason_;
  if (!cancel && state_ != State::kConnecting && !writing_) pump(std::move(lock));
  if (lock.owns_lock()) lock.unlock();
  if (cancel) stream->cancel();
}

void LinkStream::opened(const abi::Hello& peer) {
  {
    std::lock_guard lock(mutex_);
    announced_ = true;
  }
  events_.on_open(setup_.id, {peer.payload, setup_.outgoing, peer_});
  std::unique_lock lock(mutex_);
  if (state_ == State::kConnecting) state_ = State::kOpen;
  changed_.notify_all();
  if (!writing_) pump(std::move(lock));
}

void LinkStream::received(std::string_view frames) {
  counters_.batches_received.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_received.fetch_add(frames.size(), std::memory_order_relaxed);
  if (!frames.empty()) events_.on_batch(setup_.id, {reinterpret_cast<const std::byte*>(frames.data()), frames.size()});
}

bool LinkStream::close() {
  std::unique_lock lock(mutex_);
  if (state_ == State::kClosing || state_ == State::kClosed) return false;
  if (!announced_) {
    lock.unlock();
    abort(make_error<CancelledError>("the link to " + setup_.place + " was closed before it was open"));
    return false;
  }
  state_ = State::kClosing;
  if (!writing_) pump(std::move(lock));  // without a stream yet: attach() goes on
  return true;
}

void LinkStream::abort(ErrorPtr why) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kClosed || abort_reason_) return;
  abort_reason_ = why;
  auto stream = stream_;
  lock.unlock();
  if (stream) stream->cancel();  // closed() follows
}

Status LinkStream::verdict(abi::Ending ending, std::string_view reason) const {
  if (abort_reason_) return abort_reason_;
  switch (ending) {
    case abi::Ending::kOrderly: return {};
    case abi::Ending::kRefused: return UnauthenticatedError("refused by " + setup_.place + ": " + std::string(reason));
    case abi::Ending::kBroken: break;
  }
  return NodeDiedError("the link to " + setup_.place + " broke: " + std::string(reason));
}

void LinkStream::closed(abi::Ending ending, std::string_view reason) {
  Status why;
  {
    std::lock_guard lock(mutex_);
    why = verdict(ending, reason);
  }
  end(std::move(why));
}

void LinkStream::fail(ErrorPtr why) { end(std::move(why)); }

void LinkStream::end(Status why) {
  std::shared_ptr<abi::Stream> stream;
  bool tell = false;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    stream = std::move(stream_);
    queue_.clear();
    in_flight_ = 0;
    tell = announced_ || !setup_.waited_for;
    outcome_ = why;
  }
  auto keep = shared_from_this();
  if (tell) events_.on_closed(setup_.id, why);
  ended_(*this);  // after the event: who waits for all links to end has seen all events
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool LinkStream::is_open() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kOpen;
}
bool LinkStream::is_over() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kClosed;
}
ErrorPtr LinkStream::abort_reason() const {
  std::lock_guard lock(mutex_);
  return abort_reason_;
}

Status LinkStream::wait_until_open() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::kConnecting; });
  return announced_ ? Status() : *outcome_;
}

}  // namespace troupe::net
