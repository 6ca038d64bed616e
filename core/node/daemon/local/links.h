// LocalLinks: net::Links between the head and the daemon of one process (local mode). A send hands the frame to the
// other side's events at once, on the sender's thread: no library, no socket, no port is needed.
//
//   listen --> a number in the switch <--dial-- on_open on both sides --> frames --> close, abort or shutdown of one
//
// Thread rule: as net::Links says; events run under the switch's lock, so they must not call back (head and daemon only
// post).
//
// Invariants
//   LLK-1  LK-1 to LK-3 hold; a dial to a number where nobody listens is closed with NotFoundError.
//   LLK-2  After shutdown() of one side no event of it is called any more.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "core/net/link/link.h"

namespace troupe::node {

using LinkOpener =
    std::function<Result<std::unique_ptr<net::Links>>(net::LinkEvents& events, const net::LinksOptions& options)>;

class LocalLinks;

/// What the links of one process share.
class LocalSwitch : public std::enable_shared_from_this<LocalSwitch> {
 public:
  Result<std::unique_ptr<net::Links>> open(net::LinkEvents& events, const net::LinksOptions& options);

 private:
  friend class LocalLinks;
  struct End { LocalLinks* side = nullptr; net::LinkId link = 0; };
  std::mutex mutex_;
  std::map<int, LocalLinks*> listeners_;  // by port
  int next_port_ = 1;
};

}  // namespace troupe::node
