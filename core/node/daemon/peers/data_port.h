// DataPort: bytes of buffers between nodes, by the data sockets. Others fetch what Exports offers; what a local process
// needs of another node is fetched here.
//
// How a fetch finds its way from one holder to the next: store/transfers.h.
//
// Thread rule: the loop's thread; the sockets' own threads read and write the bytes.
//
// Invariants
//   DP-1  The transfers outlive the sockets that bring their bytes.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/net/base/token.h"
#include "core/net/data/data_socket.h"
#include "core/node/base/exports.h"
#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/store/store_service.h"
#include "core/node/store/transfers.h"

namespace troupe::node {

class DataPort {
 public:
  struct Options {
    net::Token token;
    std::string bind;
    std::function<void(UniqueFd, ByteView)> hand_over;  ///< a connection of a rank; any thread
  };
  DataPort(Loop& loop, Transfers::Surroundings surroundings);

  /// Opens the data port and returns its address.
  Result<std::string> open(Options options);
  /// From now on the store offers and fetches by this.
  void serve(StoreService& store, Messenger& messenger);
  void node_lost(std::uint32_t node) { exports_.withdraw_all(node); }

 private:
  Loop& loop_;
  const Transfers::Surroundings surroundings_;
  StoreService* store_ = nullptr;
  Exports exports_;
  std::unique_ptr<net::DataServer> server_;
  std::unique_ptr<Transfers> transfers_;  ///< ends after the client, whose threads tell it of their ends
  std::unique_ptr<net::DataClient> client_;
};

}  // namespace troupe::node
