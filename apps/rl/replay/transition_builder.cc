#include "apps/rl/replay/transition_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/dqn.h"

namespace rl {
namespace {

const std::uint8_t* bytes_of(ConstRows rows) { return reinterpret_cast<const std::uint8_t*>(rows.data()); }

void append(std::vector<std::uint8_t>& to, const std::uint8_t* from, std::size_t count) {
  to.insert(to.end(), from, from + count);
}

}  // namespace

TransitionBuilder::TransitionBuilder(const TransitionOptions& options)
    : options_(options),
      columns_(transition_columns(options.observation_space, options.action_space, options.mask_width)),
      obs_bytes_(columns_[0].width * size_of(columns_[0].dtype)),
      action_bytes_(columns_[1].width * size_of(columns_[1].dtype)) {
  if (options.num_envs == 0 || options.n_step == 0)
    troupe::InvalidArgumentError("transitions need at least one environment and one step").raise();
  if (!(options.gamma >= 0 && options.gamma <= 1))
    troupe::InvalidArgumentError(fmt::format("a gamma of {} is not in [0, 1]", options.gamma)).raise();
  const std::size_t places = options.num_envs * options.n_step;
  window_obs_.resize(places * obs_bytes_), window_action_.resize(places * action_bytes_);
  window_reward_.resize(places);
  first_.resize(options.num_envs), count_.resize(options.num_envs);
  rewards_.resize(options.n_step), terminated_.resize(options.n_step), truncated_.resize(options.n_step);
}

void TransitionBuilder::check(const PlayedStep& step) const {
  const std::size_t n = options_.num_envs;
  const auto fits = [&](ConstRows rows, const Column& column) {
    return rows.rows() == n && rows.dtype() == column.dtype && rows.width() == column.width;
  };
  if (!fits(step.obs, columns_[0]) || !fits(step.action, columns_[1]) || !fits(step.next_obs, columns_[0]) ||
      step.reward.size() != n || step.terminated.size() != n || step.truncated.size() != n || step.is_reset.size() != n)
    troupe::InvalidArgumentError(fmt::format("a step that is not one of {} environments with {} and {}", n,
                                             to_string(options_.observation_space), to_string(options_.action_space)))
        .raise();
  if (step.ends.final_obs.rows() != 0 && step.ends.final_obs.rows() != step.ends.env.size())
    troupe::InvalidArgumentError("as many last observations as ends are needed").raise();
  check_masks(step);
  if (step.ends.final_obs.rows() == 0) return;
  for (std::size_t env = 0; env < n; ++env) {
    if (step.is_reset[env] == 0 && (step.terminated[env] != 0 || step.truncated[env] != 0) &&
        !std::ranges::binary_search(step.ends.env, env))
      troupe::InvalidArgumentError(fmt::format("environment {} ended without a last observation", env)).raise();
  }
}

void TransitionBuilder::check_masks(const PlayedStep& step) const {
  const std::size_t width = options_.mask_width, finals = step.ends.final_obs.rows();
  if (step.next_mask.size() != options_.num_envs * width || step.ends.final_mask.size() != finals * width)
    troupe::InvalidArgumentError(
        fmt::format("masks of {} and {} bytes, where {} environments and {} last observations have {} for each",
                    step.next_mask.size(), step.ends.final_mask.size(), options_.num_envs, finals, width))
        .raise();
}

void TransitionBuilder::add(const PlayedStep& step) {
  check(step);
  const std::size_t width = options_.mask_width;
  std::size_t end = 0;
  for (std::size_t env = 0; env < options_.num_envs; ++env) {
    if (step.is_reset[env] != 0) {  // TRB-3
      drop(env);
      continue;
    }
    push(env, step.obs.row(env), step.action.row(env), step.reward[env]);
    const bool terminated = step.terminated[env] != 0;
    if (terminated || step.truncated[env] != 0) {
      while (end < step.ends.env.size() && step.ends.env[end] < env) ++end;
      const Last now{step.next_obs.row(env), step.next_mask.subspan(env * width, width)};
      complete_all(env, terminated ? End::kTerminated : End::kTruncated,
                   step.ends.final_obs.rows() == 0
                       ? now
                       : Last{step.ends.final_obs.row(end), step.ends.final_mask.subspan(end * width, width)});
    } else if (count_[env] == static_cast<std::int64_t>(options_.n_step)) {
      complete_oldest(env, End::kNone, {step.next_obs.row(env), step.next_mask.subspan(env * width, width)});
    }
  }
}

void TransitionBuilder::cut(std::size_t env, ConstRows obs, std::span<const std::uint8_t> mask) {
  if (env >= options_.num_envs || obs.rows() != 1 || obs.dtype() != columns_[0].dtype ||
      obs.width() != columns_[0].width || mask.size() != options_.mask_width)
    troupe::InvalidArgumentError(fmt::format("no window of environment {}, or not its observation", env)).raise();
  complete_all(env, End::kTruncated, {obs, mask});
}

void TransitionBuilder::drop(std::size_t env) {
  if (env >= options_.num_envs)
    troupe::InvalidArgumentError(fmt::format("no environment {} of {}", env, options_.num_envs)).raise();
  count_[env] = 0;
}

void TransitionBuilder::push(std::size_t env, ConstRows obs, ConstRows action, double reward) {
  const auto at = static_cast<std::size_t>(first_[env] + count_[env]) % options_.n_step;
  const std::size_t place = env * options_.n_step + at;
  std::memcpy(window_obs_.data() + place * obs_bytes_, obs.data(), obs_bytes_);
  std::memcpy(window_action_.data() + place * action_bytes_, action.data(), action_bytes_);
  window_reward_[place] = reward;
  ++count_[env];
}

void TransitionBuilder::complete_oldest(std::size_t env, End end, const Last& last) {
  const auto first = static_cast<std::size_t>(first_[env]), steps = static_cast<std::size_t>(count_[env]);
  const std::size_t window = env * options_.n_step;
  for (std::size_t i = 0; i < steps; ++i) {
    rewards_[i] = window_reward_[window + (first + i) % options_.n_step];
    terminated_[i] = truncated_[i] = 0;
  }
  terminated_[steps - 1] = end == End::kTerminated ? 1 : 0;
  truncated_[steps - 1] = end == End::kTruncated ? 1 : 0;
  const NStepReturn sum = n_step_return(std::span(rewards_).first(steps), std::span(terminated_).first(steps),
                                        std::span(truncated_).first(steps), options_.gamma);
  append(obs_, window_obs_.data() + (window + first) * obs_bytes_, obs_bytes_);
  append(action_, window_action_.data() + (window + first) * action_bytes_, action_bytes_);
  append(next_obs_, bytes_of(last.obs), obs_bytes_);
  if (options_.mask_width != 0) complete_mask(env, end, last.mask);
  reward_.push_back(static_cast<float>(sum.discounted_reward));
  discount_.push_back(static_cast<float>(sum.bootstrap_discount));
  first_[env] = static_cast<std::int64_t>((first + 1) % options_.n_step);
  --count_[env];
}

/// TRB-5
void TransitionBuilder::complete_mask(std::size_t env, End end, std::span<const std::uint8_t> mask) {
  if (end == End::kTerminated) {
    next_mask_.insert(next_mask_.end(), options_.mask_width, 1);
    return;
  }
  if (std::ranges::all_of(mask, [](std::uint8_t one) { return one == 0; }))
    troupe::InvalidArgumentError(fmt::format("environment {}: its mask allows nothing where it was truncated", env))
        .raise();
  append(next_mask_, mask.data(), mask.size());
}

void TransitionBuilder::complete_all(std::size_t env, End end, const Last& last) {
  while (count_[env] > 0) complete_oldest(env, end, last);
}

void TransitionBuilder::take(const SampleLayout& layout, std::byte* memory) {
  if (!std::ranges::equal(layout.columns(), columns_) || layout.rows() != rows())
    troupe::InvalidArgumentError(fmt::format("{} transitions do not fit a batch of {} rows", rows(), layout.rows()))
        .raise();
  const auto write = [&](const char* name, const void* from) {
    const Rows to = layout.column(name, memory);
    if (to.bytes() != 0) std::memcpy(to.data(), from, to.bytes());
  };
  write("obs", obs_.data()), write("action", action_.data()), write("next_obs", next_obs_.data());
  write("reward", reward_.data()), write("discount", discount_.data());
  if (options_.mask_width != 0) write(kNextMaskColumn, next_mask_.data());
  obs_.clear(), action_.clear(), next_obs_.clear(), reward_.clear(), discount_.clear(), next_mask_.clear();
}

OwnedSamples TransitionBuilder::take() {
  OwnedSamples out(columns_, rows());
  take(out.layout(), out.memory());
  return out;
}

StateDict TransitionBuilder::save() const {
  StateDict out;
  out.put("window/obs", window_obs_), out.put("window/action", window_action_);
  out.put("window/reward", window_reward_);
  out.put("window/first", first_), out.put("window/count", count_);
  out.put("ready/obs", obs_), out.put("ready/action", action_), out.put("ready/next_obs", next_obs_);
  out.put("ready/reward", reward_), out.put("ready/discount", discount_);
  if (options_.mask_width != 0) out.put("ready/next_mask", next_mask_);
  return out;
}

void TransitionBuilder::restore(const StateDict& state) {
  const auto& window_obs = state.get<std::uint8_t>("window/obs", window_obs_.size());
  const auto& window_action = state.get<std::uint8_t>("window/action", window_action_.size());
  const auto& window_reward = state.get<double>("window/reward", window_reward_.size());
  const auto& first = state.get<std::int64_t>("window/first", first_.size());
  const auto& count = state.get<std::int64_t>("window/count", count_.size());
  const auto& reward = state.get<float>("ready/reward");
  const auto& discount = state.get<float>("ready/discount", reward.size());
  const auto& obs = state.get<std::uint8_t>("ready/obs", reward.size() * obs_bytes_);
  const auto& action = state.get<std::uint8_t>("ready/action", reward.size() * action_bytes_);
  const auto& next_obs = state.get<std::uint8_t>("ready/next_obs", reward.size() * obs_bytes_);
  std::vector<std::uint8_t> next_mask;
  if (options_.mask_width != 0)
    next_mask = state.get<std::uint8_t>("ready/next_mask", reward.size() * options_.mask_width);
  const auto steps = static_cast<std::int64_t>(options_.n_step);
  for (std::size_t env = 0; env < first.size(); ++env) {
    if (first[env] < 0 || first[env] >= steps || count[env] < 0 || count[env] >= steps)
      troupe::SerializationError(fmt::format("the state's window of environment {} is none of {} steps", env, steps))
          .raise();
  }
  window_obs_ = window_obs, window_action_ = window_action, window_reward_ = window_reward;
  first_ = first, count_ = count;
  obs_ = obs, action_ = action, next_obs_ = next_obs, reward_ = reward, discount_ = discount;
  next_mask_ = std::move(next_mask);
}

}  // namespace rl
