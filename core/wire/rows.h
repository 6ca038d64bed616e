// The rows of a list (StateQuery, StateReply): which of them match, how many are given, and how many there are.
//
// Whoever has rows selects them itself, so that a list of 100 rows costs 100 rows and not all there are. Whoever merges
// lists adds their totals.
//
// Thread rule: pure functions.
//
// Invariants
//   WR-1  total counts every row that matches; rows holds the first of them, as many as the limit allows, kRowsMax at
//         most.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/wire/messages.h"

namespace troupe::wire {

/// What one process gives of its tasks or objects at most, whatever the limit: a reply must fit into a message.
inline constexpr std::size_t kRowsMax = 10'000;

inline std::size_t row_limit(const StateQuery& query) {
  return query.limit < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(query.limit);
}

/// `text(field)` is the text of that field of the row.
template <class Text> bool matches(const StateQuery& query, Text&& text) {
  return std::all_of(query.filter.begin(), query.filter.end(),
                     [&](const auto& wanted) { return text(wanted.first) == wanted.second; });
}

/// A row that may never be made: only its filtered fields are asked for when it does not match or no row is wanted any
/// more.
template <class Text>
void offer_row(const StateQuery& query, StateReply& reply, std::span<const char* const> fields, Text&& text) {
  if (!matches(query, text)) return;
  ++reply.total;
  if (reply.rows.size() >= std::min(row_limit(query), kRowsMax)) return;
  StateRow& row = reply.rows.emplace_back();
  for (const char* field : fields) row.emplace(field, text(std::string_view(field)));
}

/// Rows that are there already: those that match stay, up to the limit.
inline void select_rows(const StateQuery& query, StateReply& reply) {
  const std::size_t before = reply.rows.size();
  std::erase_if(reply.rows, [&](const StateRow& row) {
    return !matches(query, [&](const std::string& field) {
      const auto at = row.find(field);
      return at == row.end() ? std::string() : at->second;
    });
  });
  const std::size_t removed = before - reply.rows.size();
  reply.total = std::max<std::uint64_t>(reply.total, before) - removed;
  if (reply.rows.size() > row_limit(query)) reply.rows.resize(row_limit(query));
}

/// Adds what another one has answered to the same query.
inline void merge_rows(const StateQuery& query, StateReply part, StateReply& all) {
  select_rows(query, part);
  all.total += part.total;
  std::move(part.warnings.begin(), part.warnings.end(), std::back_inserter(all.warnings));
  const std::size_t room = row_limit(query) - std::min(row_limit(query), all.rows.size());
  const std::size_t taken = std::min(room, part.rows.size());
  std::move(part.rows.begin(), part.rows.begin() + static_cast<std::ptrdiff_t>(taken), std::back_inserter(all.rows));
}

/// Why the rows are not all that match, a line each: what nodes and processes did not tell, and what was cut off
/// unasked.
inline std::vector<std::string> what_is_missing(const StateQuery& query, const StateReply& reply) {
  std::vector<std::string> lines = reply.warnings;
  const std::uint64_t wanted = std::min<std::uint64_t>(row_limit(query), reply.total);
  if (reply.rows.size() < wanted)
    lines.push_back("only " + std::to_string(reply.rows.size()) + " of " + std::to_string(reply.total) +
                    " rows are listed: one process lists at most " + std::to_string(kRowsMax) +
                    "; a filter gives fewer");
  return lines;
}

}  // namespace troupe::wire
