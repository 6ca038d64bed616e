#include "apps/train/trainer/zero.h"

#include <algorithm>

namespace troupe::train {

ShardPlan::ShardPlan(const ShardSetting& setting)
    : setting_(setting),
      buckets_(cut_buckets(setting.count, setting.element_bytes,
                           setting.zero == Zero::k1 ? std::size_t(setting.ranks) : 1, setting.buckets)) {}

FlatRange ShardPlan::part(std::size_t bucket, int rank) const {
  const FlatRange whole = buckets_.buckets[bucket];
  if (!sharded()) return whole;
  const std::size_t size = whole.size() / std::size_t(setting_.ranks);
  return {whole.begin + size * std::size_t(rank), whole.begin + size * std::size_t(rank + 1)};
}

std::vector<Piece> ShardPlan::pieces(std::size_t bucket, const Layout& layout) const {
  std::vector<Piece> pieces;
  const FlatRange own = part(bucket);
  for (const Tensor& tensor : layout) {
    const std::size_t begin = std::max(own.begin, tensor.offset), end = std::min(own.end, tensor.offset + tensor.size);
    if (begin < end)
      pieces.push_back({begin, compact_begin(bucket) + (begin - own.begin), end - begin, tensor.decayed});
  }
  return pieces;
}

}  // namespace troupe::train
