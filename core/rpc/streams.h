// The two ends of a link's stream, as gRPC reactors: what transport.cc makes of a socket.
//
//   server stream   READING HELLO -> GREETING (our hello is written) -> OPEN -> FINISHED -> done
//   client stream   GREETING (both hellos under way) -> OPEN -> ENDING (reads are over) -> done
//
// Thread rule: gRPC calls the reactors' On... functions, for one stream one at a time except OnCancel and OnWriteDone;
// what other threads call too is guarded by the stream's mutex. No callback blocks.
#pragma once
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "core/net/link/abi.h"

namespace troupe::rpc {

namespace abi = net::abi;

/// Counts the streams that are not done yet; shutdown waits for zero.
class Census {
 public:
  void enter() {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [this] { return count_ == 0; });  // cancelled streams end without the peer's help
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_ = 0;
};

/// The service whose every call is a server stream. Acceptor and census outlive it.
std::unique_ptr<grpc::Service> make_link_service(abi::Acceptor& acceptor, Census& census);

/// A client stream on the channel, under way when this returns; it keeps itself until it is done.
std::shared_ptr<abi::Stream> open_client_stream(std::shared_ptr<grpc::Channel> channel,
                                                std::shared_ptr<abi::Owner> owner, Census& census,
                                                const abi::Hello& hello);

}  // namespace troupe::rpc
