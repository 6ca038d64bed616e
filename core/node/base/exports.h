// Exports: buffers of this node's store that other daemons are about to fetch, as the data server's threads see them.
// Each has two names: its origin's, by which others ask for it, and the one by which this node's store holds it. They
// differ where it is a copy.
//
//   absent --expose (loop)--> exposed --open (I/O thread): in use--> ... --withdraw (loop), not in use--> absent
//
// Thread rule: expose, withdraw and withdraw_all on the loop's thread; open and the end of a use on any thread.
// `released` runs on the loop's thread.
//
// Invariants
//   EX-1  From expose to `released` the buffer does not move: the caller holds it in the store meanwhile.
//   EX-2  released is called once each time that a buffer became absent, with the store's name of what was exposed
//         then: also when the same buffer has been exposed anew before `released` runs.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/net/data/data_socket.h"
#include "core/node/base/loop.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::node {

class Exports final : public net::DataSource {
 public:
  Exports(Loop& loop, std::function<void(store::BufferId local)> released)
      : state_(std::make_shared<State>(loop, std::move(released))) {}

  /// `local` is the store's name of it. True when it became exposed just now: the caller takes the store's hold. False:
  /// it is exposed already, and what was exposed stays, which has the same bytes.
  bool expose(store::BufferId id, store::BufferId local, std::span<const std::byte> bytes, std::uint32_t node);
  void withdraw(store::BufferId id, std::uint32_t node);
  void withdraw_all(std::uint32_t node);

  Result<net::PinnedBytes> open(const net::BufferKey& key) override;

 private:
  struct Entry {
    store::BufferId local;
    std::span<const std::byte> bytes;
    std::map<std::uint32_t, int> nodes;
    int in_use = 0;
  };
  struct State {
    State(Loop& l, std::function<void(store::BufferId)> r) : loop(l), released(std::move(r)) {}
    void drop_if_idle(store::BufferId id);  // with the mutex held
    Loop& loop;
    std::function<void(store::BufferId)> released;
    std::mutex mutex;
    std::map<store::BufferId, Entry> entries;
  };
  std::shared_ptr<State> state_;
};

}  // namespace troupe::node
