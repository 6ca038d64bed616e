#include "apps/datagen/read/episodes_builder.h"

#include <cstring>
#include <limits>
#include <utility>

#include <boost/algorithm/string/replace.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/precise_json.h"
#include "apps/rl/spaces/dtype.h"

namespace datagen {
namespace {

constexpr std::size_t kQuotedMax = 200;  // of what a stranger wrote, in a message

/// Python's json has words for infinities, which JSON has not.
rl::Space space_of(std::string text, const std::string& what) {
  boost::algorithm::replace_all(text, "-Infinity", "\"-inf\"");
  boost::algorithm::replace_all(text, "Infinity", "\"inf\"");
  boost::system::error_code failed;
  const boost::json::value json = apps::parse_json(text, failed);
  if (failed)
    troupe::InvalidArgumentError(fmt::format("{}: a space that is no JSON: {}", what, text.substr(0, kQuotedMax)))
        .raise();
  auto space = rl::space_from_json(json);
  if (!space.ok())
    troupe::InvalidArgumentError(fmt::format("{}: {}", what, space.error().message().substr(0, kQuotedMax))).raise();
  return *std::move(space);
}

void check_array(const StepArray& array, std::string_view type, std::size_t width, std::size_t steps,
                 const std::string& what) {
  if (name_of(array.type) != type || array.width != width || array.steps != steps ||
      array.bytes.size() != steps * width * size_of(array.type))
    troupe::SerializationError(fmt::format("{}: {} steps of {} {} instead of {} of {} {}", what, array.steps,
                                           array.width, name_of(array.type), steps, width, type))
        .raise();
}

void check_element(const StepArray& array, const rl::Space& space, std::size_t steps, const std::string& what) {
  check_array(array, rl::name_of(rl::dtype_of(space)), rl::elements_of(space), steps, what);
}

template <class T> void append_as(std::vector<float>& to, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    to.push_back(static_cast<float>(value));
  }
}

void append_flags(std::vector<std::uint8_t>& to, std::span<const std::byte> bytes) {
  for (const std::byte flag : bytes) to.push_back(flag != std::byte{0});
}

}  // namespace

EpisodesBuilder::EpisodesBuilder(const std::string& what, std::string env, const std::string& observation_space,
                                 const std::string& action_space)
    : env_(std::move(env)),
      observation_space_(space_of(observation_space, what + ", observations")),
      action_space_(space_of(action_space, what + ", actions")) {}

void EpisodesBuilder::allow(std::uint64_t file_bytes) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - allowed_;
  allowed_ += file_bytes < most / kDenseMax ? file_bytes * kDenseMax : most;
}

void EpisodesBuilder::add(const StepArrays& steps, const std::string& what) {
  const std::size_t count = steps.reward.steps;
  std::uint64_t bytes = 0;
  for (const StepArray* array : {&steps.obs, &steps.action, &steps.reward, &steps.terminated, &steps.truncated})
    bytes += array->bytes.size();
  if (bytes > allowed_) troupe::SerializationError(what + ": more steps than files of this size hold").raise();
  allowed_ -= bytes;
  check_element(steps.obs, observation_space_, count, what + ", observations");
  check_element(steps.action, action_space_, count, what + ", actions");
  const bool is_double = steps.reward.type == Type::kFloat64;
  check_array(steps.reward, is_double ? "float64" : "float32", 1, count, what + ", rewards");
  check_array(steps.terminated, "bool", 1, count, what + ", terminations");
  check_array(steps.truncated, "bool", 1, count, what + ", truncations");
  obs_.insert(obs_.end(), steps.obs.bytes.begin(), steps.obs.bytes.end());
  action_.insert(action_.end(), steps.action.bytes.begin(), steps.action.bytes.end());
  is_double ? append_as<double>(reward_, steps.reward.bytes) : append_as<float>(reward_, steps.reward.bytes);
  append_flags(terminated_, steps.terminated.bytes);
  append_flags(truncated_, steps.truncated.bytes);
}

void EpisodesBuilder::end_episode() {
  if (!terminated_.empty() && terminated_.back() == 0) truncated_.back() = 1;
}

rl::Demonstrations EpisodesBuilder::finish(const std::string& what) {
  rl::Demonstrations out{.env = env_, .observation_space = observation_space_, .action_space = action_space_};
  out.steps = rl::OwnedSamples(rl::demonstration_columns(observation_space_, action_space_), reward_.size());
  const auto put = [&](const char* name, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(out.steps.column(name).data(), bytes.data(), bytes.size());
  };
  put("obs", obs_);
  put("action", action_);
  put("reward", std::as_bytes(std::span(reward_)));
  put("terminated", std::as_bytes(std::span(terminated_)));
  put("truncated", std::as_bytes(std::span(truncated_)));
  if (troupe::Status good = rl::check_demonstrations(out); !good.ok())
    troupe::SerializationError(fmt::format("{}: {}", what, good.error().message())).raise();
  return out;
}

std::string env_id_of(const std::string& env_spec, const std::string& env, const std::string& unknown) {
  const std::string& without = env.empty() ? unknown : env;
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(env_spec, failed);
  if (failed || !json.is_object()) return without;
  const boost::json::value* const id = json.get_object().if_contains("id");
  return id != nullptr && id->is_string() ? std::string(id->get_string()) : without;
}

}  // namespace datagen
