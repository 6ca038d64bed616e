#include "apps/datagen/generators/trajectories/trajectories.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/common/precise_json.h"
#include "apps/datagen/files/sha256.h"
#include "apps/datagen/generators/file_digest.h"
#include "apps/datagen/generators/trajectories/episode_player.h"
#include "apps/datagen/generators/trajectories/mixture.h"
#include "apps/datagen/random/stream.h"

namespace datagen {
namespace {

enum TrajectoryStream : std::uint32_t { kEnvironmentSeeds, kBehaviourOf, kActionSeeds };
enum TrajectoryColumn : std::size_t {
  kEpisode, kStepOfEpisode, kSeed, kObs, kAction, kReward, kTerminated, kTruncated, kLogProb, kVersion, kFinalObs
};

// Waves of as many are played before a table is made of them: short and long behaviours wait for their own kind only.
constexpr std::uint64_t kWavesOfATable = 4;

struct TrajectorySettings {
  rl::EnvSetup env{.id = ""};
  std::string policy, medium, mixture = "expert";
  double epsilon = 0.1;
  std::uint64_t together = 32;
};

/// A policy and the digest of its file.
struct LoadedPolicy {
  rl::Policy policy;
  std::string sha256;
};

Type type_of(rl::DType dtype) {
  switch (dtype) {
    case rl::DType::kBool: return Type::kBool;
    case rl::DType::kUint8: return Type::kUInt8;
    case rl::DType::kInt32: return Type::kInt32;
    case rl::DType::kInt64: return Type::kInt64;
    case rl::DType::kFloat32: return Type::kFloat32;
    case rl::DType::kFloat64: return Type::kFloat64;
  }
  return Type::kFloat32;
}

Field field_of(std::string name, const rl::Space& space, bool nullable) {
  return {.name = std::move(name), .type = type_of(rl::dtype_of(space)), .shape = rl::shape_of(space),
          .nullable = nullable};
}

/// As Gymnasium's EnvSpec.to_json has it, so that it makes the environment again: its own words of a bridged one, ours
/// of those that it has too. None of others: a spec without an entry point is one that Gymnasium refuses to make.
std::optional<std::string> env_spec_json(const rl::EnvSetup& setup, const rl::EnvSpecs& specs) {
  if (!specs.gym_spec.empty()) return specs.gym_spec;
  static const std::map<std::string, const char*, std::less<>> classes{
      {"CartPole-v1", "gymnasium.envs.classic_control.cartpole:CartPoleEnv"},
      {"MountainCar-v0", "gymnasium.envs.classic_control.mountain_car:MountainCarEnv"},
      {"MountainCarContinuous-v0", "gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv"},
      {"Pendulum-v1", "gymnasium.envs.classic_control.pendulum:PendulumEnv"},
      {"Acrobot-v1", "gymnasium.envs.classic_control.acrobot:AcrobotEnv"}};
  const auto known = classes.find(specs.id);
  if (known == classes.end()) return std::nullopt;
  boost::json::object out;
  out["id"] = specs.id;
  out["entry_point"] = known->second;
  out["reward_threshold"] = nullptr;
  if (specs.reward_threshold) out["reward_threshold"] = *specs.reward_threshold;
  out["nondeterministic"] = false;
  out["max_episode_steps"] = nullptr;
  if (specs.max_episode_steps) out["max_episode_steps"] = *specs.max_episode_steps;
  out["order_enforce"] = true;
  out["disable_env_checker"] = false;
  boost::system::error_code failed;
  out["kwargs"] = apps::parse_json(setup.kwargs, failed);
  out["additional_wrappers"] = boost::json::array();
  out["vector_entry_point"] = nullptr;
  return boost::json::serialize(out);
}

class Trajectories final : public Generator {
 public:
  Trajectories(TrajectorySettings settings, const rl::EnvSetup& setup, Mixture mixture,
               std::optional<LoadedPolicy> policy, std::optional<LoadedPolicy> medium, const GeneratorContext& context)
      : settings_(std::move(settings)),
        setup_(setup),
        mixture_(std::move(mixture)),
        policy_(std::move(policy)),
        medium_(std::move(medium)),
        context_(context) {}

