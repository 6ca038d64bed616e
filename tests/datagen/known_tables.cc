#include "tests/datagen/known_tables.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace datagen_test {
namespace {

using datagen::Content;
using datagen::Table;
using datagen::Type;

std::shared_ptr<const datagen::Schema> rows_schema() {
  return std::make_shared<const datagen::Schema>(datagen::Schema{
      .fields = {{.name = "flag", .type = Type::kBool},
                 {.name = "small", .type = Type::kUInt8},
                 {.name = "count", .type = Type::kInt32},
                 {.name = "big", .type = Type::kInt64},
                 {.name = "x", .type = Type::kFloat32},
                 {.name = "y", .type = Type::kFloat64, .nullable = true},
                 {.name = "vector", .type = Type::kFloat32, .shape = {3}, .nullable = true},
                 {.name = "matrix", .type = Type::kInt64, .shape = {2, 3}},
                 {.name = "mask", .type = Type::kBool, .shape = {5}},
                 {.name = "picture", .type = Type::kUInt8, .shape = {4, 5, 3}, .content = Content::kImage},
                 {.name = "label", .type = Type::kInt32, .content = Content::kClass},
                 {.name = "caption", .type = Type::kString, .nullable = true},
                 {.name = "boxes", .type = Type::kString, .content = Content::kJson},
                 {.name = "blob", .type = Type::kBytes}},
      .metadata = {{"made_by", "a test"}, {"words", "é \"quoted\""}}});
}

float special(std::uint64_t i) {
  switch (i) {
    case 0: return 0.1f;
    case 1: return -0.0f;
    case 2: return std::numeric_limits<float>::denorm_min();
    case 3: return std::numeric_limits<float>::max();
    case 4: return -std::numeric_limits<float>::infinity();
    case 5: return std::numeric_limits<float>::quiet_NaN();
    default: return static_cast<float>(i) / 3.0f;
  }
}

void fill_row(Table& table, std::size_t row, std::uint64_t i) {
  table.column(0).values<bool>()[row] = i % 3 == 0;
  table.column(1).values<std::uint8_t>()[row] = static_cast<std::uint8_t>(i * 37);
  table.column(2).values<std::int32_t>()[row] = static_cast<std::int32_t>(i * 1000) - 5;
  table.column(3).values<std::int64_t>()[row] = std::int64_t{1} << (i % 63);
  table.column(4).values<float>()[row] = special(i);
  table.column(5).values<double>()[row] = 1.0 / static_cast<double>(i + 3);
  if (i % 4 == 1) table.column(5).set_null(row);
  for (std::size_t k = 0; k < 3; ++k)
    table.column(6).values<float>()[3 * row + k] = static_cast<float>(i) + static_cast<float>(k) * 0.25f;
  if (i % 5 == 2) table.column(6).set_null(row);
  for (std::size_t k = 0; k < 6; ++k)
    table.column(7).values<std::int64_t>()[6 * row + k] = static_cast<std::int64_t>(10 * i + k);
  for (std::size_t k = 0; k < 5; ++k) table.column(8).values<bool>()[5 * row + k] = (i + k) % 2 == 0;
  for (std::size_t k = 0; k < 60; ++k)
    table.column(9).values<std::uint8_t>()[60 * row + k] = static_cast<std::uint8_t>(i * 61 + k * 7);
  table.column(10).values<std::int32_t>()[row] = static_cast<std::int32_t>(i % 10);
  table.column(11).append(i % 6 == 5 ? std::string() : fmt::format("caption {} \"é\"\n\t\\ 漢字", i));
  if (i % 6 == 5) table.column(11).set_null(row);
  table.column(12).append(fmt::format("[{{\"x\": {}.5}},\n {}]", i, i));
  std::string blob;
  for (std::uint64_t k = 0; k < i; ++k) blob += static_cast<char>(static_cast<unsigned char>(k * 31 + i));
  table.column(13).append(blob);
}

constexpr const char* kCartPoleSpec =
    R"({"id":"CartPole-v1","entry_point":"gymnasium.envs.classic_control.cartpole:CartPoleEnv",)"
    R"("reward_threshold":475.0,"nondeterministic":false,"max_episode_steps":500,"order_enforce":true,)"
    R"("disable_env_checker":false,"kwargs":{},"additional_wrappers":[],"vector_entry_point":null})";

std::shared_ptr<const datagen::Schema> episodes_schema() {
  return std::make_shared<const datagen::Schema>(datagen::Schema{
      .fields = {{.name = "episode_id", .type = Type::kInt64},
                 {.name = "t", .type = Type::kInt64},
                 {.name = "seed", .type = Type::kInt64},
                 {.name = "obs", .type = Type::kFloat32, .shape = {4}},
                 {.name = "action", .type = Type::kInt64},
                 {.name = "reward", .type = Type::kFloat64},
                 {.name = "terminated", .type = Type::kBool},
                 {.name = "truncated", .type = Type::kBool},
                 {.name = "logp", .type = Type::kFloat32, .nullable = true},
                 {.name = "policy_version", .type = Type::kInt64},
                 {.name = "final_obs", .type = Type::kFloat32, .shape = {4}, .nullable = true}},
      .metadata = {{"env_spec", kCartPoleSpec},
                   {"observation_space",
                    R"({"type":"Box","dtype":"float32","shape":[4],"low":[-4.8,"-inf",-0.41887903,"-inf"],)"
                    R"("high":[4.8,"inf",0.41887903,"inf"]})"},
                   {"action_space", R"({"type":"Discrete","dtype":"int64","n":2,"start":0})"},
                   {"policy_sha256", "00ff"}}});
}

void fill_step(Table& table, std::size_t row, std::uint64_t episode, std::uint64_t t, bool last) {
  table.column(0).values<std::int64_t>()[row] = static_cast<std::int64_t>(episode);
  table.column(1).values<std::int64_t>()[row] = static_cast<std::int64_t>(t);
  table.column(2).values<std::int64_t>()[row] = static_cast<std::int64_t>(1000 + episode);
  for (std::size_t k = 0; k < 4; ++k) {
    table.column(3).values<float>()[4 * row + k] = static_cast<float>(episode * 100 + t * 10 + k) / 7.0f;
    table.column(10).values<float>()[4 * row + k] = static_cast<float>(episode * 100 + t * 10 + 10 + k) / 7.0f;
  }
  table.column(4).values<std::int64_t>()[row] = static_cast<std::int64_t>((episode + t) % 2);
  table.column(5).values<double>()[row] = 0.1 * static_cast<double>(t + 1) + static_cast<double>(episode);
  table.column(6).values<bool>()[row] = last && episode % 2 == 0;
  table.column(7).values<bool>()[row] = last && episode % 2 == 1;
  table.column(8).values<float>()[row] = -0.5f * static_cast<float>(t + 1);
  if (episode % 3 == 1) table.column(8).set_null(row);
  table.column(9).values<std::int64_t>()[row] = 3;
  if (!last) table.column(10).set_null(row);
}

void fill_episode(Table& table, std::uint64_t episode) {
  const std::uint64_t steps = episode % 3 + 1;
  const std::size_t begin = table.rows();
  table.resize(begin + steps);
  for (std::uint64_t t = 0; t < steps; ++t) fill_step(table, begin + t, episode, t, t + 1 == steps);
  table.end_sample(begin + steps);
}

void generate_rows(Table& table, datagen::SampleRange range) {
  table.resize(range.size());
  for (std::uint64_t i = range.begin; i < range.end; ++i) fill_row(table, i - range.begin, i);
  table.rows_are_samples();
}

void generate_episodes(Table& table, datagen::SampleRange range) {
  for (std::uint64_t i = range.begin; i < range.end; ++i) fill_episode(table, i);
}

}  // namespace

KnownTable known_table(std::string_view name) {
  const bool rows = name == "rows";
  const auto schema = rows ? rows_schema() : episodes_schema();
  return {.schema = schema, .generate = [schema, rows](datagen::SampleRange range, const datagen::TableSink& sink) {
            Table table(schema);
            for (std::uint64_t i = range.begin; i < range.end; i += 4) {
              table.clear();
              const datagen::SampleRange some{i, std::min(i + 4, range.end)};
              rows ? generate_rows(table, some) : generate_episodes(table, some);
              table.check().value();
              sink(table);
            }
          }};
}

datagen::ShardInfo shard_info(std::uint64_t shard) {
  return {.index = shard,
          .count = kShards,
          .range = {shard * kSamplesOfAShard, (shard + 1) * kSamplesOfAShard}};
}

}  // namespace datagen_test
