#include "core/net/link/connections.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "core/net/base/socket.h"
#include "core/net/link/spans.h"

namespace troupe::net {

bool LinkConnections::has_room() const {
  std::lock_guard lock(mutex_);
  return incoming_ < incoming_max_;
}

bool LinkConnections::admit(int descriptor, const ProofPeer& peer) {
  UniqueFd watch(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!watch || !has_room()) {  // NLS-3: others may have proven themselves since it was accepted
    counters_.connections_refused.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Connection connection;
  connection.descriptor = descriptor;
  connection.watch = std::move(watch);
  connection.incoming = true;
  connection.peer = peer;
  const std::uint64_t serial = add(std::move(connection));
  const auto too_late = loop_.at(std::chrono::steady_clock::now() + options_.handshake_timeout,
                                 [this, serial] { cut_if_unlinked(serial); });
  std::lock_guard lock(mutex_);
  connections_.at(serial).handshake = too_late;
  return true;
}

// LH-1.
void LinkConnections::cut_if_unlinked(std::uint64_t serial) {
  {
    std::lock_guard lock(mutex_);
    auto found = connections_.find(serial);
    if (found == connections_.end() || found->second.linked) return;
  }
  counters_.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  cut(serial);
}

void LinkConnections::dialled(int descriptor, const std::shared_ptr<LinkStream>& link) {
  UniqueFd watch(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!watch) return;
  Connection connection;
  connection.descriptor = descriptor;
  connection.watch = std::move(watch);
  connection.linked = true;  // its handshake has the dial's deadline
  connection.link = link;
  link->set_connection(add(std::move(connection)));
}

std::uint64_t LinkConnections::add(Connection connection) {
  const std::uint64_t serial = next_serial_++;
  // Only EPOLLHUP and EPOLLERR, which always come: the transport has shut its own descriptor.
  loop_.watch(connection.watch.get(), 0, [this, serial](std::uint32_t) { cut(serial); });
  {
    std::lock_guard lock(mutex_);
    serial_of_[connection.descriptor] = serial;
    incoming_ += connection.incoming;
    connections_.emplace(serial, std::move(connection));
  }
  if (!std::exchange(looking_, true))
    loop_.at(std::chrono::steady_clock::now() + kLookAfter, [this] { look_for_silence(); });
  return serial;
}

bool LinkConnections::claim(int descriptor, const std::shared_ptr<LinkStream>& link) {
  std::lock_guard lock(mutex_);
  auto serial = serial_of_.find(descriptor);
  if (serial == serial_of_.end()) return false;
  link->set_connection(serial->second);
  Connection& connection = connections_.at(serial->second);
  link->set_peer(connection.peer);
  connection.linked = true;
  connection.link = link;
  return true;
}

void LinkConnections::cut(std::uint64_t serial) {
  Connection connection;
  {
    std::lock_guard lock(mutex_);
    auto found = connections_.find(serial);
    if (found == connections_.end()) return;
    connection = std::move(found->second);
    connections_.erase(found);
    incoming_ -= connection.incoming;
    auto known = serial_of_.find(connection.descriptor);
    if (known != serial_of_.end() && known->second == serial) serial_of_.erase(known);
  }
  loop_.cancel(connection.handshake);
  loop_.forget(connection.watch.get());
  ::shutdown(connection.watch.get(), SHUT_RDWR);
}

// LH-3.
void LinkConnections::look_for_silence() {
  const auto limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.keep_alive.time + options_.keep_alive.timeout);
  std::vector<std::pair<std::uint64_t, std::shared_ptr<LinkStream>>> silent;
  silence_.look(std::chrono::steady_clock::now());
  {
    std::lock_guard lock(mutex_);
    for (const auto& [serial, connection] : connections_) {
      if (connection.linked && silence_.counted(silence_of(connection.watch.get())) > limit)
        silent.emplace_back(serial, connection.link.lock());
    }
    looking_ = !connections_.empty();
  }
  for (const auto& [serial, link] : silent) {
    if (link)
      link->abort(make_error<NodeDiedError>("the link to " + link->setup().place + " broke: no sign of life for " +
                                            seconds_text(limit)));
    cut(serial);
  }
  if (!looking_) return silence_.pause();
  loop_.at(std::chrono::steady_clock::now() + kLookAfter, [this] { look_for_silence(); });
}

}  // namespace troupe::net
