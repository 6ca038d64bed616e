// ActorCreation: makes actors. A plain light actor is made in a host of this node, by its first call (LightHosts); all
// others by the head, once the constructor's arguments are here.
//
//   create --arguments there--> the head is asked --created--> its client locates it
//      |                              `--the name is somebody's (get_if_exists)--> that one's handle
//      `--an argument failed--> dead
//
// Thread rule: create takes the lock itself, and waits with get_if_exists; the others with the lock held.
#pragma once
#include <memory>

#include "core/caller/actor_clients.h"
#include "core/caller/actor_lookup.h"
#include "core/caller/light_hosts.h"

namespace troupe::worker {

class ActorCreation {
 public:
  ActorCreation(Runtime& runtime, Owner& owner, ActorClients& clients, ActorLookup& lookup, UntakenArguments& untaken)
      : runtime_(runtime),
        owner_(owner),
        clients_(clients),
        lookup_(lookup),
        untaken_(untaken),
        light_hosts_(runtime) {}

  detail::HandlePtr create(detail::OutgoingCall construction, const ActorOptions* options,
                           const std::string& class_name);
  void process_died(ProcessId process) { light_hosts_.process_died(process); }
  /// Forgets who waits for a host, when the process is taken apart.
  void clear() { light_hosts_.clear(); }
  /// Those that wait for the constructor's arguments.
  std::size_t held_back() const { return held_back_; }

 private:
  struct Creation;
  detail::HandlePtr create_light(detail::OutgoingCall construction, const std::string& class_name);
  std::shared_ptr<Creation> begin(detail::OutgoingCall construction, const ActorOptions& options,
                                  const std::string& class_name);
  void start(const std::shared_ptr<Creation>& creation);
  std::shared_ptr<Outgoing> describe_arguments(Creation& creation);
  void answered(Creation& creation, const Result<wire::CreateActorReply>& reply);
  detail::HandlePtr existing_or_own(const std::shared_ptr<Creation>& creation, exec::Waiter& waiter);

  Runtime& runtime_;
  Owner& owner_;
  ActorClients& clients_;
  ActorLookup& lookup_;
  UntakenArguments& untaken_;
  LightHosts light_hosts_;
  std::uint64_t last_actor_ = 0;
  std::size_t held_back_ = 0;
};

}  // namespace troupe::worker
