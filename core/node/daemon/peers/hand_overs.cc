#include "core/node/daemon/peers/hand_overs.h"

#include <fmt/format.h>

namespace troupe::node {

void HandOvers::refuse(const net::Introduction& who, const std::string& name, const char* why) {
  refusals_.push_back(
      fmt::format("closed a connection from rank {} to rank {} (channel {}) of {} {:016x}, epoch {}: {}", who.from,
                  who.to, who.channel, name.empty() ? "group" : "group '" + name + "'", who.group, who.epoch, why));
}

/// HOV-1. The pair is expected.
std::optional<HandOvers::Passed> HandOvers::judge(const net::Introduction& who, UniqueFd fd) {
  const auto found = expected_.find(pair_of(who));
  const Expected& expected = found->second;
  if (expected.epoch != who.epoch || !net::proves(who, expected.key)) {
    refuse(who, expected.name,
           expected.epoch != who.epoch ? "another epoch is expected" : "it does not know the key of this pair");
    return std::nullopt;
  }
  Passed passed{expected.owner,
                {who.group, who.epoch, who.from, who.to, who.channel},
                std::move(fd),
                net::acceptance(who, expected.key)};
  expected_.erase(found);
  return passed;
}

std::vector<HandOvers::Passed> HandOvers::expect(ProcessId owner, const wire::ExpectRanks& ranks) {
  for (const wire::ExpectedRank& rank : ranks.from)
    expected_.insert_or_assign(Pair{ranks.group, ranks.rank, rank.from, rank.channel},
                               Expected{owner, ranks.epoch, rank.key, ranks.name});
  std::vector<Passed> passed;
  for (auto at = early_.begin(); at != early_.end();) {
    if (at->who.group != ranks.group || !expected_.contains(pair_of(at->who))) {
      ++at;
      continue;
    }
    if (auto one = judge(at->who, std::move(at->fd))) passed.push_back(*std::move(one));
    at = early_.erase(at);
  }
  return passed;
}

/// HOV-2
void HandOvers::make_room() {
  std::vector<net::Source> sources;
  for (const Early& one : early_) sources.push_back(one.source);
  const auto at = early_.begin() + std::ptrdiff_t(net::who_makes_way(sources));
  refuse(at->who, "", "nobody has expected it yet, and too many wait");
  early_.erase(at);
}

std::optional<HandOvers::Passed> HandOvers::arrive(const net::Introduction& who, UniqueFd fd, TimePoint now,
                                                   net::Source source) {
  if (expected_.contains(pair_of(who))) return judge(who, std::move(fd));
  if (early_.size() >= early_max_) make_room();
  early_.push_back({who, std::move(fd), now + std::chrono::duration_cast<TimePoint::duration>(kEarlyWait), source});
  return std::nullopt;
}

void HandOvers::left(ProcessId owner, const wire::RankLeft& rank) {
  std::erase_if(expected_, [&](const auto& one) {
    return one.second.owner == owner && std::get<0>(one.first) == rank.group && std::get<1>(one.first) == rank.rank;
  });
}

void HandOvers::process_died(ProcessId owner) {
  std::erase_if(expected_, [&](const auto& one) { return one.second.owner == owner; });
}

void HandOvers::expire(TimePoint now) {
  for (; !early_.empty() && early_.front().until <= now; early_.pop_front())
    refuse(early_.front().who, "", "nobody expected it in time");
}

std::optional<HandOvers::TimePoint> HandOvers::next_deadline() const {
  if (early_.empty()) return std::nullopt;
  return early_.front().until;
}

}  // namespace troupe::node