  /// Once, before anything else: what there is to say against it.
  troupe::Status begin() {
    if (troupe::Status made = make_player(1); !made.ok()) return made;
    const rl::EnvSpecs& specs = player_->specs();
    auto schema = std::make_shared<Schema>();
    schema->fields = {{.name = "episode_id", .type = Type::kInt64},
                      {.name = "t", .type = Type::kInt64},
                      {.name = "seed", .type = Type::kInt64},
                      field_of("obs", specs.observation_space, false),
                      field_of("action", specs.action_space, false),
                      {.name = "reward", .type = Type::kFloat64},
                      {.name = "terminated", .type = Type::kBool},
                      {.name = "truncated", .type = Type::kBool},
                      {.name = "logp", .type = Type::kFloat32, .nullable = true},
                      {.name = "policy_version", .type = Type::kInt64},
                      field_of("final_obs", specs.observation_space, true)};
    schema->metadata = {{"env", specs.id},
                        {"observation_space", boost::json::serialize(rl::to_json(specs.observation_space))},
                        {"action_space", boost::json::serialize(rl::to_json(specs.action_space))},
                        {"mixture", settings_.mixture}};
    if (auto spec = env_spec_json(setup_, specs)) schema->metadata["env_spec"] = *std::move(spec);
    if (policy_) schema->metadata["policy_sha256"] = policy_->sha256;
    if (medium_) schema->metadata["medium_sha256"] = medium_->sha256;
    table_.emplace(std::move(schema));
    return {};
  }

  [[nodiscard]] const Schema& schema() const override { return table_->schema(); }

  void generate(SampleRange range, const TableSink& sink) override {
    const std::uint64_t window = kWavesOfATable * settings_.together;
    for (std::uint64_t begin = range.begin; begin < range.end; begin += window) {
      const std::uint64_t end = std::min(range.end, begin + window);
      play({begin, end});
      fill_table();
      sink(*table_);
    }
  }

  /// Of samples [0, count): the mean return of each behaviour.
  std::string returns_line(std::uint64_t count) {
    std::map<Behaviour, std::pair<double, int>> sums;
    play({0, count});
    for (const Played& one : played_) {
      auto& [sum, episodes] = sums[one.behaviour];
      for (const double reward : one.episode.reward) sum += reward;
      ++episodes;
    }
    std::string line = fmt::format("mean return of the first {} episodes:", count);
    for (const auto& [behaviour, sum] : sums)
      line += fmt::format(" {} {:.1f} ({})", name_of(behaviour), sum.first / sum.second, sum.second);
    return line;
  }

 private:
  struct Played {
    EpisodeTask task;
    Behaviour behaviour = Behaviour::kExpert;
    Episode episode = {};
  };

  /// One that plays enough at once, and not far more: environments without a task cost what others do.
  troupe::Status make_player(std::size_t wanted) {
    if (player_ && player_->together() >= wanted && player_->together() <= 2 * wanted) return {};
    player_.reset();
    auto made = EpisodePlayer::make({.env = setup_,
                                     .together = wanted,
                                     .epsilon = settings_.epsilon,
                                     .isa = context_.isa,
                                     .policy = policy_ ? &policy_->policy : nullptr,
                                     .medium = medium_ ? &medium_->policy : nullptr});
    if (!made.ok()) return made.error_ptr();
    player_ = std::move(*made);
    return {};
  }

  void play(SampleRange range) {
    played_.clear();
    std::map<Behaviour, std::vector<std::size_t>> places;  // in played_
    for (std::uint64_t sample = range.begin; sample < range.end; ++sample) {  // TRJ-1
      const Behaviour behaviour = mixture_.at(Stream(context_.seed, kBehaviourOf, sample).uniform());
      // Below 2^31: a seed that every environment takes.
      const std::uint64_t env_seed = Stream(context_.seed, kEnvironmentSeeds, sample).next() >> 1;
      places[behaviour].push_back(played_.size());
      played_.push_back({{sample, env_seed, Stream(context_.seed, kActionSeeds, sample).next_uint64()}, behaviour});
    }
    std::size_t most = 0;
    for (const auto& [behaviour, at] : places) most = std::max(most, at.size());
    make_player(std::min<std::size_t>(settings_.together, most)).value();
    for (const auto& [behaviour, at] : places) {
      std::vector<EpisodeTask> tasks;
      for (const std::size_t place : at) tasks.push_back(played_[place].task);
      std::vector<Episode> episodes = player_->play(tasks, behaviour);
      for (std::size_t i = 0; i < at.size(); ++i) played_[at[i]].episode = std::move(episodes[i]);
    }
  }

