// How an NcclCommunicator comes to be: cards, agreement, id, init.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "collective/nccl/communicator.h"
#include "collective/base/backend_name.h"
#include "collective/nccl/without_nccl.h"
#include "core/base/environment.h"
#include "core/base/fd.h"
#include "core/base/log.h"

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
  throw CollectiveError::from(
      {failure.reason, plan.group, control.epoch(), 0, kOperation, control.rank(), failure.missing_ranks},
      failure.text);
}
[[noreturn]] void refuse(const NcclPlan& plan, Communicator& control) {
  refuse(plan, control, control.failure().value_or(Failure{Reason::kBackend, "no reason was given", {}}));
}

/// Empty: the control links have failed.
template <class T> std::vector<T> exchange(Communicator& control, const T& own, Patience& patience) {
  std::vector<T> all(static_cast<std::size_t>(control.size()));
  const detail::Operation operation{.kind = Kind::kAllGather,
                                    .type = detail::DType::kU8,
                                    .in = &own,
                                    .in_count = sizeof own,
                                    .out = all.data(),
                                    .out_count = sizeof own * all.size()};
  if (!control.run(operation, patience)) all.clear();
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
  fmt::format("ncclGetUniqueId: {}: {}", device.nccl().get_error_string(minted.result), last ? last : "")
      .copy(minted.text, sizeof minted.text - 1);
  return minted;
}

}  // namespace

std::shared_ptr<NcclComm> connect_nccl(const std::shared_ptr<Communicator>& control, GpuDevice& device,
                                       const std::string& group, Patience& patience) {
  // The id is good only while the process that made it lives, and it opens a port there: rank 0 makes it when all have
  // come.
  Minted minted = control->rank() == 0 ? mint(device) : Minted{};
  const detail::Operation tell{.kind = Kind::kBroadcast,
                               .type = detail::DType::kU8,
                               .peer = 0,
                               .in = &minted,
                               .in_count = sizeof minted,
                               .out = &minted,
                               .out_count = sizeof minted};
  if (!control->run(tell, patience)) return nullptr;
  if (minted.result != kNcclSuccess) {
    control->fail({Reason::kBackend, fmt::format("rank 0: {}", minted.text), {0}});
    return nullptr;
  }
  auto comm = NcclComm::begin(device,
                              {.name = fmt::format("{}@{}", group, control->epoch()),
                               .ranks = control->size(),
                               .rank = control->rank(),
                               .id = minted.id},
                              control);
  struct Guard { NcclComm& comm; bool all_ready = false; ~Guard() { if (!all_ready) comm.fail(); } } guard{*comm};
  if (!comm->await_ready(patience)) return nullptr;
  guard.all_ready = !exchange(*control, std::uint8_t(1), patience).empty();  // nobody goes on before all are ready
  return guard.all_ready ? comm : nullptr;
}

std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator> owned, const NcclPlan& plan, Patience& patience) {
  const bool asked_for = plan.scope == NcclScope::kEverything;
  const std::vector<NcclCard> cards = exchange(*owned, own_card(plan), patience);
  if (cards.empty() && asked_for) refuse(plan, *owned);
  const NcclAgreement agreement = agree(cards);
  if (agreement.objection && asked_for) refuse(plan, *owned, *agreement.objection);
  if (agreement.objection || cards.empty()) {
    const Failure lacks = agreement.objection.value_or(Failure{});  // of a group that has failed nobody will ask it
    if (agreement.objection && owned->rank() == 0)
      write_log(LogLevel::kWarn, "group '{}' makes do with {}, for memory of the host alone: {}", plan.group,
                backend_name(owned->backend()), lacks.text);
    return std::make_unique<WithoutNccl>(std::move(owned), plan.device,
                                         Failure{Reason::kBackend, lacks.text, lacks.missing_ranks});
  }
  for (const auto& [name, value] : nccl_variables())
    if (plan.set_variable) plan.set_variable(name, value);
  std::shared_ptr<Communicator> control = std::move(owned);
  std::shared_ptr<NcclComm> comm;
  if (asked_for && !(comm = connect_nccl(control, *plan.device, plan.group, patience))) refuse(plan, *control);
  return std::make_unique<NcclCommunicator>(std::move(control), std::move(comm), plan.device, plan.group, plan.scope);
}

}  // namespace troupe::collective
