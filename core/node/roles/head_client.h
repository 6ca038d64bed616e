// HeadClient: asks the head of a cluster something, from any machine that has its address and its token: as a tool,
// which is no node, driver or job, and changes nothing there.
//
//   connect() --link open, both sides proven--> ask() ... --destroyed--> the link is closed
//
// Thread rule: one thread at a time; it waits, at most for the timeout given. The transport's threads only hand answers
// over.
//
// Invariants
//   HQ-1  ask() returns the answer, the head's error, GetTimeoutError, or what ended the link; never later than its
//         timeout.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/net/link/link.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"

namespace troupe::node {

class HeadClient final : private net::LinkEvents {
 public:
  struct Options {
    std::string address;           ///< HOST:PORT
    std::string token_file;
    Duration timeout = std::chrono::seconds(5);  ///< of connect and of each question
  };
  /// NotFoundError: nobody serves there; UnauthenticatedError: another cluster's token.
  static Result<std::unique_ptr<HeadClient>> connect(const Options& options);
  ~HeadClient() override;

  template <class Reply, class Question> Result<Reply> ask(wire::Method method, const Question& question) {
    Result<std::vector<std::byte>> bytes = exchange(method, wire::encode_message(question));
    if (!bytes.ok()) return bytes.error_ptr();
    return wire::decode_message<Reply>(*bytes);
  }

 private:
  explicit HeadClient(Options options) : options_(std::move(options)) {}
  Result<std::vector<std::byte>> exchange(wire::Method method, const std::vector<std::byte>& question);
  void on_open(net::LinkId, const net::LinkPeer&) override {}
  void on_batch(net::LinkId link, ByteView frames) override;
  void on_closed(net::LinkId link, const Status& why) override;

  const Options options_;
  net::LinkId link_ = 0;
  std::uint64_t last_token_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Result<std::vector<std::byte>>> answers_;  // under mutex_
  ErrorPtr ended_;                                                  // under mutex_
  std::unique_ptr<net::Links> links_;                               // last: its threads end before what they use
};

}  // namespace troupe::node
