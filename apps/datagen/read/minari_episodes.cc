#include "apps/datagen/read/minari_episodes.h"

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/input_file.h"
#include "apps/datagen/formats/minari/hdf5_plugin.h"
#include "apps/datagen/read/episodes_builder.h"

namespace datagen {
namespace {

constexpr std::uint64_t kWordsMax = 64 << 20;  // bounds of an observation's every number may be in them

struct Words {
  std::string env, observation_space, action_space;
  std::uint64_t episodes = 0;
};

std::string text_of(const boost::json::object& words, const char* key) {
  const boost::json::value* const found = words.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

Words read_words(const std::filesystem::path& path) {
  const std::string text = apps::read_input(path, kWordsMax).value();
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(text, failed);
  if (failed || !json.is_object()) troupe::SerializationError(path.string() + " is no JSON").raise();
  const boost::json::object& words = json.get_object();
  if (text_of(words, "data_format") != "hdf5")
    troupe::InvalidArgumentError(fmt::format("{}: a data set of the format '{}'; only 'hdf5' is read", path.string(),
                                             text_of(words, "data_format")))
        .raise();
  const boost::json::value* const episodes = words.if_contains("total_episodes");
  Words out{.env = env_id_of(text_of(words, "env_spec"), text_of(words, "env"), text_of(words, "dataset_id")),
            .observation_space = text_of(words, "observation_space"),
            .action_space = text_of(words, "action_space"),
            .episodes = 0};
  if (episodes != nullptr && episodes->is_number()) out.episodes = episodes->to_number<std::uint64_t>(failed);
  if (episodes == nullptr || !episodes->is_number() || failed || out.episodes == 0)
    troupe::InvalidArgumentError(path.string() + " has no number of episodes: 'total_episodes' from 1 on").raise();
  if (out.observation_space.empty() || out.action_space.empty())
    troupe::InvalidArgumentError(path.string() + " has no spaces of observations and actions").raise();
  return out;
}

StepArray as_steps(const Hdf5Array& array, std::size_t steps, const std::string& what) {
  const std::size_t width = std::accumulate(array.shape.begin() + 1, array.shape.end(), std::size_t{1},
                                            std::multiplies<>());
  if (array.shape[0] < steps) troupe::SerializationError(what + " has an array of too few steps").raise();
  return {.type = array.type,
          .steps = steps,
          .width = width,
          .bytes = std::span(array.bytes).first(steps * width * size_of(array.type))};
}

void add_episode(const MinariEpisode& episode, EpisodesBuilder& episodes, const std::string& what) {
  const std::size_t steps = episode.rewards.shape[0];
  if (steps == 0 || episode.observations.shape[0] != steps + 1)
    troupe::SerializationError(fmt::format("{} has {} rewards and {} observations", what, steps,
                                           episode.observations.shape[0]))
        .raise();
  episodes.add({.obs = as_steps(episode.observations, steps, what),
                .action = as_steps(episode.actions, steps, what),
                .reward = as_steps(episode.rewards, steps, what),
                .terminated = as_steps(episode.terminations, steps, what),
                .truncated = as_steps(episode.truncations, steps, what)},
               what);
  episodes.end_episode();
}

}  // namespace

rl::Demonstrations minari_episodes(const std::filesystem::path& folder, std::span<const EpisodesFile> files) {
  const Hdf5Plugin* const plugin = hdf5_plugin().value();
  const Words words = read_words(folder / "metadata.json");
  const EpisodesFile whole{.file = folder / "main_data.hdf5", .begin = 0, .end = words.episodes};
  if (files.empty()) files = {&whole, 1};
  EpisodesBuilder episodes((folder / "metadata.json").string(), words.env, words.observation_space, words.action_space);
  // Links lead to files beside, so what all of them have is in one of the folder's.
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code failed;
    if (!at->is_regular_file(failed)) continue;
    if (const std::uintmax_t size = at->file_size(failed); !failed) episodes.allow(size);
  }
  for (const EpisodesFile& part : files) {
    apps::open_input(part.file).value();  // HDF5 would wait for a pipe
    const auto opened = plugin->open(part.file);
    for (std::uint64_t id = part.begin; id < part.end; ++id)
      add_episode(opened->read(id), episodes, fmt::format("episode {} of {}", id, part.file.string()));
  }
  return episodes.finish(folder.string());
}

}  // namespace datagen
