// Bytes of buffers between nodes: what other daemons may fetch (Exports), and fetching from them.
#include "core/base/log.h"
#include "core/node/daemon.h"

namespace troupe::node {
namespace {
constexpr Duration kExposeWait = std::chrono::seconds(10), kFetchWait = std::chrono::seconds(60);
}

bool Exports::expose(store::BufferId id, std::span<const std::byte> bytes, std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  auto [it, fresh] = state_->entries.try_emplace(id);
  it->second.bytes = bytes;
  it->second.nodes[node]++;
  return fresh;
}

void Exports::State::drop_if_idle(store::BufferId id) {
  auto it = entries.find(id);
  if (it == entries.end() || !it->second.nodes.empty() || it->second.in_use > 0) return;
  entries.erase(it);
  loop.post([f = released, id] { f(id); });
}

void Exports::withdraw(store::BufferId id, std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  auto it = state_->entries.find(id);
  if (it == state_->entries.end()) return;
  auto count = it->second.nodes.find(node);
  if (count == it->second.nodes.end()) return;
  if (--count->second == 0) it->second.nodes.erase(count);
  state_->drop_if_idle(id);
}

void Exports::withdraw_all(std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  std::vector<store::BufferId> touched;
  for (auto& [id, entry] : state_->entries) if (entry.nodes.erase(node) > 0) touched.push_back(id);
  for (store::BufferId id : touched) state_->drop_if_idle(id);
}

Result<net::PinnedBytes> Exports::open(const net::BufferKey& key) {
  const store::BufferId id{key.node, key.slot, key.generation};
  std::lock_guard lock(state_->mutex);
  auto it = state_->entries.find(id);
  if (it == state_->entries.end()) return make_error<ObjectLostError>("buffer " + store::to_string(id) + " is not offered here");
  it->second.in_use++;
  auto keep = std::shared_ptr<const void>(static_cast<const void*>(it->second.bytes.data()), [state = state_, id](const void*) {
    std::lock_guard inner(state->mutex);
    auto entry = state->entries.find(id);
    if (entry == state->entries.end()) return;
    entry->second.in_use--;
    state->drop_if_idle(id);
  });
  return net::PinnedBytes{it->second.bytes, std::move(keep)};
}

Status Daemon::start_data(const net::Token& token) {
  exports_ = std::make_unique<Exports>(*loop_, [this](store::BufferId id) {
    if (store_) store_->unexport(id);
  });
  if (local_) return {};  // there are no other nodes
  net::DataServerOptions server;
  server.token = token;
  server.address = config_.bind;
  server.hand_over = [this](UniqueFd connection, ByteView body) { rank_connected(std::move(connection), body); };
  Result<std::unique_ptr<net::DataServer>> opened = net::DataServer::open(*exports_, std::move(server));
  if (!opened.ok()) return opened.error_ptr();
  data_server_ = std::move(*opened);
  data_address_ = config_.bind + ":" + std::to_string(data_server_->port());
  net::DataClientOptions client;
  client.token = token;
  Result<std::unique_ptr<net::DataClient>> made = net::DataClient::open(std::move(client));
  if (!made.ok()) return made.error_ptr();
  data_client_ = std::move(*made);
  return {};
}

void Daemon::wire_data() {
  store_->set_exports(exports_.get());
  store_->set_fetch([this](store::BufferId remote, std::span<std::byte> to, std::function<void(Status)> done) {
    // First the other daemon pins and offers it, then its bytes are drawn, then it may let go.
    const wire::StoreHoldRequest pin{mail_->self(), {{remote.node, remote.slot, remote.generation, to.size()}}};
    mail_->request(daemon_of(remote.node), wire::Method::kStoreHold, pin, kExposeWait, [this, remote, to, pin, done](Result<Mail::Bytes> reply) {
      if (!reply.ok()) return done(reply.error_ptr());
      net::Fetch fetch{links_->data_address(remote.node), {remote.node, remote.slot, remote.generation}, to, loop_->now() + kFetchWait};
      data_client_->fetch(std::move(fetch), [this, remote, pin, done](const Status& status) {
        loop_->post([this, remote, pin, done, status] {
          mail_->notice(daemon_of(remote.node), wire::Method::kStoreUnhold, pin);
          done(status);
        });
      });
    });
  });
}

}  // namespace troupe::node
