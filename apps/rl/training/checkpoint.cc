#include "apps/rl/training/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/precise_json.h"
#include "apps/common/safetensors/safetensors.h"
#include "apps/rl/config/algorithm_config.h"

namespace rl {
namespace {

namespace json = boost::json;

constexpr const char* kKindKey = "troupe.rl";
constexpr std::string_view kPolicyKind = "policy", kCheckpointKind = "checkpoint";
constexpr int kVersion = 1;
constexpr const char* kLearner = "learner";
constexpr const char* kParts = "parts";
constexpr const char* kLog = "log";

template <class T> constexpr const char* kDtype = nullptr;
template <> constexpr const char* kDtype<float> = "F32";
template <> constexpr const char* kDtype<double> = "F64";
template <> constexpr const char* kDtype<std::int64_t> = "I64";
template <> constexpr const char* kDtype<std::uint64_t> = "U64";
template <> constexpr const char* kDtype<std::uint8_t> = "U8";

// --- What is in a file.

struct Contents {
  std::string kind;
  apps::ArrayFile file;

  [[nodiscard]] json::object words(const char* key) const {
    const auto at = file.metadata.find(key);
    if (at == file.metadata.end()) throw std::invalid_argument(fmt::format("it has no '{}'", key));
    return apps::parse_json(at->second).as_object();
  }
};

/// The words alone say whether it is one of ours, and which.
troupe::Result<Contents> read(const std::filesystem::path& path) {
  auto file = apps::read_safetensors(path);
  if (!file.ok()) return file.error_ptr();
  const auto kind = file->metadata.find(kKindKey);
  if (kind == file->metadata.end())
    return troupe::SerializationError(path.string() + " is no policy or checkpoint of this program (foreign file)");
  const std::size_t space = kind->second.find(' ');
  const std::string name = kind->second.substr(0, space);
  const std::string version = space == std::string::npos ? "" : kind->second.substr(space + 1);
  if (name != kPolicyKind && name != kCheckpointKind)
    return troupe::SerializationError(fmt::format("{} is a '{}': no policy or checkpoint", path.string(), name));
  if (version != std::to_string(kVersion))
    return troupe::SerializationError(fmt::format("{} has format version {}; this program reads version {}",
                                                  path.string(), version, kVersion));
  return Contents{name, std::move(*file)};
}

/// What `make` throws means that the file is damaged.
template <class Make>
auto checked(const std::filesystem::path& path, std::string_view what, Make make) -> troupe::Result<decltype(make())> {
  try {
    return make();
  } catch (const std::exception& error) {
    return troupe::SerializationError(
        fmt::format("{} is damaged: its contents make no {}: {}", path.string(), what, error.what()));
  }
}

// --- The state of a run, array by array.

apps::ArrayView view_of(const std::string& name, const StateDict::Values& values) {
  return std::visit(
      [&]<class T>(const std::vector<T>& numbers) {
        return apps::ArrayView{.name = name, .dtype = kDtype<T>, .shape = {numbers.size()},
                               .bytes = std::as_bytes(std::span(numbers))};
      },
      values);
}

template <class T>
void put(StateDict& state, const apps::ArrayFile& file, const apps::ArrayFile::Entry& entry) {
  std::vector<T> values(entry.size / sizeof(T));
  if (entry.size != 0) std::memcpy(values.data(), file.bytes(entry).data(), entry.size);
  state.put(entry.name, std::move(values));
}

StateDict state_of(const apps::ArrayFile& file) {
  StateDict out;
  for (const apps::ArrayFile::Entry& entry : file.entries) {
    if (entry.dtype == kDtype<float>) put<float>(out, file, entry);
    else if (entry.dtype == kDtype<double>) put<double>(out, file, entry);
    else if (entry.dtype == kDtype<std::int64_t>) put<std::int64_t>(out, file, entry);
    else if (entry.dtype == kDtype<std::uint64_t>) put<std::uint64_t>(out, file, entry);
    else if (entry.dtype == kDtype<std::uint8_t>) put<std::uint8_t>(out, file, entry);
    else throw std::invalid_argument(fmt::format("{} is of type {}", entry.name, entry.dtype));
  }
  return out;
}

// --- A policy's arrays, layer by layer.

std::string moments_name(std::size_t index) { return fmt::format("moments/{}", index); }

/// As many as there are.
Moments moments_from(const StateDict& state) {
  Moments out;
  while (state.has(moments_name(out.size())))
    out.push_back(RunningMoments::restore(state.get<double>(moments_name(out.size()))));
  return out;
}

void put_moments(StateDict& state, const Moments& moments) {
  for (std::size_t i = 0; i < moments.size(); ++i) state.put(moments_name(i), moments[i].save());
}

std::size_t floats_in(const apps::ArrayFile& file) {
  std::size_t bytes = 0;
  for (const apps::ArrayFile::Entry& entry : file.entries) bytes += entry.dtype == kDtype<float> ? entry.size : 0;
  return bytes / sizeof(float);
}

std::vector<float> params_from(const apps::ArrayFile& file, const AnyPolicySpec& spec) {
  if (floats_in(file) != parameter_count_of(spec))  // before memory is asked for
    throw std::invalid_argument("its arrays are not those of its networks");
  std::vector<float> out(parameter_count_of(spec));
  for (const PolicyPart& part : parts_of(spec)) {
    const apps::ArrayFile::Entry* entry = file.find(part.name);
    if (entry == nullptr || entry->dtype != kDtype<float> || entry->shape != part.shape)
      throw std::invalid_argument(fmt::format("'{}' is missing or of another shape", part.name));
    std::memcpy(out.data() + part.begin, file.bytes(*entry).data(), part.count * sizeof(float));
  }
  return out;
}

// --- The words.

std::string words_of(const Policy& policy) {
  EnvSetup env = policy.env;
  return json::serialize(json::object{{"env", to_json(settings_of(env))},
                                      {"policy", to_json(policy.spec)},
                                      {"seed", policy.seed},
                                      {"steps", policy.steps},
                                      {"mean_return", policy.mean_return}});
}

/// But for the parameters.
Policy policy_of(const json::object& words) {
  Policy out;
  assign_all(settings_of(out.env), words.at("env").as_object()).value();
  out.spec = any_policy_from_json(words.at("policy")).value();
  out.seed = words.at("seed").to_number<std::uint64_t>();
  out.steps = words.at("steps").to_number<std::int64_t>();
  out.mean_return = words.at("mean_return").to_number<double>();
  return out;
}

json::value number_or_null(const std::optional<double>& number) {
  return number ? json::value(*number) : json::value(nullptr);
}

std::string words_of(RunConfig config, const TrainingLog& log) {
  json::array metrics(log.metrics.begin(), log.metrics.end());
  return json::serialize(json::object{{"config", to_json(settings_of(config))},
                                      {"log",
                                       {{"threshold", number_or_null(log.threshold)},
                                        {"steps", log.steps},
                                        {"episodes", log.episodes},
                                        {"updates", log.updates},
                                        {"faults", json::array(log.faults.begin(), log.faults.end())},
                                        {"seconds", log.seconds},
                                        {"metrics", std::move(metrics)},
                                        {"solved_steps", log.solved_steps},
                                        {"solved_seconds", log.solved_seconds}}}});
}

RunConfig config_of(json::object words) {
  // Files of old have some that mean nothing to their algorithm.
  for (const std::string& name : algorithm_config(std::string(words.at("algo").as_string())).value()->without)
    words.erase(name);
  return config_from(words).value();
}

StateDict arrays_of(const TrainingLog& log) {
  StateDict out;
  std::vector<std::int64_t> curve_steps, learning_steps;
  std::vector<float> curve, learning;
  for (const CurvePoint& point : log.curve) curve_steps.push_back(point.steps), curve.push_back(point.mean_return);
  for (const UpdatePoint& point : log.learning) {
    learning_steps.push_back(point.steps);
    learning.insert(learning.end(), point.values.begin(), point.values.end());
  }
  out.put("recent", log.recent), out.put("recent_lengths", log.recent_lengths);
  const auto put_copies = [&](const std::string& name, std::span<const CopyResult> copies) {
    std::vector<std::int64_t> steps;
    std::vector<double> means;
    for (const CopyResult& copy : copies) {
      steps.push_back(copy.steps);
      means.push_back(copy.mean), means.push_back(copy.deviation);
    }
    out.put(name + "_steps", std::move(steps)), out.put(name, std::move(means));
  };
  put_copies("copies", log.copies);
  put_copies("again", log.copy_again ? std::span(&*log.copy_again, 1) : std::span<const CopyResult>());
  out.put("curve_steps", std::move(curve_steps)), out.put("curve", std::move(curve));
  out.put("learning_steps", std::move(learning_steps)), out.put("learning", std::move(learning));
  return out;
}

TrainingLog log_of(const json::object& words, const StateDict& arrays) {
  TrainingLog out;
  if (const json::value& threshold = words.at("threshold"); !threshold.is_null())
    out.threshold = threshold.to_number<double>();
  out.steps = words.at("steps").to_number<std::int64_t>();
  out.episodes = words.at("episodes").to_number<std::int64_t>();
  out.updates = words.at("updates").to_number<std::int64_t>();
  for (std::size_t kind = 0; kind < out.faults.size(); ++kind)
    out.faults[kind] = words.at("faults").as_array().at(kind).to_number<std::int64_t>();
  out.seconds = words.at("seconds").to_number<double>();
  for (const json::value& name : words.at("metrics").as_array()) out.metrics.emplace_back(name.as_string());
  out.solved_steps = words.at("solved_steps").to_number<std::int64_t>();
  out.solved_seconds = words.at("solved_seconds").to_number<double>();
  out.recent = arrays.get<float>("recent");
  if (out.recent.size() > kReturnWindow) throw std::invalid_argument("its log has too many returns");
  if (arrays.has("recent_lengths")) out.recent_lengths = arrays.get<std::int64_t>("recent_lengths");  // not of old
  if (out.recent_lengths.size() > out.recent.size()) throw std::invalid_argument("its log has too many lengths");
  const auto get_copies = [&](const std::string& name) {
    const auto& steps = arrays.get<std::int64_t>(name + "_steps");
    const auto& means = arrays.get<double>(name, 2 * steps.size());
    std::vector<CopyResult> copies;
    for (std::size_t i = 0; i < steps.size(); ++i)
      copies.push_back({.steps = steps[i], .mean = means[2 * i], .deviation = means[2 * i + 1]});
    return copies;
  };
  out.copies = get_copies("copies");
  if (const auto again = get_copies("again"); !again.empty()) out.copy_again = again.front();
  const auto& curve_steps = arrays.get<std::int64_t>("curve_steps");
  const auto& curve = arrays.get<float>("curve", curve_steps.size());
  for (std::size_t i = 0; i < curve.size(); ++i) out.curve.push_back({curve_steps[i], curve[i]});
  const auto& learning_steps = arrays.get<std::int64_t>("learning_steps");
  const auto& learning = arrays.get<float>("learning", learning_steps.size() * out.metrics.size());
  for (std::size_t i = 0; i < learning_steps.size(); ++i) {
    const auto begin = learning.begin() + static_cast<std::ptrdiff_t>(i * out.metrics.size());
    out.learning.push_back({learning_steps[i], {begin, begin + static_cast<std::ptrdiff_t>(out.metrics.size())}});
  }
  return out;
}

std::map<std::string, std::string> words_for(std::string_view kind, const Policy& policy) {
  return {{kKindKey, fmt::format("{} {}", kind, kVersion)}, {"policy", words_of(policy)}};
}

}  // namespace

troupe::Status check_fits(const Policy& policy, const MadeEnv& made) {
  const EnvSpecs& specs = made.specs();
  if (specs.observation_space == observation_space_of(policy.spec) &&
      specs.action_space == action_space_of(policy.spec) && policy.params.size() == parameter_count_of(policy.spec) &&
      policy.moments.size() >= made.moments().size())
    return {};
  return troupe::InvalidArgumentError("the policy's network does not fit " + policy.env.id);
}

troupe::Status save_policy(const std::filesystem::path& path, const Policy& policy) {
  StateDict moments;
  put_moments(moments, policy.moments);
  std::vector<apps::ArrayView> arrays;
  const std::span<const float> all(policy.params);
  for (const PolicyPart& part : parts_of(policy.spec))
    arrays.push_back({part.name, kDtype<float>, part.shape, std::as_bytes(all.subspan(part.begin, part.count))});
  for (const auto& [name, values] : moments.entries()) arrays.push_back(view_of(name, values));
  return apps::write_safetensors(path, words_for(kPolicyKind, policy), arrays);
}

troupe::Result<Policy> load_policy(const std::filesystem::path& path) {
  const auto contents = read(path);
  if (!contents.ok()) return contents.error_ptr();
  if (contents->kind == kCheckpointKind) {
    auto checkpoint = load_checkpoint(path);
    if (!checkpoint.ok()) return checkpoint.error_ptr();
    return std::move(checkpoint->policy);
  }
  return checked(path, kPolicyKind, [&] {
    Policy policy = policy_of(contents->words("policy"));
    policy.params = params_from(contents->file, policy.spec);
    policy.moments = moments_from(state_of(contents->file));
    return policy;
  });
}

namespace {

troupe::Status choose_programs(const LoadOptions& options, EnvSetup& env) {
  if (options.own != nullptr) return env = *options.own, troupe::Status();
  if (options.gym_import) {
    env.gym_import = *options.gym_import;
    env.working_folder = typed_modules(env, {{"gym_import", *options.gym_import}});
  }
  if (!options.python) return check_programs(env);
  env.python = *options.python;
  return {};
}

}  // namespace

troupe::Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  auto words = words_for(kCheckpointKind, checkpoint.policy);
  words["run"] = words_of(checkpoint.config, checkpoint.log);
  StateDict state;
  put_moments(state, checkpoint.policy.moments);
  state.put_all(kLearner, checkpoint.learner);
  state.put_all(kParts, checkpoint.parts);
  state.put_all(kLog, arrays_of(checkpoint.log));
  std::vector<apps::ArrayView> arrays;
  for (const auto& [name, values] : state.entries()) arrays.push_back(view_of(name, values));
  return apps::write_safetensors(path, words, arrays);
}

