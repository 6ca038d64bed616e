#include "apps/rl/replay/replay_buffer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr std::size_t kMostRows = std::size_t{1} << 31;

const ReplayBufferOptions& checked_replay(const ReplayBufferOptions& options) {
  if (options.capacity == 0 || options.capacity > kMostRows)
    troupe::InvalidArgumentError(fmt::format("a replay of {} rows", options.capacity)).raise();
  if (options.columns.empty()) troupe::InvalidArgumentError("a replay without columns").raise();
  if (const auto& p = options.priorities; p && (!(p->alpha >= 0) || !(p->epsilon > 0) || !std::isfinite(p->alpha)))
    troupe::InvalidArgumentError(
        fmt::format("priorities need an alpha of at least 0 and an epsilon above it, not {} and {}", p->alpha,
                    p->epsilon))
        .raise();
  return options;
}

std::size_t row_bytes(const Column& column) { return column.width * size_of(column.dtype); }

}  // namespace

ReplayMass merged(std::span<const ReplayMass> shards) {
  ReplayMass out;
  for (const ReplayMass& shard : shards) {
    if (shard.rows == 0) continue;
    out.smallest = out.rows == 0 ? shard.smallest : std::min(out.smallest, shard.smallest);
    out.rows += shard.rows;
    out.total += shard.total;
  }
  return out;
}

std::vector<std::size_t> allot_draws(std::span<const ReplayMass> shards, std::size_t draws, Generator& generator) {
  const double total = merged(shards).total;
  if (!(total > 0)) troupe::InvalidArgumentError("drawing from an empty replay").raise();
  std::size_t last = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].total > 0) last = i;
  }
  std::vector<std::size_t> out(shards.size());
  for (std::size_t i = 0; i < draws; ++i) {
    double mass = (static_cast<double>(i) + generator.random()) * total / static_cast<double>(draws);
    std::size_t shard = 0;
    // Rounding may leave a little more mass than there is.
    while (shard < last && mass >= shards[shard].total) mass -= shards[shard++].total;
    ++out[shard];
  }
  return out;
}

ReplayBuffer::ReplayBuffer(const ReplayBufferOptions& options)
    : options_(checked_replay(options)), sample_columns_(options.columns) {
  sample_columns_.push_back({.name = "weight"});
  sample_columns_.push_back({.name = "index", .dtype = DType::kInt64});
  sample_columns_.push_back({.name = "generation", .dtype = DType::kInt64});
  const SampleLayout names_are_different(sample_columns_, 0);  // or it throws
  ring_ = OwnedSamples(options.columns, options.capacity);
  generation_.resize(options.capacity);
  set_up_tree();
}

void ReplayBuffer::set_up_tree() {
  if (const auto& p = options_.priorities)
    tree_.emplace(ReplayOptions{.capacity = options_.capacity, .alpha = p->alpha, .epsilon = p->epsilon});
}

ReplayMass ReplayBuffer::mass() const {
  if (rows_ == 0) return {};
  if (tree_) return {.rows = rows_, .total = tree_->total(), .smallest = tree_->smallest_mass()};
  return {.rows = rows_, .total = static_cast<double>(rows_), .smallest = 1};
}

void ReplayBuffer::add(const SampleView& samples) {
  if (!std::ranges::equal(samples.layout.columns(), options_.columns))
    troupe::InvalidArgumentError("samples of other columns than the replay's").raise();
  for (std::size_t done = 0; done < samples.rows();) {
    const std::size_t count = std::min(samples.rows() - done, options_.capacity - next_);
    for (const Column& column : options_.columns) {
      const ConstRows from = samples.column(column.name).slice(done, count);
      std::memcpy(ring_.column(column.name).slice(next_, count).data(), from.data(), from.bytes());
    }
    for (std::size_t place = next_; place < next_ + count; ++place) {
      ++generation_[place];
      if (tree_) tree_->update(place, largest_error_);  // RPB-1
    }
    done += count;
    rows_ = std::max(rows_, next_ + count);
    next_ = (next_ + count) % options_.capacity;
  }
}

void ReplayBuffer::sample(const ReplayDraw& draw, Generator& generator, const SampleLayout& layout,
                          std::byte* memory) {
  if (rows_ == 0) troupe::InvalidArgumentError("drawing from an empty replay").raise();
  if (!std::ranges::equal(layout.columns(), sample_columns_))
    troupe::InvalidArgumentError("a batch of other columns than the replay's").raise();
  drawn_.resize(layout.rows());
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    if (!tree_) {
      drawn_[i] = generator.integers(static_cast<std::uint32_t>(rows_));
      continue;
    }
    const double mass = (static_cast<double>(i) + generator.random()) * tree_->total() /  // PR-2
                        static_cast<double>(drawn_.size());
    drawn_[i] = static_cast<std::uint32_t>(tree_->find(mass));
  }
  for (const Column& column : options_.columns)
    gather(ring_.column(column.name), drawn_, layout.column(column.name, memory));
  const std::span<float> weight = layout.column("weight", memory).as<float>();
  const std::span<std::int64_t> index = layout.column("index", memory).as<std::int64_t>();
  const std::span<std::int64_t> generation = layout.column("generation", memory).as<std::int64_t>();
  const double smallest = draw.all ? draw.all->smallest : mass().smallest;
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    // What other shards said may be older than a priority here: no weight is above 1.
    weight[i] = tree_ ? static_cast<float>(std::min(1.0, std::pow(tree_->mass(drawn_[i]) / smallest, -draw.beta))) : 1;
    index[i] = drawn_[i];
    generation[i] = generation_[drawn_[i]];
  }
}

