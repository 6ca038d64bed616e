#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/base/failure.h"
#include "core/base/error_registry.h"
#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"

namespace troupe {
namespace {

// ER-1: an error from another process gets its real type back.
const bool kRegistered = [] {
  troupe::detail::register_error(ErrorCode::kCollective, "CollectiveError",
                                 [](ErrorRecord record) -> std::shared_ptr<const Error> {
                                   return std::make_shared<const CollectiveError>(std::move(record));
                                 });
  return true;
}();

template <class N> N number(const std::string& text, N otherwise) {
  N value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

CollectiveError CollectiveError::from(const Facts& facts, const std::string& text) {
  ErrorRecord record;
  record.code = ErrorCode::kCollective;
  record.message =
      fmt::format("{}: {} (group '{}', epoch {}, operation {} #{}, rank {}{})", collective::reason_name(facts.reason),
                  text, facts.group, facts.epoch, facts.operation, facts.sequence, facts.rank,
                  facts.missing_ranks.empty() ? std::string()
                                              : fmt::format(", missing ranks {}", fmt::join(facts.missing_ranks, ",")));
  record.details = {std::to_string(int(facts.reason)),
                    facts.group,
                    std::to_string(facts.epoch),
                    std::to_string(facts.sequence),
                    facts.operation,
                    std::to_string(facts.rank),
                    fmt::format("{}", fmt::join(facts.missing_ranks, ","))};
  return CollectiveError(std::move(record));
}

collective::Reason CollectiveError::reason() const {
  return collective::Reason(number<int>(detail_at(0), int(collective::Reason::kBackend)));
}
std::uint64_t CollectiveError::epoch() const { return number<std::uint64_t>(detail_at(2), 0); }
std::uint64_t CollectiveError::sequence() const { return number<std::uint64_t>(detail_at(3), 0); }
int CollectiveError::rank() const { return number<int>(detail_at(5), -1); }

std::vector<int> CollectiveError::missing_ranks() const {
  std::vector<int> ranks;
  const std::string text = detail_at(6);
  const char *at = text.data(), *end = at + text.size();
  for (int rank = 0; at < end;) {
    const auto [next, bad] = std::from_chars(at, end, rank);
    if (bad != std::errc()) break;
    ranks.push_back(rank);
    at = next < end ? next + 1 : next;
  }
  return ranks;
}

namespace collective {

const char* reason_name(Reason reason) {
  switch (reason) {
    case Reason::kTimeout: return "timeout";
    case Reason::kDied: return "a member died";
    case Reason::kAborted: return "aborted";
    case Reason::kMismatch: return "the ranks disagree";
    case Reason::kStale: return "stale handle";
    case Reason::kBackend: return "transport failed";
  }
  return "unknown";
}

namespace detail {
const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kBarrier: return "barrier";
    case Kind::kAllReduce: return "all_reduce";
    case Kind::kReduce: return "reduce";
    case Kind::kBroadcast: return "broadcast";
    case Kind::kAllGather: return "all_gather";
    case Kind::kReduceScatter: return "reduce_scatter";
    case Kind::kAllToAll: return "all_to_all";
    case Kind::kGather: return "gather";
    case Kind::kScatter: return "scatter";
    case Kind::kAllGatherV: return "all_gather_v";
    case Kind::kGatherV: return "gather_v";
    case Kind::kScatterV: return "scatter_v";
    case Kind::kAllToAllV: return "all_to_all_v";
    case Kind::kSend: return "send";
    case Kind::kRecv: return "recv";
    case Kind::kSplit: return "split";
  }
  return "no operation";
}
}  // namespace detail

static_assert(int(detail::DType::kF64) == int(kernels::DType::kF64) &&
              int(detail::DType::kBF16) == int(kernels::DType::kBF16) &&
              int(detail::DType::kI8) == int(kernels::DType::kI8) &&
              int(detail::DType::kU64) == int(kernels::DType::kU64));
static_assert(int(Op::kSum) == int(kernels::ReduceOp::kSum) &&
              int(Op::kPreMulSum) == int(kernels::ReduceOp::kPreMulSum));

}  // namespace collective
}  // namespace troupe
