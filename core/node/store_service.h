// StoreService: the StoreServer behind messages. Requests of local clients, holds of other nodes' processes, copies of remote
// buffers, and a background thread that touches fresh memory ahead of need.
//
// Thread rule: the loop's thread. The populate thread touches the arena only.
//
// Invariants
//   SV-1  Each request is answered once: by the grant, an error, or never when its client dies.
//   SV-2  One transfer at a time for one remote buffer; all who ask meanwhile share it.
//   SV-3  A copy handed to a client is held for it until it says kStoreUnhold, dies, or kCopyHold has passed: time to pin it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/node/loop.h"
#include "core/node/mail.h"
#include "objectstore/server.h"

namespace troupe::node {

inline constexpr Duration kStoreWait = std::chrono::seconds(60), kCopyHold = std::chrono::seconds(10);
inline constexpr std::uint64_t kPopulateAhead = 64 << 20;

/// Brings the bytes of a remote buffer into `to`. done runs on the loop's thread, exactly once.
using FetchFunction = std::function<void(store::BufferId remote, std::span<std::byte> to, std::function<void(Status)> done)>;

class StoreService {
 public:
  struct Options { std::uint32_t node = 1; std::uint64_t capacity = 0; };
  static Result<std::unique_ptr<StoreService>> create(Loop& loop, Mail& mail, Options options);
  ~StoreService();

  store::StoreServer& server() { return *server_; }
  /// Holds of other daemons are offered there to the data server.
  void set_exports(class Exports* exports) { exports_ = exports; }
  void unexport(store::BufferId id);
  void set_fetch(FetchFunction fetch) { fetch_ = std::move(fetch); }

  // ---- messages
  void lease(const net::FrameHeader& request, const wire::StoreLeaseRequest& wanted);
  void allocate(const net::FrameHeader& request, const wire::StoreAllocateRequest& wanted);
  void free(ProcessId client, const wire::StoreFree& freed);
  void fetch(const net::FrameHeader& request, const wire::StoreFetchRequest& wanted);
  void hold(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void unhold(const wire::StoreHoldRequest& wanted);
  void usage(const net::FrameHeader& request);
  void copies_void(const wire::StoreHoldRequest& freed);

  // ---- life and death
  void client_closing(ProcessId client);
  void client_died(ProcessId client);
  void holder_gone(ProcessId holder);
  void node_gone(std::uint32_t node);
  /// Nodes to tell about freed exports.
  void set_neighbours(std::function<std::vector<std::uint32_t>()> neighbours) { neighbours_ = std::move(neighbours); }

 private:
  struct HandOut { ProcessId client; Loop::TimerId expiry; };
  struct Copying { std::vector<net::FrameHeader> waiting; std::uint64_t size = 0; };
  StoreService(Loop& loop, Mail& mail, std::unique_ptr<store::StoreServer> server);
  void offer(const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void apply();
  void perform(const store::LeaseGranted& effect);
  void perform(const store::BufferGranted& effect);
  void perform(const store::RequestFailed& effect);
  void perform(const store::CopyGranted& effect);
  void perform(const store::CopyFailed& effect);
  void perform(const store::CopyEvicted&) {}
  void perform(const store::ExportedFreed& effect);
  void perform(const store::TrimAsked& effect);
  std::optional<net::FrameHeader> take_request(store::Token token);
  void start_fetch(store::BufferId remote, std::span<std::byte> bytes);
  void fetched(store::BufferId remote, const Status& status);
  void hand_out(const net::FrameHeader& request, store::BufferId local, std::uint64_t size);
  bool end_hand_out(ProcessId client, store::BufferId local);
  void fail_copy(store::BufferId remote, const Error& error);
  void plan_expiry();
  void plan_populate();
  void populate_loop();

  Loop& loop_;
  Mail& mail_;
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

  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<store::Range> to_populate_;  // under mutex_
  bool populating_ = false;                  // loop thread only
  std::atomic<bool> stop_{false};
  std::thread populate_thread_;
};

}  // namespace troupe::node
