// The dialling end of a link: shows its hello, judges the peer's hello, then carries packets.
#include "core/rpc/streams.h"

#include <atomic>
#include <utility>

#include "core/wire/proto/link_convert.h"
#include "link.grpc.pb.h"

namespace troupe::rpc {
namespace {

using wire::proto::LinkService;
using wire::proto::Packet;

class ClientStream final : public grpc::ClientBidiReactor<Packet, Packet>,
                           public abi::Stream,
                           public std::enable_shared_from_this<ClientStream> {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<abi::Owner> owner, Census& census)
      : channel_(std::move(channel)), stub_(LinkService::NewStub(channel_)), owner_(std::move(owner)), census_(census) {
    census_.enter();
  }

  void begin(const abi::Hello& hello) {
    self_ = shared_from_this();
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
    if (in_.has_hello())
      refusal = wire::from_proto(in_.hello(), hello) ? owner_->judge(hello) : "a field of the peer's hello is too long";
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

}  // namespace

std::shared_ptr<abi::Stream> open_client_stream(std::shared_ptr<grpc::Channel> channel,
                                                std::shared_ptr<abi::Owner> owner, Census& census,
                                                const abi::Hello& hello) {
  auto stream = std::make_shared<ClientStream>(std::move(channel), std::move(owner), census);
  stream->begin(hello);
  return stream;
}

}  // namespace troupe::rpc
