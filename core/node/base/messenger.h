// Messenger: how the parts of a daemon speak as the daemon itself: notices, requests and their responses.
//
// Thread rule: the loop's thread.
//
// Invariants
//   ML-3  Each request() ends in exactly one call of its function: the response, an error, or the deadline.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/net/base/frame.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"
#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::node {

inline bool is(const net::FrameHeader& header, wire::FrameKind kind) {
  return header.kind == static_cast<std::uint8_t>(kind);
}

class Messenger {
 public:
  using Bytes = std::vector<std::byte>;
  using Done = std::function<void(Result<Bytes>)>;
  virtual ~Messenger() = default;

  /// The daemon's own id.
  virtual ProcessId self() const = 0;
  virtual void send_notice(ProcessId to, wire::Method method, const Bytes& payload) = 0;
  virtual void send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) = 0;
  virtual void send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) = 0;

  template <class M> void notice(ProcessId to, wire::Method method, const M& message) {
    send_notice(to, method, wire::encode_message(message));
  }
  template <class M> void respond(const net::FrameHeader& request, const M& message) {
    send_response(request, false, wire::encode_message(message));
  }
  void fail(const net::FrameHeader& request, const ErrorRecord& error) {
    send_response(request, true, wire::encode_message(error));
  }
  template <class M> void request(ProcessId to, wire::Method method, const M& message, Duration timeout, Done done) {
    send_request(to, method, wire::encode_message(message), timeout, std::move(done));
  }
};

ErrorRecord make_record(ErrorCode code, std::string message);
/// What those who wait for a dead process get.
ErrorRecord death_error(const wire::ProcessDied& death);

}  // namespace troupe::node
