#include "core/node/base/packet_channel.h"

#include <sys/epoll.h>

namespace troupe::node {

PacketChannel::PacketChannel(Loop& loop, UniqueFd fd)
    : loop_(loop), channel_(std::move(fd)), handlers_(std::make_shared<Handlers>()) {
  loop_.watch(channel_.fd(), EPOLLIN, [this](std::uint32_t events) { on_event(events); });
}

PacketChannel::~PacketChannel() { close(); }

void PacketChannel::set_handlers(Handlers handlers) {
  handlers_ = std::make_shared<const Handlers>(std::move(handlers));
}

void PacketChannel::close() {
  if (std::exchange(closed_, true)) return;
  loop_.forget(channel_.fd());
  if (again_) loop_.cancel(*again_);
}

void PacketChannel::send_bytes(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds) {
  if (closed_) return;
  after_flush(channel_.send(kind, std::move(payload), std::move(fds)));
}

void PacketChannel::on_event(std::uint32_t events) {
  if (events & EPOLLOUT) {
    after_flush(channel_.flush());
    if (closed_) return;
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  Result<Received> received = channel_.receive();
  if (!received.ok()) return end(received.error().message());
  if (received->state == Received::State::kNothing) return;
  if (received->state == Received::State::kClosed) return end("");
  const std::shared_ptr<const Handlers> handlers = handlers_;
  if (handlers->packet) handlers->packet(std::move(received->packet));
}

void PacketChannel::after_flush(PacketQueue::Flushed flushed) {
  const bool full = flushed == PacketQueue::Flushed::kFull;
  if (full != watching_writes_) {
    watching_writes_ = full;
    loop_.rearm(channel_.fd(), full ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  if (flushed == PacketQueue::Flushed::kTooManyInFlight && !again_) {
    again_ = loop_.after(kInFlightWait, [this] {
      again_.reset();
      after_flush(channel_.flush());
    });
  }
  // not from within send(): the caller may hold what `closed` takes apart
  if (flushed == PacketQueue::Flushed::kFailed) {
    if (again_) loop_.cancel(*again_);
    again_ = loop_.after(Duration::zero(), [this] {
      again_.reset();
      end(channel_.problem());
    });
  }
}

void PacketChannel::end(const std::string& why) {
  if (closed_) return;
  close();
  const std::shared_ptr<const Handlers> handlers = handlers_;
  if (handlers->closed) handlers->closed(why);
}

}  // namespace troupe::node
