// Cuts TCP connections of another process, as a fault of the network would: its sockets are fetched (pidfd_getfd) and
// shut down. The process must be a descendant of the caller, or of the same user where the kernel allows that.
#pragma once

namespace troupe::node::test {

/// Every connection of `pid` that has `port` at one of its ends. Returns how many there were.
int cut_connections(int pid, int port);
/// Its socket that listens at `port` takes no connection any more: whoever dials is refused.
int stop_listening(int pid, int port);

}  // namespace troupe::node::test
