// Requests: questions to daemons and the head, and their answers.
//
// Invariants
//   RQ-1  Every request ends once: with its answer, with its deadline (call), or with the death of whom it went to,
//         also when that was known before it was sent.
// Thread rule: lock held, but for call, which waits and must not hold it.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/ids.h"
#include "core/exec/waiter.h"
#include "core/net/base/frame.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"
#include "core/runtime/core_lock.h"
#include <troupe/result.h>

namespace troupe::worker {

class Runtime;

class Requests {
 public:
  explicit Requests(Runtime& runtime) : runtime_(runtime) {}

  /// Asks; `done` is called under the lock, on the thread that drains; or at once, when the
  /// request fails already: 0 then, else its token.
  template <class Reply, class M>
  std::uint64_t send(ProcessId to, wire::Method method, const M& message, std::function<void(Result<Reply>)> done) {
    return send_bytes(to, method, wire::encode_message(message), [done = std::move(done)](Result<ByteView> bytes) {
      if (!bytes.ok()) return done(bytes.error_ptr());
      done(wire::decode_message<Reply>(*bytes));
    });
  }
  /// Asks and waits, as a thread or a fiber. GetTimeoutError when no answer comes in time.
  template <class Reply, class M>
  Result<Reply> call(ProcessId to, wire::Method method, const M& message, Duration timeout = std::chrono::seconds(30)) {
    auto shared = std::make_shared<Pending<Reply>>();
    exec::Waiter waiter(blocker());
    {
      CoreLock lock(mutex());
      shared->waiter = &waiter;
      send<Reply>(to, method, message, [shared](Result<Reply> reply) {
        shared->reply.emplace(std::move(reply));
        if (shared->waiter) shared->waiter->notify();
      });
    }
    waiter.wait(exec::deadline_after(timeout));
    CoreLock lock(mutex());
    shared->waiter = nullptr;
    if (!shared->reply) return no_answer(to, method, timeout);
    return std::move(*shared->reply);
  }

  void on_response(const net::FrameHeader& header, ByteView payload);
  void fail_all(const std::function<bool(ProcessId)>& to, const ErrorPtr& error);
  std::size_t open() const { return open_.size(); }

 private:
  template <class Reply> struct Pending {
    std::optional<Result<Reply>> reply;
    exec::Waiter* waiter = nullptr;
  };
  struct Open { ProcessId to; std::function<void(Result<ByteView>)> done; };

  std::uint64_t send_bytes(ProcessId to, wire::Method method, const std::vector<std::byte>& bytes,
                           std::function<void(Result<ByteView>)> done);
  exec::ThreadBlocker& blocker();
  StateMutex& mutex();
  static ErrorPtr no_answer(ProcessId to, wire::Method method, Duration timeout);

  Runtime& runtime_;
  std::uint64_t last_ = 0;
  boost::unordered_flat_map<std::uint64_t, Open> open_;
};

}  // namespace troupe::worker
