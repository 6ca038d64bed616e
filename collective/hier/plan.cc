#include "collective/hier/plan.h"

#include <algorithm>
#include <map>

namespace troupe::collective {
namespace {

Range input(std::size_t begin, std::size_t size) { return {Memory::kInput, begin, begin + size}; }
Range data(std::size_t begin, std::size_t size) { return {Memory::kData, begin, begin + size}; }
Step send(int peer, Range range) { return {.kind = Step::Kind::kSend, .peer = peer, .range = range}; }
Step receive(int peer, Range range) { return {.kind = Step::Kind::kReceive, .peer = peer, .range = range}; }
Step copy(Range to, Range from) { return {.kind = Step::Kind::kCopy, .range = to, .from = from}; }

}  // namespace

NodeMap::NodeMap(const std::vector<int>& nodes, int rank) : rank_(rank) {
  std::map<int, int> numbers;
  for (int r = 0; r < int(nodes.size()); ++r) {
    const int node = numbers.try_emplace(nodes[std::size_t(r)], int(numbers.size())).first->second;
    if (node == int(members_.size())) members_.emplace_back();
    node_.push_back(node);
    place_.push_back(int(members_[std::size_t(node)].size()));
    members_[std::size_t(node)].push_back(r);
  }
}

bool NodeMap::regular() const {
  return members_.front().size() > 1 &&
         std::ranges::all_of(members_, [&](const auto& one) { return one.size() == members_.front().size(); });
}

int NodeMap::stand_in(int node, int giver) const {
  const auto& there = members(node);
  return there[std::size_t(place_of(giver)) % there.size()];
}

std::vector<int> NodeMap::leaders(int root) const {
  std::vector<int> all;
  for (const auto& one : members_) all.push_back(one.front());
  if (root >= 0) all[std::size_t(node_of(root))] = root;
  return all;
}

std::vector<int> NodeMap::column() const {
  std::vector<int> all;
  for (const auto& one : members_) all.push_back(one[std::size_t(place())]);
  return all;
}

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> offsets;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    offsets.push_back(at);
    at += size;
  }
  return offsets;
}

// Peers are met in a different order on each rank, so that nobody is sent to by all at once.
MovePlan all_gather_plan(const NodeMap& map, const std::vector<std::size_t>& counts) {
  MovePlan plan;
  const std::vector<std::size_t> at = offsets_of(counts);
  const auto count = [&](int r) { return counts[std::size_t(r)]; };
  const auto offset = [&](int r) { return at[std::size_t(r)]; };
  const int me = map.rank();
  for (int step = 1; step < map.nodes(); ++step) {
    const int to = (map.node() + step) % map.nodes(), from = (map.node() + map.nodes() - step) % map.nodes();
    plan.across.steps.push_back(send(map.stand_in(to, me), input(0, count(me))));
    for (const int giver : map.members(from))
      if (map.stand_in(map.node(), giver) == me)
        plan.across.steps.push_back(receive(giver, data(offset(giver), count(giver))));
  }
  plan.across.steps.push_back(copy(data(offset(me), count(me)), input(0, count(me))));
  for (const int giver : map.here()) {
    auto& parcels = plan.inside.emplace_back();
    parcels.push_back({input(0, count(giver)), offset(giver), giver != me});
    for (int r = 0; r < map.ranks(); ++r)
      if (!map.together(r, giver) && map.stand_in(map.node(), r) == giver)
        parcels.push_back({data(offset(r), count(r)), offset(r), giver != me});
  }
  return plan;
}

MovePlan pairs_plan(const NodeMap& map, const Pairs& pairs) {
  MovePlan plan;
  const int me = map.rank(), n = map.ranks(), places = int(map.here().size());
  const auto in_at = [&](int r) { return pairs.in_at[std::size_t(r)]; };
  const auto out_at = [&](int r) { return pairs.out_at[std::size_t(r)]; };
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me + n - step) % n;
    if (const auto size = map.together(me, to) ? std::nullopt : pairs.size(me, to))
      plan.across.steps.push_back(send(to, input(in_at(to), *size)));
    if (const auto size = map.together(me, from) ? std::nullopt : pairs.size(from, me))
      plan.across.steps.push_back(receive(from, data(out_at(from), *size)));
  }
  if (const auto size = pairs.size(me, me))
    plan.across.steps.push_back(copy(data(out_at(me), *size), input(in_at(me), *size)));
  for (int place = 0; place < places; ++place) {
    auto& parcels = plan.inside.emplace_back();
    const int from = map.here()[std::size_t(place)];
    for (int step = 1; step < places; ++step) {
      const int to = map.here()[std::size_t((place + step) % places)];
      if (const auto size = pairs.size(from, to))
        parcels.push_back({input(from == me ? in_at(to) : 0, *size), to == me ? out_at(from) : 0, to == me});
    }
  }
  return plan;
}

}  // namespace troupe::collective
