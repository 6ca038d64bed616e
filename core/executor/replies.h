// Replies: the answers of calls that arrived here, as frames.
//
// Thread rule: lock held.
#pragma once
#include <span>
#include <vector>

#include "core/executor/incoming.h"
#include "core/runtime/context.h"

namespace troupe::worker {

class Owner;

class Replies {
 public:
  Replies(Runtime& runtime, Owner& owner) : runtime_(runtime), owner_(owner) {}

  /// InvalidArgumentError when the values do not fit one message; null else. To be asked before they are sent.
  ErrorPtr too_large(const IncomingCall& call, const CallContext& context, std::span<const detail::Value> values);
  void error(IncomingCall& call, const ErrorPtr& error) { this->error(call, error, 0); }
  /// The actor has ended, and did not begin the call (kNotBegun).
  void not_begun(IncomingCall& call, const ErrorPtr& error) { this->error(call, error, kNotBegun); }
  /// Returns what the frame takes; stream_item too.
  std::size_t values(IncomingCall& call, const std::vector<detail::Value>& values);
  std::size_t stream_item(IncomingCall& call, std::uint64_t index, const detail::Value& item);

 private:
  void error(IncomingCall& call, const ErrorPtr& error, std::uint64_t index);
  Runtime& runtime_;
  Owner& owner_;
};

/// The error of a call with where it happened. Any thread.
ErrorPtr error_in_context(const Runtime& runtime, ErrorRecord record, const IncomingCall& call,
                          const CallContext& context);

}  // namespace troupe::worker
