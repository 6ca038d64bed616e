#include "core/node/daemon/peers/data_port.h"

namespace troupe::node {

DataPort::DataPort(Loop& loop, Transfers::Surroundings surroundings)
    : loop_(loop), surroundings_(std::move(surroundings)), exports_(loop, [this](store::BufferId id) {
        if (store_) store_->unexport(id);
      }) {}

Result<std::string> DataPort::open(Options options) {
  net::DataServerOptions server;
  server.token = options.token;
  server.address = options.bind;
  server.hand_over = std::move(options.hand_over);
  Result<std::unique_ptr<net::DataServer>> opened = net::DataServer::open(exports_, std::move(server));
  if (!opened.ok()) return opened.error_ptr();
  server_ = std::move(*opened);
  net::DataClientOptions client;
  client.token = options.token;
  Result<std::unique_ptr<net::DataClient>> made = net::DataClient::open(std::move(client));
  if (!made.ok()) return made.error_ptr();
  client_ = std::move(*made);
  return options.bind + ":" + std::to_string(server_->port());
}

void DataPort::serve(StoreService& store, Messenger& messenger) {
  store_ = &store;
  store.set_exports(&exports_);
  if (!client_) return;  // local mode: there are no other nodes
  transfers_ = std::make_unique<Transfers>(loop_, messenger, *client_, surroundings_);
  store.set_fetch([this](store::BufferId remote, std::span<std::byte> to, Transfers::Done done) {
    transfers_->fetch(remote, to, std::move(done));
  });
}

}  // namespace troupe::node
