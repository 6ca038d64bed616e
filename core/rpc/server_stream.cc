// The accepting end of a link: judges the peer's hello, answers with its own, then carries packets.
#include "core/rpc/streams.h"

#include <charconv>
#include <utility>

#include "core/wire/proto/link_convert.h"
#include "link.grpc.pb.h"

namespace troupe::rpc {
namespace {

using wire::proto::LinkService;
using wire::proto::Packet;

/// "fd:12" of a connection that was given as a descriptor.
int descriptor_of(const std::string& peer) {
  int fd = -1;
  const auto colon = peer.rfind(':');
  if (colon != std::string::npos) std::from_chars(peer.data() + colon + 1, peer.data() + peer.size(), fd);
  return peer.starts_with("fd:") ? fd : -1;
}

class ServerStream final : public grpc::ServerBidiReactor<Packet, Packet>,
                           public abi::Stream,
                           public std::enable_shared_from_this<ServerStream> {
 public:
  ServerStream(grpc::CallbackServerContext* context, abi::Acceptor& acceptor, Census& census)
      : context_(context), acceptor_(acceptor), census_(census) {
    census_.enter();
  }

  void begin() {
    self_ = shared_from_this();
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
    bool orderly = false;
    {
      std::lock_guard lock(mutex_);
      done_ = true;
      orderly = finish_asked_ || !cancelled_;
    }
    if (owner_) {
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
      refusal = wire::from_proto(in_.hello(), peer_hello_) ? acceptor_.judge(peer_hello_)
                                                           : "a field of the hello is too long";
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

}  // namespace

std::unique_ptr<grpc::Service> make_link_service(abi::Acceptor& acceptor, Census& census) {
  return std::make_unique<Service>(acceptor, census);
}

}  // namespace troupe::rpc
