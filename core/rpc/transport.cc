// libtroupe_rpc: the gRPC side of net/link_abi.h, and the only file of Troupe that includes gRPC.
//
// Sockets come connected from outside (net/link_socket.h), for gRPC 1.51's own listener stops accepting for good after one
// EMFILE, shares its port unless told not to, and cannot cap connections; and its client would share subchannels between
// links and resolve names in threads of its own. Each socket carries one stream.
//
//   server stream   READING HELLO -> GREETING (our hello is written) -> OPEN -> FINISHED -> done
//   client stream   GREETING (both hellos under way) -> OPEN -> ENDING (reads are over) -> done
//
// Thread rule: gRPC calls the reactors' On... functions, for one stream one at a time except OnCancel and OnWriteDone; what
// other threads call too is guarded by the stream's mutex. No callback blocks.
#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <mutex>

#include "core/net/link_abi.h"
#include "core/wire/proto/link_convert.h"
#include "link.grpc.pb.h"

namespace troupe::rpc {
namespace {

namespace abi = net::abi;
using wire::proto::LinkService;
using wire::proto::Packet;

constexpr const char* kAuthorization = "authorization";
constexpr int kLookahead = 4 << 20;  // bytes under way per stream: several batches, so that a link is not bound by round trips

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

/// "fd:12" of a connection that was given as a descriptor.
int descriptor_of(const std::string& peer) {
  int fd = -1;
  const auto colon = peer.rfind(':');
  if (colon != std::string::npos) std::from_chars(peer.data() + colon + 1, peer.data() + peer.size(), fd);
  return peer.starts_with("fd:") ? fd : -1;
}

// ---------------------------------------------------------------------------------------------------------- server stream

class ServerStream final : public grpc::ServerBidiReactor<Packet, Packet>, public abi::Stream, public std::enable_shared_from_this<ServerStream> {
 public:
  ServerStream(grpc::CallbackServerContext* context, abi::Acceptor& acceptor, Census& census)
      : context_(context), acceptor_(acceptor), census_(census) { census_.enter(); }

  void begin() {
    self_ = shared_from_this();
    const auto& metadata = context_->client_metadata();
    // Two values of the same key are ambiguous: refused like none.
    std::string refusal = "no token in the metadata 'authorization'";
    if (metadata.count(kAuthorization) == 1) {
      const auto value = metadata.find(kAuthorization)->second;
      refusal = acceptor_.judge_credential({value.data(), value.size()});
    }
    if (!refusal.empty()) return finish_with({grpc::StatusCode::UNAUTHENTICATED, refusal});
    StartRead(&in_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return end();
    if (!owner_) return read_hello();
    owner_->received(in_.frames());
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    bool ending = false;
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      ending = ending_;
    }
    if (!ok || ending) return end();
    if (owner_) return owner_->written(std::move(*out_.mutable_frames()));
    auto owner = acceptor_.incoming(shared_from_this(), descriptor_of(context_->peer()));
    if (!owner) return finish_with({grpc::StatusCode::UNAVAILABLE, "shutting down"});
    out_.Clear();
    owner_ = std::move(owner);
    owner_->opened(peer_hello_);
    StartRead(&in_);
  }

  void OnCancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }

  void OnDone() override {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    if (owner_) {
      const bool orderly = finish_asked_ || !cancelled_;
      owner_->closed(orderly ? abi::Ending::kOrderly : abi::Ending::kBroken, "the connection broke or went silent");
      owner_.reset();
    }
    census_.leave();
    auto last = std::move(self_);  // may destroy this
  }

  void write(std::string frames) override {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    writing_ = true;
    out_.set_frames(std::move(frames));
    StartWrite(&out_);
  }

  void finish() override {
    {
      std::lock_guard lock(mutex_);
      finish_asked_ = true;
    }
    end();
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    if (!done_) context_->TryCancel();
  }

 private:
  void read_hello() {
    std::string refusal = "the first message is not a hello";
    if (in_.has_hello()) {
      refusal = wire::from_proto(in_.hello(), peer_hello_) ? acceptor_.judge(peer_hello_) : "a field of the hello is too long";
    }
    if (!refusal.empty()) return finish_with({grpc::StatusCode::UNAUTHENTICATED, refusal});
    wire::to_proto(acceptor_.own_hello(), *out_.mutable_hello());
    std::lock_guard lock(mutex_);
    if (finished_) return;
    writing_ = true;
    StartWrite(&out_);
  }

  /// Ends the stream as soon as no write is under way.
  void end() { finish_with(grpc::Status::OK); }
  void finish_with(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    ending_ = true;
    if (writing_) return;
    finished_ = true;
    Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  abi::Acceptor& acceptor_;
  Census& census_;
  std::shared_ptr<ServerStream> self_;
  std::shared_ptr<abi::Owner> owner_;
  abi::Hello peer_hello_;
  Packet in_, out_;
  std::mutex mutex_;
  bool writing_ = false, ending_ = false, finished_ = false, done_ = false;  // under mutex_
  bool cancelled_ = false, finish_asked_ = false;                            // under mutex_
};

class Service final : public LinkService::CallbackService {
 public:
  Service(abi::Acceptor& acceptor, Census& census) : acceptor_(acceptor), census_(census) {}
  grpc::ServerBidiReactor<Packet, Packet>* Open(grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<ServerStream>(context, acceptor_, census_);
    stream->begin();
    return stream.get();  // kept by itself until OnDone
  }