std::size_t ReplayBuffer::update_priorities(std::span<const std::int64_t> index,
                                            std::span<const std::int64_t> generation,
                                            std::span<const float> abs_errors) {
  if (!tree_) troupe::InvalidArgumentError("a uniform replay has no priorities").raise();
  if (index.size() != generation.size() || index.size() != abs_errors.size())
    troupe::InvalidArgumentError(fmt::format("{} indices, {} generations and {} errors", index.size(),
                                             generation.size(), abs_errors.size()))
        .raise();
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= static_cast<std::int64_t>(rows_))
      troupe::InvalidArgumentError(fmt::format("no row {} in a replay of {}", index[i], rows_)).raise();
    if (!(abs_errors[i] >= 0) || !std::isfinite(abs_errors[i]))
      troupe::InvalidArgumentError(fmt::format("an error of {} is no priority", abs_errors[i])).raise();
  }
  std::size_t stale = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto place = static_cast<std::size_t>(index[i]);
    if (generation_[place] != generation[i]) {  // RPB-3
      ++stale;
      continue;
    }
    tree_->update(place, static_cast<double>(abs_errors[i]));
    largest_error_ = std::max(largest_error_, static_cast<double>(abs_errors[i]));
  }
  return stale;
}

StateDict ReplayBuffer::save() const {
  StateDict out;
  for (const Column& column : options_.columns) {
    const ConstRows rows = ring_.view().column(column.name).slice(0, rows_);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
    out.put("column/" + column.name, std::vector<std::uint8_t>(bytes, bytes + rows.bytes()));
  }
  out.put("generation", std::vector<std::int64_t>(generation_.begin(),
                                                  generation_.begin() + static_cast<std::ptrdiff_t>(rows_)));
  out.put_one("capacity", static_cast<std::int64_t>(options_.capacity));
  out.put_one("next", static_cast<std::int64_t>(next_));
  if (tree_) {
    std::vector<double> priorities(rows_);
    for (std::size_t i = 0; i < rows_; ++i) priorities[i] = tree_->priority(i);
    out.put("priority", std::move(priorities));
    out.put_one("largest_error", largest_error_);
  }
  return out;
}

void ReplayBuffer::restore(const StateDict& state) {
  const auto refuse = [](const std::string& why) { troupe::SerializationError("the state's replay " + why).raise(); };
  const auto capacity = state.get_one<std::int64_t>("capacity"), next = state.get_one<std::int64_t>("next");
  const auto& generation = state.get<std::int64_t>("generation");
  if (capacity != static_cast<std::int64_t>(options_.capacity))
    refuse(fmt::format("has room for {} rows where {} are wanted", capacity, options_.capacity));
  if (generation.size() > options_.capacity || next < 0 || next >= capacity ||
      (generation.size() < options_.capacity && next != static_cast<std::int64_t>(generation.size())))
    refuse(fmt::format("has {} rows and goes on at {}", generation.size(), next));
  for (const Column& column : options_.columns)
    static_cast<void>(state.get<std::uint8_t>("column/" + column.name, generation.size() * row_bytes(column)));
  const std::vector<double>* priorities = nullptr;
  double largest_error = 1;
  if (tree_) {
    priorities = &state.get<double>("priority", generation.size());
    largest_error = state.get_one<double>("largest_error");
    for (const double priority : *priorities) {
      if (!(priority > 0) || !std::isfinite(priority)) refuse(fmt::format("has a priority of {}", priority));
    }
  }

  for (const Column& column : options_.columns) {
    const auto& bytes = state.get<std::uint8_t>("column/" + column.name);
    if (!bytes.empty()) std::memcpy(ring_.column(column.name).data(), bytes.data(), bytes.size());
  }
  std::ranges::fill(generation_, 0);
  std::ranges::copy(generation, generation_.begin());
  rows_ = generation.size(), next_ = static_cast<std::size_t>(next);
  set_up_tree();
  if (priorities != nullptr) {
    for (std::size_t i = 0; i < rows_; ++i) tree_->restore(i, (*priorities)[i]);
    largest_error_ = largest_error;
  }
}

}  // namespace rl