  [[nodiscard]] std::int64_t version_of(Behaviour behaviour) const {
    if (behaviour == Behaviour::kRandom) return -1;
    return (behaviour == Behaviour::kMedium ? medium_ : policy_).value().policy.steps;
  }

  void fill_table() {
    std::size_t rows = 0;
    for (const Played& one : played_) rows += one.episode.steps();
    table_->clear();
    table_->resize(rows);
    std::size_t row = 0;
    for (const Played& one : played_) {
      fill_episode(one, row);
      row += one.episode.steps();
      table_->end_sample(row);
    }
  }

  template <class T> std::span<T> rows_of(TrajectoryColumn column, std::size_t row, std::size_t count) {
    return table_->column(column).values<T>().subspan(row, count);
  }
  /// Whole rows of a column, as bytes.
  void copy_rows(TrajectoryColumn column, std::size_t row, const std::vector<std::byte>& bytes) {
    Column& to = table_->column(column);
    const std::size_t size = to.field().elements() * size_of(to.field().type);
    std::memcpy(to.mutable_data().data() + row * size, bytes.data(), bytes.size());
  }

  void fill_episode(const Played& one, std::size_t row) {
    const Episode& episode = one.episode;
    const std::size_t steps = episode.steps();
    std::ranges::fill(rows_of<std::int64_t>(kEpisode, row, steps), static_cast<std::int64_t>(one.task.sample));
    const auto t = rows_of<std::int64_t>(kStepOfEpisode, row, steps);
    for (std::size_t i = 0; i < steps; ++i) t[i] = static_cast<std::int64_t>(i);
    std::ranges::fill(rows_of<std::int64_t>(kSeed, row, steps), static_cast<std::int64_t>(one.task.env_seed));
    copy_rows(kObs, row, episode.obs), copy_rows(kAction, row, episode.action);
    std::ranges::copy(episode.reward, rows_of<double>(kReward, row, steps).begin());
    const auto copy_flags = [&](TrajectoryColumn column, const std::vector<std::uint8_t>& flags) {
      std::ranges::transform(flags, rows_of<bool>(column, row, steps).begin(), [](std::uint8_t f) { return f != 0; });
    };
    copy_flags(kTerminated, episode.terminated), copy_flags(kTruncated, episode.truncated);
    std::ranges::copy(episode.log_prob, rows_of<float>(kLogProb, row, steps).begin());
    for (std::size_t i = 0; i < steps; ++i)
      if (std::isnan(episode.log_prob[i])) table_->column(kLogProb).set_null(row + i);
    std::ranges::fill(rows_of<std::int64_t>(kVersion, row, steps), version_of(one.behaviour));
    for (std::size_t i = 0; i + 1 < steps; ++i) table_->column(kFinalObs).set_null(row + i);
    copy_rows(kFinalObs, row + steps - 1, episode.final_obs);
  }

  TrajectorySettings settings_;
  rl::EnvSetup setup_;
  Mixture mixture_;
  std::optional<LoadedPolicy> policy_, medium_;
  GeneratorContext context_;
  std::unique_ptr<EpisodePlayer> player_;
  std::vector<Played> played_;
  std::optional<Table> table_;
};

troupe::Result<std::optional<LoadedPolicy>> load(const std::string& path) {
  if (path.empty()) return std::optional<LoadedPolicy>();
  auto policy = rl::load_policy(path);
  if (!policy.ok()) return policy.error_ptr();
  // Afterwards: of a file that was replaced in between the digest is not the one that the data set was begun with.
  auto digest = file_sha256(path);
  if (!digest.ok()) return digest.error_ptr();
  return std::optional(LoadedPolicy{std::move(*policy), hex(*digest)});
}

class TrajectoryOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    std::vector<apps::Setting> all = rl::settings_of(settings_.env);
    all.front().help = "Environment; empty: the policy's";
    const std::vector<apps::Setting> own{
        {.name = "policy", .help = "File of the policy: policy.bin or a checkpoint of rl", .value = &settings_.policy},
        {.name = "medium_policy", .help = "File of a second, worse policy: 'medium' of the mixture",
         .value = &settings_.medium},
        {.name = "mixture",
         .help = "Who plays which part: expert, medium, sample, epsilon, random; as expert=0.7,random=0.3",
         .value = &settings_.mixture},
        {.name = "epsilon", .help = "Of 'epsilon': how often an action is any", .value = &settings_.epsilon,
         .least = 0, .most = 1},
        {.name = "envs", .help = "Episodes that are played at once in a worker", .value = &settings_.together,
         .least = 1, .most = 4096}};
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }

