#include "apps/datagen/read/parquet_episodes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "apps/common/input_file.h"
#include "apps/datagen/formats/parquet/parquet_plugin.h"
#include "apps/datagen/read/episodes_builder.h"

namespace datagen {
namespace {

std::string word_or_none(const Schema& schema, const char* key) {
  const auto found = schema.metadata.find(key);
  return found == schema.metadata.end() ? std::string() : found->second;
}

std::string word(const Schema& schema, const char* key, const std::filesystem::path& file) {
  const auto found = schema.metadata.find(key);
  if (found == schema.metadata.end())
    troupe::InvalidArgumentError(
        fmt::format("{} holds no episodes: there is no '{}' in its metadata", file.string(), key))
        .raise();
  return found->second;
}

StepArray step_array(const Table& table, const char* name, const std::filesystem::path& file) {
  const std::size_t at = table.schema().find(name);
  if (at == table.schema().fields.size())
    troupe::InvalidArgumentError(fmt::format("{} holds no episodes: it has no column '{}'", file.string(), name))
        .raise();
  const Column& column = table.column(at);
  if (std::ranges::find(column.valid(), std::uint8_t{0}) != column.valid().end())
    troupe::SerializationError(fmt::format("{}: column '{}' has rows without a value", file.string(), name)).raise();
  return {.type = column.field().type,
          .steps = column.rows(),
          .width = column.field().elements(),
          .bytes = column.data()};
}

}  // namespace

rl::Demonstrations parquet_episodes(std::span<const std::filesystem::path> files) {
  const ParquetPlugin* const plugin = parquet_plugin().value();
  std::optional<EpisodesBuilder> episodes;
  for (const std::filesystem::path& file : files) {
    apps::open_input(file).value();  // Arrow would wait for a pipe
    const auto reader = plugin->open_reader(file);
    const Schema& schema = *reader->schema();
    if (!episodes) {
      episodes.emplace(file.string(),
                       env_id_of(word_or_none(schema, "env_spec"), word_or_none(schema, "env"), file.stem().string()),
                       word(schema, "observation_space", file), word(schema, "action_space", file));
    }
    episodes->allow(std::filesystem::file_size(file));
    Table table(reader->schema());
    while (reader->next(table))
      episodes->add({.obs = step_array(table, "obs", file),
                     .action = step_array(table, "action", file),
                     .reward = step_array(table, "reward", file),
                     .terminated = step_array(table, "terminated", file),
                     .truncated = step_array(table, "truncated", file)},
                    file.string());
  }
  if (!episodes) troupe::InvalidArgumentError("a data set without a file").raise();
  return episodes->finish(files.front().parent_path().string());
}

}  // namespace datagen
