#include "apps/rl/envs/minatar/minatar_vector_env.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/rl/envs/minatar/breakout.h"
#include "apps/rl/envs/minatar/space_invaders.h"

namespace rl {
namespace {

using minatar::Game, minatar::GameOptions, minatar::Move;

struct MinAtarEntry {
  std::string_view id;
  std::unique_ptr<Game> (*make)(const GameOptions& options);
  bool all_moves;
};

std::unique_ptr<Game> make_breakout(const GameOptions&) { return std::make_unique<minatar::Breakout>(); }
std::unique_ptr<Game> make_space_invaders(const GameOptions& options) {
  return std::make_unique<minatar::SpaceInvaders>(options.difficulty_ramping);
}

constexpr std::array<MinAtarEntry, 4> kMinAtarEntries{{{"MinAtar/Breakout-v0", &make_breakout, true},
                                                       {"MinAtar/Breakout-v1", &make_breakout, false},
                                                       {"MinAtar/SpaceInvaders-v0", &make_space_invaders, true},
                                                       {"MinAtar/SpaceInvaders-v1", &make_space_invaders, false}}};

constexpr Move kAllMoves[] = {Move::kNone, Move::kLeft, Move::kUp, Move::kRight, Move::kDown, Move::kFire};
static_assert(std::size(kAllMoves) == minatar::kMoves);

troupe::Result<GameOptions> game_options(std::string_view id, const boost::json::object& arguments) {
  GameOptions out;
  for (const auto& [name, value] : arguments) {
    if (name == "sticky_action_prob" && value.is_number()) {
      out.sticky_action_prob = value.to_number<double>();
    } else if (name == "difficulty_ramping" && value.is_bool()) {
      out.difficulty_ramping = value.get_bool();
    } else {
      return troupe::InvalidArgumentError(
          fmt::format("{} takes sticky_action_prob, a number, and difficulty_ramping, true or false, and was given "
                      "\"{}\": {}",
                      id, std::string_view(name), boost::json::serialize(value)));
    }
  }
  if (!(out.sticky_action_prob >= 0 && out.sticky_action_prob <= 1))
    return troupe::InvalidArgumentError(
        fmt::format("{}: sticky_action_prob is {}, and a probability is wanted", id, out.sticky_action_prob));
  return out;
}

EnvSpecs specs_of(std::string_view id, const Game& game, std::size_t moves, const BatchEnvOptions& options) {
  return {.id = std::string(id),
          .observation_space = Box{.dtype = DType::kBool,
                                   .shape = {minatar::kBoard, minatar::kBoard, game.channels()},
                                   .low = {0},
                                   .high = {1}},
          .action_space = Discrete{.n = static_cast<std::int64_t>(moves)},
          .max_episode_steps = options.max_episode_steps,
          .reward_threshold = {}};
}

}  // namespace

void detail::MinAtarSlot::check(ConstRows actions, std::size_t row) const {
  check_choice(actions.as<std::int64_t>()[row], static_cast<std::int64_t>(moves_.size()), row, id_);
}

StepOutcome detail::MinAtarSlot::step(ConstRows actions, std::size_t row) {
  const std::int64_t choice = actions.as<std::int64_t>()[row];
  const minatar::GameOutcome outcome = game_.step(moves_[static_cast<std::size_t>(choice)], draws_);
  return {.reward = static_cast<double>(outcome.reward), .terminated = outcome.terminal};
}

void detail::MinAtarSlot::observe(Rows row) const {
  static_assert(sizeof(bool) == 1);
  (void)row.as<bool>();  // RWS-1
  game_.game().observe({reinterpret_cast<std::uint8_t*>(row.data()), row.bytes()});
}

troupe::Result<std::unique_ptr<MinAtarVectorEnv>> MinAtarVectorEnv::make(std::string_view id,
                                                                         const BatchEnvOptions& options) {
  const auto entry = std::find_if(kMinAtarEntries.begin(), kMinAtarEntries.end(),
                                  [id](const MinAtarEntry& e) { return e.id == id; });
  if (entry == kMinAtarEntries.end())
    return troupe::InvalidArgumentError(fmt::format("there is no game {}", id));
  if (options.num_envs == 0) return troupe::InvalidArgumentError("at least one environment is needed");
  if (options.max_episode_steps && *options.max_episode_steps < 1)
    return troupe::InvalidArgumentError("an episode has at least one step");
  const auto game_is = game_options(id, options.kwargs);
  if (!game_is.ok()) return game_is.error_ptr();
  std::vector<detail::MinAtarSlot> slots;
  const std::unique_ptr<Game> sample = entry->make(*game_is);
  const std::span<const Move> moves = entry->all_moves ? std::span<const Move>(kAllMoves) : sample->minimal_moves();
  for (std::size_t i = 0; i < options.num_envs; ++i)
    slots.emplace_back(minatar::StickyGame(entry->make(*game_is), game_is->sticky_action_prob), moves, entry->id);
  return std::unique_ptr<MinAtarVectorEnv>(new MinAtarVectorEnv(
      std::move(slots), specs_of(entry->id, *sample, moves.size(), options), options.auto_reset));
}

std::vector<std::string_view> minatar_env_ids() {
  std::vector<std::string_view> ids;
  for (const MinAtarEntry& entry : kMinAtarEntries) ids.push_back(entry.id);
  return ids;
}

}  // namespace rl
