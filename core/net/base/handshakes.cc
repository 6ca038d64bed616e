#include "core/net/base/handshakes.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/net/base/socket.h"

namespace troupe::net {

Handshakes::~Handshakes() {
  for (auto& [id, newcomer] : waiting_) {
    loop_.cancel(newcomer.deadline);
    loop_.forget(newcomer.socket.get());
  }
}

void Handshakes::add(UniqueFd socket) {
  auto exchange = ProofExchange::listen(options_.self(), local_address(socket.get()), options_.also_reached_at);
  if (!exchange.ok()) return;  // the kernel gives no random numbers: nothing can be proven
  if (waiting_.size() >= std::max<std::size_t>(options_.unproven_max, 1)) make_room();
  const std::uint64_t id = next_id_++;
  Newcomer& newcomer = waiting_
                           .emplace(std::piecewise_construct, std::forward_as_tuple(id),
                                    std::forward_as_tuple(std::move(socket), std::move(*exchange)))
                           .first->second;
  newcomer.deadline =
      loop_.at(std::chrono::steady_clock::now() + options_.timeout, [this, id] { refuse(id); });  // HK-2
  loop_.watch(newcomer.socket.get(), EPOLLIN, [this, id](std::uint32_t) { on_readable(id); });
}

/// HK-1
void Handshakes::make_room() {
  std::vector<Source> sources;
  for (const auto& [id, newcomer] : waiting_) sources.push_back(newcomer.source);
  refuse(std::next(waiting_.begin(), std::ptrdiff_t(who_makes_way(sources)))->first);
}

Handshakes::Newcomer Handshakes::remove(std::uint64_t id) {
  auto found = waiting_.find(id);
  Newcomer newcomer = std::move(found->second);
  waiting_.erase(found);
  loop_.cancel(newcomer.deadline);
  loop_.forget(newcomer.socket.get());
  return newcomer;
}

void Handshakes::refuse(std::uint64_t id) {
  if (!waiting_.contains(id)) return;
  remove(id);
  if (options_.failed) options_.failed->fetch_add(1, std::memory_order_relaxed);
}

void Handshakes::on_readable(std::uint64_t id) {
  auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  Progress progress = Progress::kAgain;
  while (progress == Progress::kAgain) progress = step(found->second);
  if (progress == Progress::kWait) return;
  if (progress == Progress::kClose) return refuse(id);
  Newcomer newcomer = remove(id);
  if (progress == Progress::kAdmit) return options_.admitted(std::move(newcomer.socket), newcomer.proof.peer());
  options_.handed_over(std::move(newcomer.socket), std::move(newcomer.first));
}

/// One read of at most what the exchange wants next. HK-3.
Handshakes::Progress Handshakes::step(Newcomer& newcomer) {
  std::byte bytes[sizeof(ProofHello)];
  std::size_t wanted = newcomer.proof.wanted();
  if (!newcomer.header_read) wanted = sizeof(HandOverHeader) - newcomer.first.size();
  else if (newcomer.body_size != 0) wanted = newcomer.body_size - newcomer.first.size();
  const ssize_t got = ::recv(newcomer.socket.get(), bytes, std::min(wanted, sizeof bytes), MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return Progress::kAgain;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kWait;
  if (got <= 0) return Progress::kClose;
  const ByteView view(bytes, std::size_t(got));
  if (newcomer.header_read && newcomer.body_size == 0) return feed(newcomer, view);
  newcomer.first.insert(newcomer.first.end(), view.begin(), view.end());
  if (view.size() < wanted) return Progress::kAgain;
  return newcomer.header_read ? Progress::kHandOver : take_header(newcomer);
}

Handshakes::Progress Handshakes::take_header(Newcomer& newcomer) {
  HandOverHeader header;
  std::memcpy(&header, newcomer.first.data(), sizeof header);
  newcomer.header_read = true;
  const std::vector<std::byte> read = std::exchange(newcomer.first, {});
  if (header.magic == kProofMagic) return feed(newcomer, read);
  const bool wellformed = header.magic == HandOverHeader::kMagic && header.version == 1 && header.body_size != 0 &&
                          header.body_size <= HandOverHeader::kBodyMax;
  if (!wellformed || !options_.handed_over) return Progress::kClose;
  newcomer.body_size = header.body_size;
  return Progress::kAgain;
}

Handshakes::Progress Handshakes::feed(Newcomer& newcomer, ByteView bytes) {
  newcomer.proof.take(bytes);
  const std::string out = newcomer.proof.output();
  // A fresh connection's send buffer takes these few bytes whole.
  if (!out.empty() &&
      ::send(newcomer.socket.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t(out.size()))
    return Progress::kClose;
  if (newcomer.proof.failure()) return Progress::kClose;
  return newcomer.proof.proven() ? Progress::kAdmit : Progress::kAgain;
}

}  // namespace troupe::net
