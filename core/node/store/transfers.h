// Transfers: brings the bytes of remote buffers into this node's store, as TransferPlan decides: asks daemons by mail,
// draws by data sockets, keeps the time: also that of the plan's pauses.
//
// Thread rule: the loop's thread.
//
// Invariants
//   TF-1  done is called once for each fetch, at its deadline at the latest: kFetchWait, and longer for what cannot
//         come in that time at kSlowestBytesPerSecond. Nobody writes to `to` afterwards.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/net/data/data_socket.h"
#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/store/transfer_plan.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::node {

inline constexpr Duration kAnswerPatience = std::chrono::seconds(2), kFetchWait = std::chrono::seconds(60);
inline constexpr std::uint64_t kSlowestBytesPerSecond = 10 << 20;

class Transfers {
 public:
  struct Surroundings {
    std::function<std::vector<std::uint32_t>()> others;               ///< nodes with a link, by number
    std::function<std::string(std::uint32_t node)> data_address;
  };
  using Done = std::function<void(Status)>;

  Transfers(Loop& loop, Messenger& mail, net::DataClient& client, Surroundings surroundings)
      : loop_(loop), mail_(mail), client_(client), surroundings_(std::move(surroundings)) {}

  void fetch(store::BufferId remote, std::span<std::byte> to, Done done);

 private:
  struct Transfer {
    TransferPlan plan;
    store::BufferId remote;
    std::span<std::byte> to;
    Loop::TimePoint deadline;
    Loop::TimerId timer;
    bool drawing = false;          ///< the data client may still write to `to`
    bool complained = false;       ///< that a draw failed; it is tried again until the deadline, whose error says more
    std::optional<Status> result;  ///< reached while drawing: told when the data client has let go (TF-1)
    Done done;
  };
  void perform(std::uint64_t id, const TransferPlan::Actions& actions);
  void ask(std::uint64_t id, const Transfer& transfer, std::uint32_t node);
  void draw(std::uint64_t id, Transfer& transfer, std::uint32_t node);
  void pause(std::uint64_t id, Duration span);
  void finish(std::uint64_t id, const Status& status);
  wire::StoreHoldRequest hold_of(const Transfer& transfer) const;

  Loop& loop_;
  Messenger& mail_;
  net::DataClient& client_;
  Surroundings surroundings_;
  std::unordered_map<std::uint64_t, Transfer> open_;
  std::uint64_t last_ = 0;
};

}  // namespace troupe::node
