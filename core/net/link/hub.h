// LinkHub: all links of a process and its listening port; what lies between a socket and a link is with its parts.
//
//   accepted socket ---> Handshakes (proofs) ---> LinkConnections ---> transport (gRPC) ---> judge ---> incoming
//   dial ---> LinkDialer (connects, proves) ---> LinkConnections ---> transport ---> a LinkStream that was there from
//   the start
//
// Thread rule: as net/link/link.h. The members below "loop's thread" belong to it; links_ and identity_ have a mutex.
//
// Invariants
//   LH-2  When a link has ended its connection is cut: none lingers without a link.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "core/net/base/handshakes.h"
#include "core/net/base/loop.h"
#include "core/net/base/socket.h"
#include "core/net/link/abi.h"
#include "core/net/link/connections.h"
#include "core/net/link/dialer.h"
#include "core/net/link/link.h"
#include "core/net/link/link_stream.h"

namespace troupe::net {

class LinkHub final : public Links, private abi::Acceptor {
 public:
  LinkHub(LinkEvents& events, const LinksOptions& options, std::unique_ptr<SocketLoop> loop);
  ~LinkHub() override;
  /// Second half of construction. Null: the library speaks another version of link/abi.h.
  bool start(abi::Factory factory);

  void identify(LinkIdentity identity) override;
  Result<int> listen(const ListenOptions& options) override;
  Result<LinkId> dial(const ConnectOptions& options) override;
  Result<LinkId> connect(const ConnectOptions& options) override;
  bool send(LinkId link, const FrameHeader& header, std::span<const ByteView> pieces) override;
  bool send_raw(LinkId link, ByteView frames) override;
  std::size_t backlog(LinkId link) const override;
  void close(LinkId link) override;
  void abort(LinkId link, std::string reason) override;
  void shutdown() override;
  Stats stats() const override;

 private:
  // abi::Acceptor
  std::string judge(const abi::Hello& hello) override;
  abi::Hello own_hello() override;
  std::shared_ptr<abi::Owner> incoming(std::shared_ptr<abi::Stream> stream, int descriptor) override;

  std::shared_ptr<LinkStream> find(LinkId link) const;
  std::shared_ptr<LinkStream> make_link(LinkStream::Setup setup);
  Result<std::shared_ptr<LinkStream>> start_dial(const ConnectOptions& options, bool waited_for);
  ProofSelf proof_self() const;
  void link_ended(LinkStream& link);
  void forget_link(LinkStream& link);

  // ---- the loop's thread
  void dialled(const std::shared_ptr<LinkStream>& link, UniqueFd socket);

  LinkEvents& events_;
  const LinksOptions options_;
  LinkCounters counters_;
  const std::uint64_t descriptors_max_;

  mutable std::shared_mutex links_mutex_;
  std::condition_variable_any links_gone_;
  std::unordered_map<LinkId, std::shared_ptr<LinkStream>> links_;  // under links_mutex_
  LinkId next_link_ = 1;                                        // under links_mutex_
  bool stopping_ = false;                                       // under links_mutex_
  bool listening_ = false;                                      // under links_mutex_

  mutable std::mutex identity_mutex_;
  LinkIdentity identity_;                                       // under identity_mutex_

  LinkConnections connections_;
  LinkDialer dialer_;                                           // loop's thread
  std::unique_ptr<Handshakes> handshakes_;                      // loop's thread
  std::unique_ptr<Listener> listener_;                          // loop's thread

  std::unique_ptr<abi::Transport> transport_;
  std::unique_ptr<SocketLoop> loop_;                            // last: its handlers use all of the above
};

}  // namespace troupe::net
