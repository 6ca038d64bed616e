// How an NcclCommunicator comes to be: cards, agreement, id, init; and by split.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "collective/nccl_communicator.h"
#include "core/base/environment.h"
#include "core/base/fd.h"

namespace troupe::collective {
namespace {

using detail::Kind;

constexpr const char* kOperation = "init of nccl";

/// The same for all processes of one boot of this machine.
std::uint64_t host_number() {
  char boot[40] = {};
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!fd || ::read(fd.get(), boot, sizeof boot - 1) <= 0) return 0;
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : boot) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

NcclCard own_card(const NcclPlan& plan) {
  NcclCard card;
  card.host = host_number();
  environment("NCCL_HOSTID").copy(card.host_id, sizeof card.host_id - 1);
  std::string missing = plan.missing;
  if (!plan.device && missing.empty()) missing = "no GPU";
  if (plan.device && !plan.device->tables().nccl) missing = "no NCCL";
  missing.copy(card.missing, sizeof card.missing - 1);
  card.able = missing.empty() ? 1 : 0;
  if (!plan.device) return card;
  card.version = plan.device->tables().nccl_version;
  std::memcpy(card.gpu, plan.device->facts().uuid, sizeof card.gpu);
  return card;
}

[[noreturn]] void refuse(const NcclPlan& plan, Communicator& control, const Failure& failure) {
  throw CollectiveError::from({failure.reason, plan.group, control.epoch(), 0, kOperation, control.rank(), failure.missing_ranks}, failure.text);
}
[[noreturn]] void refuse(const NcclPlan& plan, Communicator& control) {
  refuse(plan, control, control.failure().value_or(Failure{Reason::kBackend, "no reason was given", {}}));
}

template <class T> std::vector<T> exchange(const NcclPlan& plan, Communicator& control, const T& own, Patience& patience) {
  std::vector<T> all(static_cast<std::size_t>(control.size()));
  const detail::Operation operation{.kind = Kind::kAllGather, .type = detail::DType::kU8, .in = &own, .in_count = sizeof own, .out = all.data(), .out_count = sizeof own * all.size()};
  if (!control.run(operation, patience)) refuse(plan, control);
  return all;
}

/// What rank 0 tells: the id, or why there is none.
struct Minted {
  std::int32_t result = kNcclSuccess;
  char text[252] = {};
  NcclUniqueId id{};
};

Minted mint(const GpuDevice& device) {
  Minted minted;
  minted.result = device.nccl().get_unique_id(&minted.id);
  if (minted.result == kNcclSuccess) return minted;
  const char* const last = device.nccl().get_last_error(nullptr);
  fmt::format("ncclGetUniqueId: {}: {}", device.nccl().get_error_string(minted.result), last ? last : "").copy(minted.text, sizeof minted.text - 1);
  return minted;
}

}  // namespace

std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator> owned, const NcclPlan& plan, Patience& patience) {
  const NcclAgreement agreement = agree(exchange(plan, *owned, own_card(plan), patience));
  if (agreement.objection && plan.otherwise == NcclPlan::Otherwise::kControl && agreement.objection->reason == Reason::kBackend) return owned;
  if (agreement.objection) refuse(plan, *owned, *agreement.objection);
  std::shared_ptr<Communicator> control = std::move(owned);
  for (const auto& [name, value] : nccl_variables(agreement))
    if (plan.set_variable) plan.set_variable(name, value);
  // The id is good only while the process that made it lives, and it opens a port there: rank 0 makes it when all have come.
  Minted minted = control->rank() == 0 ? mint(*plan.device) : Minted{};
  const detail::Operation tell{.kind = Kind::kBroadcast, .type = detail::DType::kU8, .peer = 0, .in = &minted, .in_count = sizeof minted, .out = &minted, .out_count = sizeof minted};
  if (!control->run(tell, patience)) refuse(plan, *control);
  if (minted.result != kNcclSuccess) refuse(plan, *control, {Reason::kBackend, fmt::format("rank 0: {}", minted.text), {0}});
  auto comm = NcclComm::begin(*plan.device, {.name = fmt::format("{}@{}", plan.group, control->epoch()), .ranks = control->size(), .rank = control->rank(), .id = minted.id}, control);
  if (!comm->await_ready(patience)) refuse(plan, *control);
  auto made = std::make_unique<NcclCommunicator>(control, std::move(comm), plan.device, plan.group);
  exchange(plan, *control, std::uint8_t(1), patience);  // nobody goes on before all are ready
  return made;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, Patience& patience) {
  const detail::Operation operation{.kind = Kind::kSplit};
  if (!agree(operation, patience)) return nullptr;
  std::shared_ptr<Communicator> child = control_->split(color, key, patience);
  if (control_->failure()) return nullptr;
  std::unique_ptr<Communicator> made;
  if (color < 0) {
    NcclComm::stand_aside(comm_);
  } else {
    const std::string name = fmt::format("{}/{}@{}", group_, color, epoch());
    auto comm = NcclComm::begin(*device_, {.name = name, .ranks = child->size(), .rank = child->rank(), .parent = comm_, .color = color, .key = key}, child);
    if (!comm->await_ready(patience)) {
      give_up(child->failure().value_or(Failure{Reason::kBackend, "the communicator of the split was not made", {}}));
      return nullptr;
    }
    made = std::make_unique<NcclCommunicator>(std::move(child), std::move(comm), device_, fmt::format("{}/{}", group_, color));
  }
  return agree(operation, patience) ? std::move(made) : nullptr;
}

}  // namespace troupe::collective
