// A process as the daemon sees it: Hello, Welcome, rings. Both the test (as driver) and the test's worker program use
// it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/net/endpoint/endpoint.h"
#include "core/boot/boot_socket.h"
#include "core/node/roles/roles.h"

namespace troupe::node::test {

struct Frame {
  net::FrameHeader header;
  std::vector<std::byte> payload;
  bool is(wire::FrameKind kind) const { return header.kind == static_cast<std::uint8_t>(kind); }
  bool is_notice(wire::Method method) const {
    return is(wire::FrameKind::kNotice) && header.arg0 == static_cast<std::uint64_t>(method);
  }
  std::string text() const { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }
  template <class M> M as() const { return wire::decode_message<M>(payload).value(); }
};

class Client : private net::Handler {
 public:
  /// The handshake; throws what refuses it.
  Client(UniqueFd socket, wire::Hello hello);
  static std::unique_ptr<Client> driver(const std::string& socket_path);

  const wire::Welcome& welcome() const { return welcome_; }
  ProcessId self() const { return welcome_.self; }
  ProcessId daemon() const { return {self().node, 0}; }

  /// Runs until it is true; false when the time is over or the daemon is gone.
  bool until(const std::function<bool()>& done, Duration limit = std::chrono::seconds(40));
  bool daemon_gone() const { return daemon_gone_; }

  void send(ProcessId to, net::FrameHeader header, ByteView payload = {});
  template <class M> void notice(ProcessId to, wire::Method method, const M& m) {
    send(to, header_of(wire::FrameKind::kNotice, 0, static_cast<std::uint64_t>(method)), wire::encode_message(m));
  }
  /// A request to whom it may concern, answered or GetTimeoutError.
  template <class Reply, class M> Result<Reply> request(ProcessId to, wire::Method method, const M& m) {
    const std::uint64_t token = next_token_++;
    send(to, header_of(wire::FrameKind::kRequest, token, static_cast<std::uint64_t>(method)), wire::encode_message(m));
    Frame answer;
    if (!take([&](const Frame& f) { return f.is(wire::FrameKind::kResponse) && f.header.token == token; }, answer))
      return make_error<GetTimeoutError>("no answer");
    if (answer.header.arg0 != 0) return Error::make(answer.as<ErrorRecord>());
    return wire::decode_message<Reply>(answer.payload);
  }
  /// Takes the first frame of that kind out of what came, or waits for it.
  bool take(const std::function<bool(const Frame&)>& which, Frame& frame, Duration limit = std::chrono::seconds(40));
  bool take_notice(wire::Method method, Frame& frame, Duration limit = std::chrono::seconds(40)) {
    return take([&](const Frame& f) { return f.is_notice(method); }, frame, limit);
  }
  /// A pair with another process of this node.
  Status connect(ProcessId peer);
  /// Sends a call to a test worker and waits for its reply.
  Result<std::string> call(ProcessId worker, const std::string& command);
  wire::LeaseGranted lease(std::uint64_t request_id = 1, RuntimeEnv env = {});

  net::Endpoint& endpoint() { return *endpoint_; }
  std::function<bool(const Frame&)> on_frame;  ///< true: taken
  static net::FrameHeader header_of(wire::FrameKind kind, std::uint64_t token, std::uint64_t arg0);

 private:
  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override;
  void on_broken(ProcessId, const ErrorPtr&) override {}
  void take_packet();

  UniqueFd socket_;
  std::unique_ptr<net::Endpoint> endpoint_;
  wire::Welcome welcome_;
  std::vector<UniqueFd> store_fds_;
  std::vector<Frame> inbox_;
  bool daemon_gone_ = false;
  std::uint64_t next_token_ = 1;
};

/// The worker program: answers calls "echo X", "pid", "env X", "cwd", "print X", "exit N", "abort", "stray" (leaves a
/// grandchild in a session of its own and answers its pid), "sleep [FILE]" (makes that file when it has begun).
int worker_program(WorkerBoot boot);
extern const char kDigest[];

}  // namespace troupe::node::test
