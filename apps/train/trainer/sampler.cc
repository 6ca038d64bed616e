#include "apps/train/trainer/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::train {

namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t finalize(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15ull;
constexpr std::uint64_t kUniformStream = 1, kEpochStream = 1000;  // an epoch's stream is kEpochStream + epoch

}  // namespace

Part part_of(std::size_t count, int rank, int ranks) {
  const std::size_t base = count / std::size_t(ranks), more = count % std::size_t(ranks), r = std::size_t(rank);
  const std::size_t begin = base * r + std::min(r, more);
  return {begin, begin + base + (r < more ? 1 : 0)};
}

std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  const std::uint64_t key = finalize(finalize(seed + kGamma) + kGamma * (stream + 1));
  return finalize(key + kGamma * (counter + 1));
}

std::uint64_t random_below(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter, std::uint64_t bound) {
  return std::uint64_t((Wide(random_word(seed, stream, counter)) * bound) >> 64);
}

Result<Sampler> Sampler::create(SamplerOptions options) {
  if (options.rows == 0) return InvalidArgumentError("a sampler of an empty data set");
  if (options.batch == 0) return InvalidArgumentError("a global batch of no rows");
  if (options.sampling == Sampling::kListed) {
    if (options.listed.empty()) return InvalidArgumentError("an empty list of rows");
    const std::uint64_t most = *std::max_element(options.listed.begin(), options.listed.end());
    if (most >= options.rows)
      return InvalidArgumentError("the list names row " + std::to_string(most) + " of " + std::to_string(options.rows));
  }
  return Sampler(std::move(options));
}

void Sampler::rows(std::int64_t step, Part part, std::vector<std::uint64_t>& out) {
  out.clear();
  out.reserve(part.size());
  const std::uint64_t first = std::uint64_t(step) * options_.batch;
  for (std::uint64_t at = first + part.begin; at < first + part.end; ++at) {
    switch (options_.sampling) {
      case Sampling::kShuffled: out.push_back(epoch_order(at / options_.rows)[at % options_.rows]); break;
      case Sampling::kUniform: out.push_back(random_below(options_.seed, kUniformStream, at, options_.rows)); break;
      case Sampling::kListed: out.push_back(options_.listed[at % options_.listed.size()]); break;
    }
  }
}

double Sampler::epochs(std::int64_t step) const {
  return double(step) * double(options_.batch) / double(options_.rows);
}

std::string Sampler::describe() const {
  std::string text = "sampling " + std::to_string(int(options_.sampling)) + " of " + std::to_string(options_.rows) +
                     " rows by " + std::to_string(options_.batch) + " seed " + std::to_string(options_.seed);
  if (options_.sampling == Sampling::kListed) {
    std::uint64_t hash = options_.listed.size();
    for (const std::uint64_t row : options_.listed) hash = finalize(hash * kGamma + row);
    text += " list " + std::to_string(hash);
  }
  return text;
}

std::span<const std::uint64_t> Sampler::epoch_order(std::uint64_t epoch) {
  if (epoch == cached_epoch_) return order_;
  order_.resize(options_.rows);
  std::iota(order_.begin(), order_.end(), std::uint64_t(0));
  for (std::uint64_t i = options_.rows - 1; i > 0; --i)
    std::swap(order_[i], order_[random_below(options_.seed, kEpochStream + epoch, i, i + 1)]);
  cached_epoch_ = epoch;
  return order_;
}

}  // namespace troupe::train
