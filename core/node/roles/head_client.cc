#include "core/node/roles/head_client.h"

#include "core/net/base/token.h"
#include "core/net/link/batch.h"

namespace troupe::node {
namespace {
constexpr ProcessId kTool{0, 1};  ///< a process of no node: the head answers on the link that it asks on
}

Result<std::unique_ptr<HeadClient>> HeadClient::connect(const Options& options) {
  Result<net::Token> token = net::Token::read_file(options.token_file);
  if (!token.ok()) return token.error_ptr();
  std::unique_ptr<HeadClient> client(new HeadClient(options));
  net::LinksOptions links;
  links.identity = {.token = *token, .hello = "tool"};
  Result<std::unique_ptr<net::Links>> opened = net::open_links(*client, links);
  if (!opened.ok()) return opened.error_ptr();
  client->links_ = std::move(*opened);
  Result<net::LinkId> link = client->links_->connect(
      {.address = options.address, .timeout = options.timeout, .expected = {.role = net::ProofRole::kHead}});
  if (!link.ok()) return link.error_ptr();
  client->link_ = *link;
  return client;
}

HeadClient::~HeadClient() {
  if (links_) links_->shutdown();
}

Result<std::vector<std::byte>> HeadClient::exchange(wire::Method method, const std::vector<std::byte>& question) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kRequest);
  header.source = kTool;
  header.destination = kHead;
  header.token = ++last_token_;
  header.arg0 = static_cast<std::uint64_t>(method);
  if (!links_->send(link_, header, question))
    return make_error<NodeDiedError>("the link to the head at " + options_.address + " is lost");
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait_for(lock, options_.timeout, [&] { return ended_ || answers_.contains(header.token); });
  if (auto answer = answers_.extract(header.token)) return std::move(answer.mapped());
  if (came) return ended_;
  return make_error<GetTimeoutError>("the head at " + options_.address + " did not answer in time");
}

void HeadClient::on_batch(net::LinkId, ByteView rest) {
  for (;;) {
    const auto [state, header, payload] = net::next_frame(rest);
    if (state != net::BatchFrame::State::kFrame) return;
    if (header.kind != static_cast<std::uint8_t>(wire::FrameKind::kResponse)) continue;
    std::lock_guard lock(mutex_);
    if (header.arg0 == 0) {
      answers_.insert_or_assign(header.token, std::vector<std::byte>(payload.begin(), payload.end()));
    } else {
      Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
      answers_.insert_or_assign(header.token, record.ok() ? Error::make(std::move(*record)) : record.error_ptr());
    }
    changed_.notify_all();
  }
}

void HeadClient::on_closed(net::LinkId, const Status& why) {
  std::lock_guard lock(mutex_);
  ended_ =
      why.ok() ? make_error<NodeDiedError>("the head at " + options_.address + " closed the link") : why.error_ptr();
  changed_.notify_all();
}

}  // namespace troupe::node