 private:
  abi::Acceptor& acceptor_;
  Census& census_;
};

// ---------------------------------------------------------------------------------------------------------- client stream

class ClientStream final : public grpc::ClientBidiReactor<Packet, Packet>, public abi::Stream, public std::enable_shared_from_this<ClientStream> {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<abi::Owner> owner, Census& census)
      : channel_(std::move(channel)), stub_(LinkService::NewStub(channel_)), owner_(std::move(owner)), census_(census) { census_.enter(); }

  void begin(const std::string& credential, const abi::Hello& hello) {
    self_ = shared_from_this();
    context_.AddMetadata(kAuthorization, credential);
    wire::to_proto(hello, *out_.mutable_hello());
    stub_->async()->Open(&context_, this);
    AddHold();  // writes begin outside of the reactor's functions
    StartWrite(&out_);
    StartRead(&in_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return stop_writing();
    if (!opened_) return read_hello();
    owner_->received(in_.frames());
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return;  // the reads end too, and tell
    if (opened_) return owner_->written(std::move(*out_.mutable_frames()));
    bool both = false;
    {
      std::lock_guard lock(mutex_);
      hello_written_ = true;
      both = hello_read_;
    }
    if (both) open();
  }

  void OnDone(const grpc::Status& status) override {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    auto ending = abi::Ending::kBroken;
    if (!refusal_.empty() || status.error_code() == grpc::StatusCode::UNAUTHENTICATED) ending = abi::Ending::kRefused;
    else if (status.ok() && opened_) ending = abi::Ending::kOrderly;
    owner_->closed(ending, refusal_.empty() ? status.error_message() : refusal_);
    owner_.reset();
    census_.leave();
    auto last = std::move(self_);  // may destroy this
  }

  void write(std::string frames) override {
    std::lock_guard lock(mutex_);
    if (reads_over_) return;
    out_.set_frames(std::move(frames));
    StartWrite(&out_);
  }

  void finish() override {
    std::lock_guard lock(mutex_);
    if (!reads_over_) StartWritesDone();
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    if (!done_) context_.TryCancel();
  }

 private:
  void read_hello() {
    abi::Hello hello;
    std::string refusal = "the peer's first message is not a hello";
    if (in_.has_hello()) refusal = wire::from_proto(in_.hello(), hello) ? owner_->judge(hello) : "a field of the peer's hello is too long";
    if (!refusal.empty()) {
      refusal_ = std::move(refusal);
      context_.TryCancel();
      return stop_writing();
    }
    peer_hello_ = std::move(hello);
    bool both = false;
    {
      std::lock_guard lock(mutex_);
      hello_read_ = true;
      both = hello_written_;
    }
    if (both) open();
  }

  // Called once, by whichever of the two callbacks comes second; the next read begins here.
  void open() {
    out_.Clear();
    opened_ = true;
    owner_->opened(peer_hello_);
    StartRead(&in_);
  }

  void stop_writing() {
    {
      std::lock_guard lock(mutex_);
      if (reads_over_) return;
      reads_over_ = true;
    }
    RemoveHold();
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<LinkService::Stub> stub_;
  std::shared_ptr<abi::Owner> owner_;
  Census& census_;
  grpc::ClientContext context_;
  std::shared_ptr<ClientStream> self_;
  Packet in_, out_;
  abi::Hello peer_hello_;
  std::string refusal_;
  std::mutex mutex_;
  bool hello_written_ = false, hello_read_ = false, reads_over_ = false, done_ = false;  // under mutex_
  std::atomic<bool> opened_{false};
};

// -------------------------------------------------------------------------------------------------------------- transport

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

/// Keeps gRPC and its callback threads from shutting down while the process lives. The last channel is released by one of
/// these threads: it would join itself, or sit for seconds in gRPC's shutdown with the lock held that the next grpc_init
/// needs (both seen). One idle server without a port holds a reference on both; never destroyed, as the library is never closed.
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
  explicit GrpcTransport(const abi::Settings& settings) : settings_(settings), service_(*settings.acceptor, census_) {
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

  std::shared_ptr<abi::Stream> dial(int descriptor, const std::string& credential, const abi::Hello& hello,
                                    std::shared_ptr<abi::Owner> owner) override {
    auto channel = grpc::CreateCustomInsecureChannelFromFd("troupe", descriptor, client_arguments_);
    auto stream = std::make_shared<ClientStream>(std::move(channel), std::move(owner), census_);
    std::lock_guard lock(mutex_);
    stream->begin(credential, hello);
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
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  const abi::Settings settings_;
  Census census_;
  Service service_;
  grpc::ChannelArguments client_arguments_;
  std::mutex mutex_;
  bool stopped_ = false;  // under mutex_
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace
}  // namespace troupe::rpc

extern "C" __attribute__((visibility("default"))) troupe::net::abi::Transport* troupe_rpc_open(std::uint32_t abi,
                                                                                             const troupe::net::abi::Settings* settings) {
  if (abi != troupe::net::abi::kLinkAbi) return nullptr;
  return new troupe::rpc::GrpcTransport(*settings);
}
