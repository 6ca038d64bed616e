// kListState: nodes, jobs and metrics the head knows itself and answers at once; tasks, objects, workers and stores it
// asks the daemons for, and merges. Actors it knows itself, but hears of light ones in batches: so it asks for these
// before it looks.
//
// Invariants
//   LS-1  Every list is answered within kListDeadline: a node that has not answered by then is a warning in the reply.
//   LS-2  A filter compares text on a field of the row; a field that the kind has not is an InvalidArgumentError.
//   LS-3  A list of actors has all whose calls had succeeded when it was asked for: processes tell the head of theirs
//         on the way on which they answer, before they answer.
//   LS-4  The reply says how many rows match, also those that its limit, or a process that has too many, has cut off.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/membership.h"

namespace troupe::head {

inline constexpr Duration kListDeadline = std::chrono::seconds(1);

/// The fields of a row.
const std::vector<std::string>& row_fields(wire::StateKind kind);
/// Why a query is wrong, or nothing.
std::optional<std::string> query_problem(const wire::StateQuery& query);

std::string json_text(const std::map<std::string, double>& amounts);
std::string json_text(const std::map<std::string, std::string>& labels);
/// Rows of kNodes.
std::vector<std::map<std::string, std::string>> node_rows(const Membership& membership);

/// Lists that wait for daemons.
class Listing {
 public:
  /// What the head itself adds when all have answered.
  using OwnRows = std::function<wire::StateReply(const wire::StateQuery& query)>;
  explicit Listing(OwnRows own_rows) : own_rows_(std::move(own_rows)) {}

  void ask(Turn& turn, Caller caller, wire::StateQuery query, const std::vector<std::uint32_t>& nodes);
  /// A daemon's answer to the request with this token; an ErrorRecord counts as an answer, with a warning.
  void on_answer(Turn& turn, std::uint32_t node, std::uint64_t token, Message body);
  void on_node_died(Turn& turn, std::uint32_t node);
  void on_time(Turn& turn);
  std::optional<Time> next_deadline() const;

 private:
  struct Pending {
    Caller caller;
    wire::StateQuery query;
    std::set<std::uint32_t> missing;
    wire::StateReply reply;
    Time deadline;
  };
  void finish(Turn& turn, Pending& pending);

  const OwnRows own_rows_;
  std::map<std::uint64_t, Pending> pending_;  // by the token of its requests; deadlines ascend with it
  std::uint64_t last_token_ = 0;
};

}  // namespace troupe::head
