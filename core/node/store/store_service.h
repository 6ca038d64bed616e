// StoreService: the StoreServer behind messages. Requests of local clients, holds of other nodes' processes, copies of
// remote buffers; pages of the arena are made by a PageThread.
//
// Thread rule: the loop's thread.
//
// Invariants
//   SV-1  Each request is answered once: by the grant or an error, also one that is withdrawn; never when its client
//         dies first, and nothing of it is kept then. What is withdrawn is granted to nobody.
//   SV-2  One transfer at a time for one remote buffer; all who ask meanwhile share it.
//   SV-3  A copy handed to a client is held for it until it says kStoreUnhold, dies, or kCopyHold has passed: time to
//         pin it.
//   SV-4  Copies of a dead node's buffers are kept for kCopyHold: time for the processes that refer to one, which hear
//         of the death now, to pin it. Then they go with their last pin.
//   SV-5  A daemon that asks for a buffer of another node gets this node's copy of it, if there is one, by the same
//         name.
//   SV-6  A reader waits for room until kStoreWait has passed since it asked, or since an earlier one did that waits
//         for the same copy: also where the copy was begun for the keeper, which gives up after kKeepWait.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/store/page_thread.h"
#include "objectstore/server/server.h"

namespace troupe::node {

inline constexpr Duration kStoreWait = std::chrono::seconds(60), kCopyHold = std::chrono::seconds(10);
inline constexpr Duration kSaysWhyAfter = std::chrono::seconds(5);  ///< a copy that waits for room
/// What is kept for actors waits so long for room: it must not hold up those who need memory to go on.
inline constexpr Duration kKeepWait = std::chrono::seconds(2);
inline constexpr std::uint64_t kPopulateAhead = 64 << 20;

/// Brings the bytes of a remote buffer into `to`. done runs on the loop's thread, exactly once.
using FetchFunction =
    std::function<void(store::BufferId remote, std::span<std::byte> to, std::function<void(Status)> done)>;

class StoreService {
 public:
  struct Options {
    std::uint32_t node = 1;
    std::uint64_t capacity = 0;
    store::MakePages make_pages = store::make_pages_of_file;  ///< tests make it slow
  };
  static Result<std::unique_ptr<StoreService>> create(Loop& loop, Messenger& mail, Options options);

  ~StoreService();
  store::StoreServer& server() { return *server_; }
  /// Holds of other daemons are offered there to the data server.
  void set_exports(class Exports* exports) { exports_ = exports; }
  /// Nobody fetches this buffer of our store from there any more.
  void unexport(store::BufferId local);
  void set_fetch(FetchFunction fetch) { fetch_ = std::move(fetch); }

  // ---- messages
  void lease(const net::FrameHeader& request, const wire::StoreLeaseRequest& wanted);
  void allocate(const net::FrameHeader& request, const wire::StoreAllocateRequest& wanted);
  /// Nobody waits for this lease or buffer any more (SV-1).
  void withdraw(ProcessId client, const wire::StoreWithdraw& withdrawn);
  void free(ProcessId client, const wire::StoreFree& freed);
  void fetch(const net::FrameHeader& request, const wire::StoreFetchRequest& wanted);
  void hold(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void unhold(const wire::StoreHoldRequest& wanted);
  wire::StoreUsageReply usage() const;
  /// Requests for memory that are not answered.
  std::size_t open_requests() const { return requests_.size(); }
  void copies_void(const wire::StoreHoldRequest& freed);

  // ---- for the keeper
  using Brought = std::function<void(Result<store::BufferId>)>;
  /// A copy of another node's buffer, to be held in the turn in which it is told.
  void bring(const wire::BufferDesc& buffer, Brought done);
  bool hold_for(ProcessId holder, store::BufferId id) { return server_->hold(holder, id); }
  void release_for(ProcessId holder, store::BufferId id);

  // ---- life and death
  void client_closing(ProcessId client);
  void client_died(ProcessId client);
  void holder_gone(ProcessId holder);
  void node_gone(std::uint32_t node);
  /// Nodes to tell about freed exports.
  void set_neighbours(std::function<std::vector<std::uint32_t>()> neighbours) { neighbours_ = std::move(neighbours); }

 private:
  struct HandOut { ProcessId client; Loop::TimerId expiry; };
  struct Copying {
    std::vector<net::FrameHeader> waiting = {};
    std::uint64_t size = 0;
    bool has_room = false;
    std::vector<Brought> brought = {};
    bool room_for_keeper = false;       ///< the store was asked for room with the keeper's deadline
    Loop::TimePoint readers_until = {};  ///< then: how long the readers that joined wait for it (SV-6)
  };
  StoreService(Loop& loop, Messenger& mail, std::unique_ptr<store::StoreServer> server);
  void start_pages();
  void offer(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void apply();
  void perform(const store::LeaseGranted& effect);
  void perform(const store::BufferGranted& effect);
  void perform(const store::RequestFailed& effect);
  void perform(const store::CopyGranted& effect);
  void perform(const store::CopyFailed& effect);
  void perform(const store::ExportedFreed& effect);
  void perform(const store::TrimAsked& effect);
  void perform(const store::PagesWanted& effect);
  void perform(const store::PagesUnwanted& effect);
  std::optional<net::FrameHeader> take_request(store::Token token);
  void say_why_it_waits(store::BufferId remote);
  void start_fetch(store::BufferId remote, std::span<std::byte> bytes);
  void fetched(store::BufferId remote, const Status& status);
  void hand_out(const net::FrameHeader& request, store::BufferId local, std::uint64_t size);
  bool end_hand_out(ProcessId client, store::BufferId local);
  void fail_copy(store::BufferId remote, const Error& error);
  void no_room(store::BufferId remote, const Error& error);
  void finish_waiting(const Copying& copying, store::BufferId local);
  void plan_expiry();
  void plan_populate();

  Loop& loop_;
  Messenger& mail_;
  std::unique_ptr<store::StoreServer> server_;
  FetchFunction fetch_;
  class Exports* exports_ = nullptr;
  std::function<std::vector<std::uint32_t>()> neighbours_;
  std::unordered_map<store::Token, net::FrameHeader> requests_;
  std::unordered_map<store::BufferId, Copying, store::BufferIdHash> copying_;
  std::unordered_multimap<store::BufferId, HandOut, store::BufferIdHash> handed_out_;  // SV-3
  std::vector<wire::BufferDesc> freed_exports_;
  std::optional<Loop::TimerId> expiry_;
  store::Token next_token_ = 1;
  bool populating_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);  ///< outlived by work that threads have posted
  std::unique_ptr<PageThread> pages_;                                 ///< last: it ends before the server does
};

}  // namespace troupe::node
