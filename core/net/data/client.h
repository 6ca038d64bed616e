// The inside of DataClient: a fetch in parts, and the connection that carries one part at a time.
//
// Thread rule: a ClientConnection and its Part belong to one SocketLoop. FetchState is shared by the parts of one
// fetch.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/net/data/data_socket.h"
#include "core/net/data/codec.h"
#include "core/net/base/loop.h"
#include "core/net/base/proof.h"
#include "core/net/base/socket.h"

namespace troupe::net {

struct DataClientCounters {
  std::atomic<std::uint64_t> connections_made{0}, fetches{0}, bytes_received{0}, checksum_failures{0};
};

/// One fetch. NDS-2: `done` runs when the last part has ended, with the first error.
class FetchState {
 public:
  FetchState(Fetch fetch, SocketAddress address, int parts, DoneFunction done)
      : fetch(std::move(fetch)), address(address), parts_left_(parts), done_(std::move(done)) {}

  /// The first error wins; others see failed() and give up.
  void part_ended(const Status& status) {
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = status.error_ptr();
      failed_.store(true, std::memory_order_relaxed);
    }
    if (parts_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    done_(error_ ? Status(error_) : Status());
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  const Fetch fetch;
  const SocketAddress address;

 private:
  std::atomic<int> parts_left_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  ErrorPtr error_;
  DoneFunction done_;
};

struct Part {
  std::shared_ptr<FetchState> state;
  std::size_t offset = 0, length = 0;
  SocketLoop::TimerId deadline{}, stall{};
};

//              TCP is up             both proofs right           assign()
//   CONNECTING ----------> PROVING ---------------> IDLE ---------------------> REPLY --> CHUNK --+
//                                                     ^      DataReply with error |                |
//                                                     +---------------------------+----------------+ all bytes are
//                                                     there
//   Anything wrong, a hang-up, a deadline, or too long IDLE: on_broken; the connection is destroyed.
class ClientConnection {
 public:
  struct Hooks {
    std::function<void(ClientConnection&)> on_idle;                       ///< ready for a part; does not destroy it
    std::function<void(ClientConnection&, const ErrorPtr&)> on_broken;    ///< to be destroyed by the callee
    std::uint64_t* progress = nullptr;                                    ///< raised when it is up and with each chunk
    Duration idle_max{};                                                  ///< so long IDLE: on_broken (NDS-6)
  };
  ClientConnection(SocketLoop& loop, const ProofSelf& self, DataClientCounters& counters, Hooks hooks);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  /// Begins; hooks follow from the loop, never from within this call.
  ErrorPtr begin(const SocketAddress& address, const std::string& place);
  bool idle() const { return state_ == State::kIdle; }
  bool established() const { return established_; }
  /// Only when idle. The part stays the connection's until take_part().
  void assign(std::unique_ptr<Part> part);
  Part* part() { return part_.get(); }
  std::unique_ptr<Part> take_part() { return std::move(part_); }
  /// Has a reply that fits the present part arrived? Did the connection carry another part before?
  bool reply_begun() const { return reply_begun_; }
  bool reused() const { return parts_done_ != 0; }

 private:
  enum class State { kConnecting, kProving, kIdle, kReply, kMessage, kChunk, kBytes };
  enum class Progress { kAgain, kWait, kOver };

  void on_event();
  void wait_for_a_part();
  void connected();
  Progress read_some();
  Progress take();
  Progress take_proof();
  Progress take_reply();
  Progress take_message();
  Progress take_chunk();
  Progress take_bytes();
  Progress part_done();
  Progress broken(ErrorPtr why);
  Progress hung_up(int error);
  void want(State state, std::size_t bytes);
  bool send_all(ByteView bytes);

  SocketLoop& loop_;
  const ProofSelf& self_;
  DataClientCounters& counters_;
  Hooks hooks_;
  std::string place_;
  UniqueFd socket_;
  State state_ = State::kConnecting;
  std::optional<ProofExchange> proof_;
  std::unique_ptr<Part> part_;
  std::uint64_t request_id_ = 0, parts_done_ = 0;
  SocketLoop::TimerId idle_end_{};
  bool reply_begun_ = false, established_ = false;
  DataReply reply_;
  ErrorPtr broken_;
  // reading: a header into head_, or the bytes of a chunk into their place and, in the same call, the next header
  std::vector<std::byte> head_;
  std::size_t head_wanted_ = 0, head_have_ = 0;
  DataChunk chunk_;
  std::span<std::byte> bytes_;      // of the chunk, where they shall lie
  std::size_t bytes_have_ = 0;
  std::size_t received_ = 0;        // of the part, verified
};

}  // namespace troupe::net
