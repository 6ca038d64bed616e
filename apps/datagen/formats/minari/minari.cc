#include "apps/datagen/formats/minari/minari.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/common/output_file.h"
#include "apps/datagen/formats/minari/hdf5_plugin.h"
#include "apps/datagen/formats/minari/minari_json.h"
#include "apps/datagen/formats/plugin/plugin_file.h"
#include "apps/datagen/formats/shard_path.h"

namespace datagen {
namespace {

constexpr const char* kMainFile = "data/main_data.hdf5";
constexpr const char* kMetadataFile = "data/metadata.json";

std::vector<std::size_t> with_steps(std::size_t steps, const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> out{steps};
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

class MinariWriter final : public ShardWriter {
 public:
  MinariWriter(const Schema& schema, std::uint64_t first, std::unique_ptr<Hdf5ShardFile> file, ByteSink& sink)
      : obs_(schema.find("obs")),
        action_(schema.find("action")),
        reward_(schema.find("reward")),
        terminated_(schema.find("terminated")),
        truncated_(schema.find("truncated")),
        final_obs_(schema.find("final_obs")),
        seed_(schema.find("seed")),
        episode_(first),
        file_(std::move(file)),
        sink_(sink) {}

  void append(const Table& table) override {
    std::size_t begin = 0;
    for (const std::uint64_t end : table.sample_ends()) {
      add_episode(table, begin, end);
      begin = end;
    }
  }

  void finish() override { sink_.write(file_->finish()); }

 private:
  static Hdf5View rows_of(const Column& column, std::size_t begin, std::size_t end) {
    const std::size_t bytes = column.field().elements() * size_of(column.field().type);
    return {.type = column.field().type,
            .shape = with_steps(end - begin, column.field().shape),
            .bytes = column.data().subspan(begin * bytes, (end - begin) * bytes)};
  }

  void add_episode(const Table& table, std::size_t begin, std::size_t end) {
    const Column& last = table.column(final_obs_);
    if (last.is_null(end - 1))
      troupe::InvalidArgumentError(fmt::format("episode {} has no 'final_obs' in its last row", episode_)).raise();
    MinariEpisodeView episode;
    episode.id = episode_;
    episode.observations = rows_of(table.column(obs_), begin, end);
    const auto final_view = rows_of(last, end - 1, end);
    observations_.assign(episode.observations.bytes.begin(), episode.observations.bytes.end());
    observations_.insert(observations_.end(), final_view.bytes.begin(), final_view.bytes.end());
    ++episode.observations.shape[0];
    episode.observations.bytes = observations_;
    episode.actions = rows_of(table.column(action_), begin, end);
    episode.rewards = rows_of(table.column(reward_), begin, end);
    if (episode.rewards.type == Type::kFloat32) widen(table.column(reward_).values<float>().subspan(begin, end - begin),
                                                      episode.rewards);
    episode.terminations = rows_of(table.column(terminated_), begin, end);
    episode.truncations = rows_of(table.column(truncated_), begin, end);
    if (seed_ != table.schema().fields.size()) episode.seed = table.column(seed_).values<std::int64_t>()[begin];
    file_->add(episode);
    ++episode_;
  }

  void widen(std::span<const float> rewards, Hdf5View& view) {
    rewards_.assign(rewards.begin(), rewards.end());
    view.type = Type::kFloat64;
    view.bytes = std::as_bytes(std::span(rewards_));
  }

  std::size_t obs_, action_, reward_, terminated_, truncated_, final_obs_, seed_;
  std::uint64_t episode_;
  std::unique_ptr<Hdf5ShardFile> file_;
  ByteSink& sink_;
  std::vector<std::byte> observations_;
  std::vector<double> rewards_;
};

troupe::Status check_column(const Schema& schema, std::string_view name, bool (*fits)(const Field&)) {
  const std::size_t at = schema.find(name);
  if (at != schema.fields.size() && fits(schema.fields[at])) return {};
  return troupe::InvalidArgumentError(
      fmt::format("minari takes episodes: the column '{}' is {}", name,
                  at == schema.fields.size() ? "missing" : "of another type"));  // MNR-1
}

bool is_number(const Field& field) { return size_of(field.type) != 0; }
bool is_flag(const Field& field) { return field.type == Type::kBool && field.shape.empty(); }
bool is_reward(const Field& field) {
  return (field.type == Type::kFloat32 || field.type == Type::kFloat64) && field.shape.empty();
}
bool is_seed(const Field& field) { return field.type == Type::kInt64 && field.shape.empty(); }

std::vector<std::string> one_or_none(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : std::vector{text};
}

class MinariOptions final : public FormatOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "dataset_id", .help = "Minari's: NAME-vN, or NAMESPACE/NAME-vN; empty: of the folder's name",
             .value = &dataset_id_},
            {.name = "algorithm_name", .help = "A word about what played", .value = &algorithm_name_},
            {.name = "author", .help = "Who made it", .value = &author_},
            {.name = "author_email", .help = "Where to reach them", .value = &author_email_},
            {.name = "code_permalink", .help = "Where the code is", .value = &code_permalink_}};
  }

  troupe::Result<std::map<std::string, std::string>> libraries() override {
    const auto plugin = hdf5_plugin();
    if (!plugin.ok()) return plugin.error_ptr();
    return std::map<std::string, std::string>{{"hdf5", (*plugin)->library_version()}};
  }

  std::string shard_name(const ShardInfo& shard) const override { return shard_path(shard, "shard", "hdf5"); }

  troupe::Status check(const Schema& schema) const override {
    if (troupe::Status status = check_schema(schema); !status.ok()) return status;
    for (const auto& [name, fits] : {std::pair("obs", &is_number), std::pair("action", &is_number),
                                     std::pair("final_obs", &is_number), std::pair("reward", &is_reward),
                                     std::pair("terminated", &is_flag), std::pair("truncated", &is_flag)})
      if (troupe::Status status = check_column(schema, name, fits); !status.ok()) return status;
    if (schema.find("seed") != schema.fields.size())
      if (troupe::Status status = check_column(schema, "seed", &is_seed); !status.ok()) return status;
    const Field &obs = schema.fields[schema.find("obs")], &last = schema.fields[schema.find("final_obs")];
    if (obs.type != last.type || obs.shape != last.shape)
      return troupe::InvalidArgumentError("minari takes episodes: 'obs' and 'final_obs' are of one type and shape");
    const auto words = words_of(schema);
    return words.ok() ? troupe::Status() : troupe::Status(words.error_ptr());
  }

  troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema, const ShardInfo& shard,
                                                    ByteSink& sink) override {
    const auto plugin = hdf5_plugin();
    if (!plugin.ok()) return plugin.error_ptr();
    return std::unique_ptr<ShardWriter>(
        std::make_unique<MinariWriter>(*schema, shard.range.begin, (*plugin)->create(), sink));
  }

  troupe::Result<std::vector<std::string>> finish_dataset(const FinishedDataset& dataset) override {
    const auto plugin = hdf5_plugin();
    if (!plugin.ok()) return plugin.error_ptr();
    std::vector<Hdf5Link> links;
    for (const FinishedShard& shard : dataset.shards)
      for (std::uint64_t id = shard.range.begin; id < shard.range.end; ++id)
        links.push_back({.id = id, .file = std::filesystem::path(shard.name).filename().string()});
    auto words = words_of(*dataset.schema);
    if (!words.ok()) return words.error_ptr();
    words->dataset_id = minari_dataset_id(dataset_id_.empty() ? dataset.name : dataset_id_);
    words->episodes = links.size();
    for (const FinishedShard& shard : dataset.shards) {
      words->steps += shard.rows;
      words->bytes += shard.bytes;
    }
    const auto metadata = minari_metadata(*words);
    if (!metadata.ok()) return metadata.error_ptr();
    const std::vector<std::byte> main = (*plugin)->links(links);
    for (const auto& [name, bytes] :
         {std::pair(kMainFile, std::string(reinterpret_cast<const char*>(main.data()), main.size())),
          std::pair(kMetadataFile, *metadata)})  // FMT-2: the words last
      if (troupe::Status written = apps::write_file(dataset.folder / name, bytes); !written.ok())
        return written.error_ptr();
    return std::vector<std::string>{kMainFile, kMetadataFile};
  }

 private:
  /// InvalidArgumentError or SerializationError: the schema's metadata is not that of episodes.
  [[nodiscard]] troupe::Result<MinariWords> words_of(const Schema& schema) const {
    MinariWords words;
    words.authors = one_or_none(author_);
    words.emails = one_or_none(author_email_);
    for (const auto& [key, value] : schema.metadata) {
      if (key == "observation_space") words.observation_space = value;
      else if (key == "action_space") words.action_space = value;
      else if (key == "env_spec") words.env_spec = value;
      else words.more[key] = value;
    }
    if (!algorithm_name_.empty()) words.more["algorithm_name"] = algorithm_name_;
    if (!code_permalink_.empty()) words.more["code_permalink"] = code_permalink_;
    if (words.observation_space.empty() || words.action_space.empty())
      return troupe::InvalidArgumentError(
          "minari takes episodes: the schema's metadata has no 'observation_space' or no 'action_space'");
    if (const auto text = minari_metadata(words); !text.ok()) return text.error_ptr();
    return words;
  }

  std::string dataset_id_, algorithm_name_, author_, author_email_, code_permalink_;
};

}  // namespace

troupe::Result<const Hdf5Plugin*> hdf5_plugin() {
  static const auto opened = open_plugin({.file = "libdatagen_hdf5.so",
                                          .function = kHdf5PluginFunction,
                                          .version = kHdf5PluginVersion,
                                          .needs = "Minari data sets need HDF5"});
  if (!opened.ok()) return opened.error_ptr();
  return static_cast<const Hdf5Plugin*>(*opened);
}

FormatKind minari_format() {
  return {.name = "minari",
          .help = "episodes as minari reads them: HDF5",
          .options = [] { return std::make_unique<MinariOptions>(); }};
}

}  // namespace datagen
