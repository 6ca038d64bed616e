// The outgoing half of LinkHub: from an address to a stream.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/link/hub.h"

namespace troupe::net {
namespace {
constexpr Duration kRetryPauseMax = std::chrono::milliseconds(250);
}  // namespace

Result<std::shared_ptr<LinkStream>> LinkHub::start_dial(const ConnectOptions& options, bool waited_for) {
  {
    std::lock_guard lock(identity_mutex_);
    if (!identity_.token.is_set())
      return UnauthenticatedError("no cluster token to connect to " + options.address + " with");
  }
  auto address = parse_address(options.address);
  if (!address.ok()) return address.error_ptr();
  auto link = make_link({.outgoing = true, .waited_for = waited_for, .place = options.address});
  if (!link) return CancelledError("links are shut down");
  loop_->post([this, link, address = *address, options] {
    const LinkId id = link->setup().id;
    if (auto why = link->abort_reason()) return link->fail(why);  // closed before we came to it
    Dial dial;
    dial.link = link;
    dial.address = address;
    dial.options = options;
    // A timeout of years is none; the sum must not overflow.
    const auto timeout = std::clamp<Duration>(options.timeout, Duration::zero(), std::chrono::hours(24 * 365));
    dial.deadline = loop_->at(std::chrono::steady_clock::now() + timeout, [this, id] { dial_deadline(id); });
    dials_.emplace(id, std::move(dial));
    try_dial(id);
  });
  return link;
}

Result<LinkId> LinkHub::dial(const ConnectOptions& options) {
  auto link = start_dial(options, false);
  if (!link.ok()) return link.error_ptr();
  return (*link)->setup().id;
}

Result<LinkId> LinkHub::connect(const ConnectOptions& options) {
  auto link = start_dial(options, true);
  if (!link.ok()) return link.error_ptr();
  auto opened = (*link)->wait_until_open();
  if (!opened.ok()) return opened.error_ptr();
  return (*link)->setup().id;
}

void LinkHub::try_dial(LinkId id) {
  auto found = dials_.find(id);
  if (found == dials_.end()) return;
  Dial& dial = found->second;
  auto connecting = begin_connect(dial.address);
  if (connecting.error != 0) return dial_attempt_failed(id, connecting.error);
  dial.socket = std::move(connecting.fd);
  loop_->watch(dial.socket.get(), EPOLLOUT, [this, id](std::uint32_t) {
    auto entry = dials_.find(id);
    if (entry == dials_.end()) return;
    loop_->forget(entry->second.socket.get());
    const int error = connect_error(entry->second.socket.get());
    error == 0 ? dial_connected(id) : dial_attempt_failed(id, error);
  });
}

void LinkHub::dial_attempt_failed(LinkId id, int error) {
  Dial& dial = dials_.at(id);
  dial.last_error = error;
  dial.socket.reset();
  const bool nobody_there = error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH ||
                            error == ECONNRESET || error == ETIMEDOUT;
  if (dial.options.retry && nobody_there) {
    dial.again = loop_->at(std::chrono::steady_clock::now() + dial.pause, [this, id] { try_dial(id); });
    dial.pause = std::min(2 * dial.pause, kRetryPauseMax);
    return;
  }
  const std::string text = "cannot connect to " + dial.options.address + ": " + std::strerror(error);
  if (nobody_there) end_dial(id, make_error<NotFoundError>(text + "; is a node running there?"));
  else end_dial(id, make_error<Error>(text));
}

void LinkHub::dial_connected(LinkId id) {
  Dial& dial = dials_.at(id);
  set_tcp_options(dial.socket.get(), {.user_timeout_ms = to_ms(options_.keep_alive.timeout)});
  auto proof = ProofExchange::dial(proof_self(), dial.options.expected, peer_address(dial.socket.get()));
  if (!proof.ok()) return end_dial(id, proof.error_ptr());
  dial.proof = std::move(*proof);
  const std::string hello = dial.proof->output();
  if (::send(dial.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(hello.size()))
    return dial_attempt_failed(id, errno);
  loop_->watch(dial.socket.get(), EPOLLIN, [this, id](std::uint32_t) { dial_readable(id); });
}

void LinkHub::dial_readable(LinkId id) {
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
      return end_dial(id, make_error<NodeDiedError>("the link to " + dial.options.address +
                                                    " broke before it was open: " + reason));
    }
    dial.proof->take({bytes, std::size_t(got)});
  }
  loop_->forget(dial.socket.get());
  if (dial.proof->failure()) {
    counters_.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    return end_dial(id, make_error<UnauthenticatedError>("no link to " + dial.options.address + ": " +
                                                         dial.proof->failure()->message()));
  }
  dial_proven(id);
}

void LinkHub::dial_proven(LinkId id) {
  Dial& dial = dials_.at(id);
  const std::string answer = dial.proof->output();
  if (::send(dial.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(answer.size())) {
    return end_dial(id, make_error<NodeDiedError>("the link to " + dial.options.address + " broke before it was open"));
  }
  dial.handed_over = true;  // the entry stays for its deadline
  auto link = dial.link;
  link->set_peer(dial.proof->peer());
  if (UniqueFd watch(::fcntl(dial.socket.get(), F_DUPFD_CLOEXEC, 0)); watch) {
    const std::uint64_t serial = register_connection(dial.socket.get(), std::move(watch), false);
    link->set_connection(serial);
    std::lock_guard lock(connections_mutex_);
    connections_.at(serial).linked = true;  // its handshake has the dial's deadline
    connections_.at(serial).link = link;
  }
  link->attach(transport_->dial(dial.socket.release(), own_hello(), link));
}

void LinkHub::dial_deadline(LinkId id) {
  Dial& dial = dials_.at(id);
  const std::string span = seconds_text(dial.options.timeout);
  if (dial.handed_over) {
    if (!dial.link->is_open() && !dial.link->is_over()) {
      dial.link->abort(
          make_error<DeadlineExceededError>(dial.options.address + " did not answer the handshake within " + span));
    }
    dials_.erase(id);
  } else if (dial.proof) {
    end_dial(id, make_error<DeadlineExceededError>(dial.options.address +
                                                   " did not prove to be of this cluster within " + span));
  } else if (dial.last_error != 0) {
    end_dial(id, make_error<NotFoundError>("cannot connect to " + dial.options.address + " (tried for " + span +
                                           "): " + std::strerror(dial.last_error) + "; is a node running there?"));
  } else {
    end_dial(id, make_error<DeadlineExceededError>("cannot connect to " + dial.options.address + ": no answer within " +
                                                   span));
  }
}

void LinkHub::end_dial(LinkId id, const ErrorPtr& why) {
  auto found = dials_.find(id);
  if (found == dials_.end()) return;
  Dial dial = std::move(found->second);
  dials_.erase(found);
  loop_->cancel(dial.deadline);
  if (dial.handed_over) return;  // its stream ends it
  loop_->cancel(dial.again);
  if (dial.socket.get() >= 0) loop_->forget(dial.socket.get());
  dial.link->fail(why);
}

}  // namespace troupe::net
