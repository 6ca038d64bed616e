// libtroupe_rpc: the gRPC side of net/link/abi.h; this folder is the only one of Troupe that includes gRPC.
//
// Sockets come connected and proven from outside (net/base/socket.h, proof.h), for gRPC 1.51's own listener stops
// accepting for good after one EMFILE, shares its port unless told not to, and cannot cap connections; and its client
// would share subchannels between links and resolve names in threads of its own. Each socket carries one stream
// (streams.h).
#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "core/rpc/streams.h"

namespace troupe::rpc {
namespace {

constexpr int kLookahead =
    4 << 20;  // bytes under way per stream: several batches, so that a link is not bound by round trips

/// The same arguments for both sides; a server that does not know of the client's pings would hang up on them.
template <class Set>
void set_arguments(const abi::Settings& settings, const Set& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, settings.keep_alive_time_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, settings.keep_alive_timeout_ms);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, std::max(1, settings.keep_alive_time_ms / 4));
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, int(settings.message_bytes_max));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, int(settings.message_bytes_max));
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookahead);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  set(GRPC_ARG_MAX_METADATA_SIZE, 8 * 1024);
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

/// Keeps gRPC and its callback threads from shutting down while the process lives. The last channel is released by one
/// of these threads: it would join itself, or sit for seconds in gRPC's shutdown with the lock held that the next
/// grpc_init needs (both seen). One idle server without a port holds a reference on both; never destroyed, as the
/// library is never closed.
void keep_grpc_alive() {
  static grpc::Server* const keeper = [] {
    grpc_init();
    static auto* const service = new grpc::CallbackGenericService;
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(service);
    return builder.BuildAndStart().release();
  }();
  static_cast<void>(keeper);
}

class GrpcTransport final : public abi::Transport {
 public:
  explicit GrpcTransport(const abi::Settings& settings)
      : settings_(settings), service_(make_link_service(*settings.acceptor, census_)) {
    keep_grpc_alive();
    set_arguments(settings_, [this](const char* name, int value) { client_arguments_.SetInt(name, value); });
  }
  ~GrpcTransport() override { shutdown(); }

  void adopt(int descriptor) override {
    std::lock_guard lock(mutex_);
    if (stopped_) {
      ::close(descriptor);
      return;
    }
    if (!server_) start_server();
    grpc::AddInsecureChannelFromFd(server_.get(), descriptor);
  }

  std::shared_ptr<abi::Stream> dial(int descriptor, const abi::Hello& hello,
                                    std::shared_ptr<abi::Owner> owner) override {
    auto channel = grpc::CreateCustomInsecureChannelFromFd("troupe", descriptor, client_arguments_);
    std::lock_guard lock(mutex_);
    auto stream = open_client_stream(std::move(channel), std::move(owner), census_, hello);
    if (stopped_) stream->cancel();
    return stream;
  }

  void shutdown() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    census_.wait_for_none();
    server_.reset();
  }

 private:
  // Only on the first connection: a process that nobody connects to needs no server.
  void start_server() {
    grpc::ServerBuilder builder;
    set_arguments(settings_, [&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }

  const abi::Settings settings_;
  Census census_;
  const std::unique_ptr<grpc::Service> service_;
  grpc::ChannelArguments client_arguments_;
  std::mutex mutex_;
  bool stopped_ = false;  // under mutex_
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace
}  // namespace troupe::rpc

extern "C" __attribute__((visibility("default"))) troupe::net::abi::Transport* troupe_rpc_open(
    std::uint32_t abi, const troupe::net::abi::Settings* settings) {
  if (abi != troupe::net::abi::kLinkAbi) return nullptr;
  return new troupe::rpc::GrpcTransport(*settings);
}
