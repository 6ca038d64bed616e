#include "core/net/link/dialer.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/link/spans.h"

namespace troupe::net {
namespace {
constexpr Duration kRetryPauseMax = std::chrono::milliseconds(250);
}  // namespace

void LinkDialer::start(std::shared_ptr<LinkStream> link, const SocketAddress& address, const ConnectOptions& options) {
  const LinkId id = link->setup().id;
  Dial dial;
  dial.link = std::move(link);
  dial.address = address;
  dial.options = options;
  // A timeout of years is none; the sum must not overflow.
  const auto timeout = std::clamp<Duration>(options.timeout, Duration::zero(), std::chrono::hours(24 * 365));
  dial.deadline = loop_.at(std::chrono::steady_clock::now() + timeout, [this, id] { deadline(id); });
  dials_.emplace(id, std::move(dial));
  attempt(id);
}

void LinkDialer::attempt(LinkId id) {
  auto found = dials_.find(id);
  if (found == dials_.end()) return;
  Dial& dial = found->second;
  auto connecting = begin_connect(dial.address);
  if (connecting.error != 0) return attempt_failed(id, connecting.error);
  dial.socket = std::move(connecting.fd);
  loop_.watch(dial.socket.get(), EPOLLOUT, [this, id](std::uint32_t) {
    auto entry = dials_.find(id);
    if (entry == dials_.end()) return;
    loop_.forget(entry->second.socket.get());
    const int error = connect_error(entry->second.socket.get());
    error == 0 ? connected(id) : attempt_failed(id, error);
  });
}

void LinkDialer::attempt_failed(LinkId id, int error) {
  Dial& dial = dials_.at(id);
  dial.last_error = error;
  dial.socket.reset();
  const bool nobody_there = error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH ||
                            error == ECONNRESET || error == ETIMEDOUT;
  if (dial.options.retry && nobody_there) {
    dial.again = loop_.at(std::chrono::steady_clock::now() + dial.pause, [this, id] { attempt(id); });
    dial.pause = std::min(2 * dial.pause, kRetryPauseMax);
    return;
  }
  const std::string text = "cannot connect to " + dial.options.address + ": " + std::strerror(error);
  if (nobody_there) end(id, make_error<NotFoundError>(text + "; is a node running there?"));
  else end(id, make_error<Error>(text));
}

void LinkDialer::connected(LinkId id) {
  Dial& dial = dials_.at(id);
  set_tcp_options(dial.socket.get(), {.user_timeout_ms = to_ms(options_.silence_max)});
  auto proof = ProofExchange::dial(options_.self(), dial.options.expected, peer_address(dial.socket.get()));
  if (!proof.ok()) return end(id, proof.error_ptr());
  dial.proof = std::move(*proof);
  const std::string hello = dial.proof->output();
  if (::send(dial.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(hello.size()))
    return attempt_failed(id, errno);
  loop_.watch(dial.socket.get(), EPOLLIN, [this, id](std::uint32_t) { readable(id); });
}

void LinkDialer::readable(LinkId id) {
  auto found = dials_.find(id);
  if (found == dials_.end()) return;
  Dial& dial = found->second;
  while (dial.proof->wanted() != 0) {
    std::byte bytes[sizeof(ProofWelcome)];
    const ssize_t got = ::recv(dial.socket.get(), bytes, std::min(dial.proof->wanted(), sizeof bytes), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      const std::string reason = got == 0 ? "the peer hung up" : std::strerror(errno);
      return end(id, make_error<NodeDiedError>("the link to " + dial.options.address +
                                               " broke before it was open: " + reason));
    }
    dial.proof->take({bytes, std::size_t(got)});
  }
  loop_.forget(dial.socket.get());
  if (dial.proof->failure()) {
    options_.counters->handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    return end(id, make_error<UnauthenticatedError>("no link to " + dial.options.address + ": " +
                                                    dial.proof->failure()->message()));
  }
  proven(id);
}

void LinkDialer::proven(LinkId id) {
  Dial& dial = dials_.at(id);
  const std::string answer = dial.proof->output();
  if (::send(dial.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(answer.size())) {
    return end(id, make_error<NodeDiedError>("the link to " + dial.options.address + " broke before it was open"));
  }
  dial.handed_over = true;  // the entry stays for its deadline
  const auto link = dial.link;
  link->set_peer(dial.proof->peer());
  options_.proven(link, std::move(dial.socket));
}

void LinkDialer::deadline(LinkId id) {
  Dial& dial = dials_.at(id);
  const std::string span = seconds_text(dial.options.timeout);
  if (dial.handed_over) {
    if (!dial.link->is_open() && !dial.link->is_over()) {
      dial.link->abort(
          make_error<DeadlineExceededError>(dial.options.address + " did not answer the handshake within " + span));
    }
    dials_.erase(id);
  } else if (dial.proof) {
    end(id, make_error<DeadlineExceededError>(dial.options.address +
                                              " did not prove to be of this cluster within " + span));
  } else if (dial.last_error != 0) {
    end(id, make_error<NotFoundError>("cannot connect to " + dial.options.address + " (tried for " + span +
                                      "): " + std::strerror(dial.last_error) + "; is a node running there?"));
  } else {
    end(id, make_error<DeadlineExceededError>("cannot connect to " + dial.options.address + ": no answer within " +
                                              span));
  }
}

void LinkDialer::end(LinkId id, const ErrorPtr& why) {
  auto found = dials_.find(id);
  if (found == dials_.end()) return;
  Dial dial = std::move(found->second);
  dials_.erase(found);
  loop_.cancel(dial.deadline);
  if (dial.handed_over) return;  // its stream ends it
  loop_.cancel(dial.again);
  if (dial.socket.get() >= 0) loop_.forget(dial.socket.get());
  dial.link->fail(why);
}

}  // namespace troupe::net
