#include "apps/rl/samples/fragments.h"

#include <limits>

#include <fmt/format.h>

#include <troupe/error.h>

namespace rl {

std::vector<Column> fragment_columns(const Space& observation_space, const Space& action_space,
                                     std::size_t mask_width) {
  std::vector<Column> out{column_of("obs", observation_space), column_of("action", action_space),
                          {.name = "log_prob"},                {.name = "reward"},
                          {.name = "discount"},                {.name = "next", .dtype = DType::kInt64}};
  if (mask_width != 0) out.push_back(mask_column(mask_width));
  return out;
}

FragmentOut fragment_out(const SampleLayout& layout, std::byte* memory) {
  const auto floats = [&](const char* name) { return layout.column(name, memory).as<float>(); };
  return {.obs = layout.column("obs", memory),
          .action = layout.column("action", memory),
          .log_prob = floats("log_prob"),
          .reward = floats("reward"),
          .discount = floats("discount"),
          .next = layout.column("next", memory).as<std::int64_t>(),
          .mask = layout.has(kMaskColumn) ? layout.column(kMaskColumn, memory) : Rows()};
}

FragmentView fragment_view(const SampleView& samples) {
  const auto floats = [&](const char* name) { return samples.column(name).as<float>(); };
  return {.obs = samples.column("obs"),
          .action = samples.column("action"),
          .log_prob = floats("log_prob"),
          .reward = floats("reward"),
          .discount = floats("discount"),
          .next = samples.column("next").as<std::int64_t>(),
          .mask = samples.has(kMaskColumn) ? samples.column(kMaskColumn) : ConstRows()};
}

OwnedSamples join_fragments(std::span<const SampleView> parts) {
  OwnedSamples out = concatenate(parts);
  const std::span<std::int64_t> next = out.column("next").as<std::int64_t>();
  std::size_t begin = 0;
  for (const SampleView& part : parts) {
    for (std::int64_t& one : next.subspan(begin, part.rows()))
      if (one >= 0) one += static_cast<std::int64_t>(begin);
    begin += part.rows();
  }
  return out;
}

OwnedSamples chains_of(const SampleView& samples, std::size_t part, std::size_t parts) {
  const std::span<const std::int64_t> next = fragment_view(samples).next;
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> chain(next.size(), kNone);  // of each row
  std::vector<std::uint32_t> rows;
  std::vector<std::int64_t> new_row(next.size(), -1);
  std::size_t chains = 0;
  for (std::size_t row = 0; row < next.size(); ++row) {
    if (chain[row] == kNone) chain[row] = chains++;
    if (next[row] >= 0) {
      const auto to = static_cast<std::size_t>(next[row]);
      if (to < row || to >= next.size())
        troupe::InvalidArgumentError(fmt::format("row {} of a fragment names row {} as its next", row, to)).raise();
      chain[to] = chain[row];
    }
    if (chain[row] % parts != part) continue;
    new_row[row] = static_cast<std::int64_t>(rows.size());
    rows.push_back(static_cast<std::uint32_t>(row));
  }
  const std::span<const Column> columns = samples.layout.columns();
  OwnedSamples out({columns.begin(), columns.end()}, rows.size());
  for (const Column& column : columns) gather(samples.column(column.name), rows, out.column(column.name));
  for (std::int64_t& one : out.column("next").as<std::int64_t>())
    if (one >= 0) one = new_row[static_cast<std::size_t>(one)];
  return out;
}

}  // namespace rl
