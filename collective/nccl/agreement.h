// What the ranks of a group tell each other before NCCL is asked for anything, and what follows from it: does every
// rank have what NCCL needs, do they fit together, and which variables NCCL must find in its environment.
//
// Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/base/failure.h"

namespace troupe::collective {

/// One rank's card. All ranks are of one build (the rendezvous has seen to that), so it travels as it is.
struct NcclCard {
  std::int32_t able = 0;         ///< plug-in, GPU and NCCL are there
  std::int32_t version = 0;      ///< NCCL's
  std::uint64_t host = 0;        ///< the same for processes of one boot of one machine
  unsigned char gpu[16] = {};    ///< its UUID
  char host_id[64] = {};         ///< NCCL_HOSTID, where it is set
  char missing[256] = {};        ///< what is missing when not able
};

struct NcclAgreement {
  std::optional<Failure> objection;  ///< the same on all ranks
};

/// kBackend: some rank lacks something, or two ranks share a GPU and NCCL would refuse that. kMismatch: different
/// versions.
NcclAgreement agree(std::span<const NcclCard> cards);

/// Set before the first call of NCCL, unless the user has set them.
std::vector<std::pair<std::string, std::string>> nccl_variables();

}  // namespace troupe::collective
