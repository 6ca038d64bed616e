// join: groups of processes that no driver made: what was asked for, in options and environment, and where they meet:
// at HOST:PORT (rendezvous.h) or, on one machine, at a path (join_path.h).
#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

#include "collective/group/join_path.h"
#include "collective/group/member.h"
#include "collective/nccl/own_gpu.h"
#include "collective/group/rendezvous.h"
#include "core/base/environment.h"

namespace troupe::collective {
namespace {

int number_from(const char* mpirun, const char* torchrun, const char* what) {
  for (const char* name : {mpirun, torchrun}) {
    const std::string text = environment(name);
    int value = -1;
    if (text.empty()) continue;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (bad != std::errc() || end != text.data() + text.size() || value < 0)
      throw InvalidArgumentError(fmt::format("join: {}={} is no {}", name, text, what));
    return value;
  }
  throw InvalidArgumentError(
      fmt::format("join: no {} was given, and neither {} nor {} is set", what, mpirun, torchrun));
}

/// HOST:PORT rather than a path, which has no colon or a slash. Throws where it is neither.
bool is_network(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || address.find('/') != std::string::npos) return false;
  int port = 0;
  const char* const end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
  if (colon == 0 || parsed.ec != std::errc() || parsed.ptr != end || port < 1 || port > 65535)
    throw InvalidArgumentError(fmt::format(
        "join: '{}' is not HOST:PORT with a port from 1 to 65535, and a path has a slash or no colon", address));
  return true;
}

Backend chosen(Backend asked) {
  if (asked != Backend::kAuto) return asked;
  const std::string forced = environment("TROUPE_COLLECTIVE_BACKEND");
  if (forced.empty() || forced == "auto") return Backend::kAuto;
  if (forced == "shm") return Backend::kShm;
  if (forced == "tcp") return Backend::kTcp;
  if (forced == "nccl") return Backend::kNccl;
  throw InvalidArgumentError(fmt::format("TROUPE_COLLECTIVE_BACKEND={}: join knows auto, shm, tcp and nccl", forced));
}

std::string address_for(const std::string& given, const std::string& name) {
  if (!given.empty()) return given;
  const std::string host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  if (!host.empty() && !port.empty()) return host + ":" + port;
  if (name.empty() || name.find('/') != std::string::npos)
    throw InvalidArgumentError("join: a name that is empty or has a slash makes no path: give an address");
  return fmt::format("/tmp/troupe-join-{}-{}", ::getuid(), name);
}

}  // namespace

Group join(const std::string& name, int rank, int size, JoinOptions options) {
  if (rank == kFromEnvironment) rank = number_from("OMPI_COMM_WORLD_RANK", "RANK", "rank");
  if (size == kFromEnvironment) size = number_from("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "size");
  if (size < 1 || rank < 0 || rank >= size) throw InvalidArgumentError(fmt::format("join: rank {} of {}", rank, size));
  if (options.operation_timeout <= Duration::zero())
    throw InvalidArgumentError("join: the timeout of the operations is positive");
  const Backend backend = chosen(options.backend);
  if (backend == Backend::kHier)
    throw InvalidArgumentError("join: this backend is not there: use kAuto, kShm, kTcp or kNccl");
  const MeetingPlan plan{.group = name,
                         .address = address_for(options.address, name),
                         .token = options.token,
                         .rank = rank,
                         .size = size,
                         .backend = backend,
                         .deterministic = options.deterministic,
                         .deadline = Patience(options.timeout, nullptr).deadline()};
  const bool network = is_network(plan.address);
  if (!network && backend == Backend::kTcp) throw InvalidArgumentError("join: kTcp needs an address HOST:PORT");
  std::unique_ptr<Communicator> communicator = network ? meet_at(plan) : meet_at_path(plan);
  if (backend == Backend::kNccl) {  // what has met are the control links
    Patience patience(plan.deadline == Clock::time_point::max()
                          ? kForever
                          : std::max<Duration>(Duration::zero(), plan.deadline - Clock::now()),
                      nullptr);
    communicator = over_own_gpu(std::move(communicator), name, NcclScope::kEverything, patience);
  }
  Group g(std::make_shared<detail::Member>(
      std::move(communicator),
      detail::MemberOptions{.group = name, .timeout = options.operation_timeout, .environment = nullptr}));
  g.barrier({.timeout = options.timeout});
  return g;
}

}  // namespace troupe::collective
