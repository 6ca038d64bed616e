#include "core/caller/light_hosts.h"

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
/// So many light actors of one creator share a host before the next one is used: what is made together mostly talks to
/// each other, and within one process a message costs no wake-up and cannot overtake what its sender's sender had sent
/// before.
constexpr std::size_t kLightNeighbours = 32 * 1024;
}  // namespace

void LightHosts::place(detail::Ptr<ActorClient> actor) {
  without_host_.push_back(std::move(actor));
  if (!hosts_.empty()) return place_all();
  if (std::exchange(asked_, true)) return;
  runtime_.requests().send<wire::LightHostReply>(
      runtime_.daemon(), wire::Method::kLightHost, wire::LightHostRequest{runtime_.welcome().job},
      [this](Result<wire::LightHostReply> reply) { answered(reply); });
}

void LightHosts::answered(const Result<wire::LightHostReply>& reply) {
  asked_ = false;
  if (reply.ok() && !reply->hosts.empty()) {
    hosts_ = reply->hosts;
    return place_all();
  }
  const ErrorPtr error =
      reply.ok() ? make_error<ActorDiedError>("this node has no process for light actors") : reply.error_ptr();
  for (auto& actor : std::exchange(without_host_, {})) actor->die(error);
}

void LightHosts::place_all() {
  for (auto& actor : std::exchange(without_host_, {}))
    actor->placed(hosts_[next_++ / kLightNeighbours % hosts_.size()]);
}

void LightHosts::process_died(ProcessId process) {
  if (std::erase(hosts_, process) > 0) next_ = 0;
}

}  // namespace troupe::worker
