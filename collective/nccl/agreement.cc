#include "collective/nccl/agreement.h"

#include <cstring>

#include <fmt/format.h>

#include "collective/nccl/library.h"

namespace troupe::collective {

NcclAgreement agree(std::span<const NcclCard> cards) {
  NcclAgreement out;
  const auto object = [&](Reason reason, std::string text, std::vector<int> ranks) {
    if (!out.objection) out.objection = Failure{reason, std::move(text), std::move(ranks)};
  };
  std::string lacks;
  std::vector<int> without;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (cards[r].able) continue;
    lacks += fmt::format("{}rank {}: {}", lacks.empty() ? "" : "; ", r, cards[r].missing);
    without.push_back(int(r));
  }
  if (!without.empty()) object(Reason::kBackend, "the nccl backend is not there on all ranks: " + lacks, without);
  for (std::size_t r = 1; r < cards.size(); ++r)
    if (cards[r].able && cards[0].able && cards[r].version != cards[0].version)
      object(Reason::kMismatch,
             fmt::format("rank 0 has NCCL {}, rank {} has NCCL {}", version_text(cards[0].version), r,
                         version_text(cards[r].version)),
             {});
  for (std::size_t a = 0; a < cards.size(); ++a)
    for (std::size_t b = a + 1; b < cards.size(); ++b)
      if (cards[a].able && cards[b].able && cards[a].host == cards[b].host &&
          std::memcmp(cards[a].gpu, cards[b].gpu, sizeof cards[a].gpu) == 0 &&
          std::strncmp(cards[a].host_id, cards[b].host_id, sizeof cards[a].host_id) == 0)
        object(Reason::kBackend,
               fmt::format("ranks {} and {} are on the same GPU: NCCL takes one rank a GPU, unless every process has "
                           "an NCCL_HOSTID of its own",
                           a, b),
               {});
  return out;
}

std::vector<std::pair<std::string, std::string>> nccl_variables() {
  return {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}};
}

}  // namespace troupe::collective