  troupe::Result<boost::json::object> identity() override {  // TRJ-2
    boost::json::object out;
    for (const auto& [name, path] : {std::pair("policy_sha256", settings_.policy),
                                     std::pair("medium_sha256", settings_.medium)}) {
      if (path.empty()) continue;
      const auto digest = file_sha256(path);
      if (!digest.ok()) return digest.error_ptr();
      out[name] = hex(*digest);
    }
    return out;
  }

  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    auto made = make_trajectories(context);
    if (!made.ok()) return made.error_ptr();
    return std::unique_ptr<Generator>(std::move(*made));
  }

  troupe::Result<std::string> check_line(const GeneratorContext& context) override {
    constexpr std::uint64_t kEpisodes = 16;
    auto made = make_trajectories(context);
    if (!made.ok()) return made.error_ptr();
    return (*made)->returns_line(std::min(kEpisodes, context.samples));
  }

 private:
  troupe::Result<std::unique_ptr<Trajectories>> make_trajectories(const GeneratorContext& context) {
    auto mixture = Mixture::parse(settings_.mixture);
    if (!mixture.ok()) return mixture.error_ptr();
    auto policy = load(settings_.policy), medium = load(settings_.medium);
    if (!policy.ok()) return policy.error_ptr();
    if (!medium.ok()) return medium.error_ptr();
    if (troupe::Status fits = check_mixture(*mixture, *policy, *medium); !fits.ok()) return fits.error_ptr();
    auto setup = setup_for(policy->has_value() ? *policy : *medium);
    if (!setup.ok()) return setup.error_ptr();
    auto made = std::make_unique<Trajectories>(settings_, *setup, std::move(*mixture), std::move(*policy),
                                               std::move(*medium), context);
    if (troupe::Status begun = made->begin(); !begun.ok()) return begun.error_ptr();
    return made;
  }

  static troupe::Status check_mixture(const Mixture& mixture, const std::optional<LoadedPolicy>& policy,
                                      const std::optional<LoadedPolicy>& medium) {
    for (const Behaviour behaviour : {Behaviour::kExpert, Behaviour::kSample, Behaviour::kEpsilon}) {
      if (!mixture.has(behaviour)) continue;
      if (!policy)
        return troupe::InvalidArgumentError(fmt::format(
            "mixture: '{}' needs --policy FILE; --mixture random needs none", name_of(behaviour)));
      if (troupe::Status has = check_behaviour(policy->policy.spec, behaviour); !has.ok()) return has;
    }
    if (mixture.has(Behaviour::kMedium) && !medium)
      return troupe::InvalidArgumentError("mixture: 'medium' needs --medium-policy FILE");
    return {};
  }

  /// The policy's own, and what the user set of it otherwise. A configuration keeps values, not who chose them: a
  /// default is nobody's choice.
  troupe::Result<rl::EnvSetup> setup_for(const std::optional<LoadedPolicy>& policy) {
    if (!policy) {
      if (settings_.env.id.empty())
        return troupe::InvalidArgumentError("which environment? --env NAME, or --policy FILE of one");
      return settings_.env;
    }
    rl::EnvSetup out = policy->policy.env, defaults{.id = ""};
    const std::vector<apps::Setting> chosen = rl::settings_of(settings_.env), unset = rl::settings_of(defaults),
                                     target = rl::settings_of(out);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (apps::value_of(chosen[i]) != apps::value_of(unset[i]))
        if (troupe::Status set = apps::assign(target[i], apps::value_of(chosen[i])); !set.ok()) return set.error_ptr();
    if (settings_.env.python == defaults.python)  // the policy's, which may be anybody's (TRJ-4)
      if (troupe::Status trusted = rl::check_programs(out); !trusted.ok())
        return troupe::InvalidArgumentError(
            fmt::format("{}: {}; or name another one with --python", settings_.policy, trusted.error().message()));
    return out;
  }

  TrajectorySettings settings_;
};

}  // namespace

GeneratorKind trajectories() {
  return {.name = "trajectories",
          .help = "Episodes of a policy in an environment, a row a step",
          .version = 2,
          .options = [] { return std::make_unique<TrajectoryOptions>(); },
          .samples_per_shard = 200};
}

}  // namespace datagen
