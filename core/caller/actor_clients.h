// ActorClients: the actors that this process holds handles of, by id: brings the head's word and the notices of deaths
// to each (actor_client.h), and has the head count the handles (handle_counts.h).
//
//   ActorCreation, ActorLookup, values that come in --desc--> ActorClients --one for each actor--> ActorClient
//
// Thread rule: lock held, but for kill, which waits, and drop.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>

#include "core/caller/actor_client.h"

namespace troupe::worker {

/// How long a question about an actor waits for the head.
inline constexpr Duration kActorAnswerTimeout = std::chrono::seconds(30);

class ActorClients final : private ActorHome {
 public:
  ActorClients(Runtime& runtime, Owner& owner, CallTable& calls, UntakenArguments& untaken);

  /// The client of the actor so described, a new one when nobody here has its handle.
  detail::Ptr<ActorClient> client(wire::HandleDesc desc);
  detail::Ptr<ActorClient> find(ActorId actor) override;
  HandleCounts& counts() { return counts_; }
  std::size_t known() const { return clients_.size(); }

  /// The handle for a description that came in a value; `wait`: the arrival must wait for the head's count.
  detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait);
  /// That for one that came in the head's answer to a name. (CAC-4)
  detail::HandlePtr held_by_head(const wire::HandleDesc& desc);
  const wire::HandleDesc& describe(const detail::HandlePtr& handle) { return client_of(handle).desc(); }

  /// What this process was about to create will not be: its arguments failed, or it was killed before they came.
  void give_up(ActorClient& client, DeathCause cause, const ErrorPtr& why);
  /// Waits for the head's answer, and throws when it is an error or does not come; a wait like any other (WaitScope).
  /// Lock not held.
  void kill(const detail::HandlePtr& handle, bool restart);

  void on_moved(const wire::ActorLocation& word);
  void process_died(const wire::ProcessDied& died, const net::BegunCalls& begun);
  void node_died(std::uint32_t node, const ErrorPtr& error);
  /// Fails what is open, when the process is taken apart.
  void clear(const ErrorPtr& why);

 private:
  using Retained = std::vector<detail::Ptr<ActorClient>>;
  template <class Wanted> Retained retain(Wanted wanted);
  void drop(ActorClient& client) noexcept override;
  void dropped(ActorClient& client);

  Runtime& runtime_;
  Owner& owner_;
  boost::unordered_flat_map<ActorId, ActorClient*, IdHash> clients_;
  HandleCounts counts_;
};

}  // namespace troupe::worker