troupe::Result<Checkpoint> load_checkpoint(const std::filesystem::path& path, const LoadOptions& options) {
  const auto contents = read(path);
  if (!contents.ok()) return contents.error_ptr();
  if (contents->kind == kPolicyKind) {
    return troupe::SerializationError(path.string() +
                                      " is a policy, not a checkpoint: it can be evaluated, not resumed");
  }
  auto config = checked(path, kCheckpointKind,
                        [&] { return config_of(contents->words("run").at("config").as_object()); });
  if (!config.ok()) return config.error_ptr();
  RunConfig here = *config;
  here.device = "cpu";  // wherever it learned
  if (troupe::Status trusted = choose_programs(options, here.env); !trusted.ok())
    return troupe::InvalidArgumentError(fmt::format("{}: {}", path.string(), trusted.error().message()));
  return checked(path, kCheckpointKind, [&] {
    Checkpoint out;
    out.policy = policy_of(contents->words("policy"));
    const json::object run = contents->words("run");
    out.config = std::move(*config);
    const Task task = task_of(here).value();
    // Training goes on with the network that its configuration makes.
    if (out.policy.spec != task.policy || out.policy.env != out.config.env)
      throw std::invalid_argument("its network is not that of its settings");
    const StateDict state = state_of(contents->file);
    out.learner = state.get_all(kLearner);
    out.parts = state.get_all(kParts);
    if (floats_in(contents->file) < learned_numbers(out.config, task.policy))  // before memory is asked for
      throw std::invalid_argument("its arrays are not those of its networks");
    const std::unique_ptr<Learner> learner = make_learner(here, task.policy);
    learner->restore(out.learner);  // it can be gone on with
    out.policy.params.assign(learner->params().begin(), learner->params().end());
    out.policy.moments = moments_from(state);
    if (out.policy.moments.size() != task.moments.size())
      throw std::invalid_argument("its moments are not those of its settings");
    out.log = log_of(run.at("log").as_object(), state.get_all(kLog));
    return out;
  });
}

}  // namespace rl
