#include "core/node/daemon/workers/actor_hosts.h"

namespace troupe::node {

void ActorHosts::add(const ActorKey& actor, ProcessId host) {
  remove(actor);
  by_actor_[actor] = host;
  ++counts_[host];
}

bool ActorHosts::remove(const ActorKey& actor) {
  auto it = by_actor_.find(actor);
  if (it == by_actor_.end()) return false;
  auto count = counts_.find(it->second);
  if (--count->second == 0) counts_.erase(count);
  by_actor_.erase(it);
  return true;
}

std::vector<ActorKey> ActorHosts::remove_host(ProcessId host) {
  std::vector<ActorKey> gone;
  if (counts_.erase(host) == 0) return gone;
  for (auto it = by_actor_.begin(); it != by_actor_.end();) {
    if (it->second != host) {
      ++it;
      continue;
    }
    gone.push_back(it->first);
    it = by_actor_.erase(it);
  }
  return gone;
}

std::size_t ActorHosts::count(ProcessId host) const {
  auto it = counts_.find(host);
  return it == counts_.end() ? 0 : it->second;
}

}  // namespace troupe::node
