#include "apps/rl/envs/classic/classic_vector_env.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <numbers>

#include <fmt/format.h>

#include "apps/rl/envs/acrobot.h"
#include "apps/rl/envs/cartpole.h"
#include "apps/rl/envs/mountain_car.h"
#include "apps/rl/envs/mountain_car_continuous.h"
#include "apps/rl/envs/pendulum.h"
#include "apps/rl/envs/sync_vector_env.h"

namespace rl {
namespace detail {

using ClassicState = std::array<double, kClassicStateMax>;

/// What differs between the five.
struct ClassicTask {
  const EnvSpec* spec;
  ClassicKernel ClassicKernels::* kernel;
  ClassicState magnitude_max;  // that set_state takes (CVE-4)
  /// Draws the beginning of an episode into state[0], state[stride], ..., and shows it in `row` unless that is null.
  void (*begin)(Generator& generator, double* state, std::size_t stride, float* row);
  void (*show_beginning)(const double* state, std::size_t stride, float* row);
};

}  // namespace detail

namespace {

using detail::ClassicKernel, detail::ClassicKernels, detail::ClassicState, detail::ClassicTask, detail::kClassicGroup;

template <class E>
void begin(Generator& generator, double* state, std::size_t stride, float* row) {
  E env;
  env.reset(generator);
  const std::span<const double> fields = env.state();
  for (std::size_t k = 0; k < fields.size(); ++k) state[k * stride] = fields[k];
  if (row != nullptr) env.observe({row, E::kSpec.obs_size});
}

template <class E>
void show_beginning(const double* state, std::size_t stride, float* row) {
  E env;
  ClassicState fields{};
  for (std::size_t k = 0; k < E::kSpec.state_size; ++k) fields[k] = state[k * stride];
  env.set_state({fields.data(), E::kSpec.state_size}, StateOrigin::kAfterReset);
  env.observe({row, E::kSpec.obs_size});
}

template <class E>
ClassicTask task_of(ClassicKernel ClassicKernels::* kernel, const ClassicState& magnitude_max) {
  return {.spec = &E::kSpec,
          .kernel = kernel,
          .magnitude_max = magnitude_max,
          .begin = &begin<E>,
          .show_beginning = &show_beginning<E>};
}

const ClassicTask* find_task(std::string_view id) {
  using K = ClassicKernels;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  constexpr ClassicState kNoBounds{kAny, kAny, kAny, kAny};
  static const std::array<ClassicTask, 5> kTasks{
      task_of<CartPole>(&K::cartpole, {kAny, kAny, std::numbers::pi / 4, kAny}),
      task_of<MountainCar>(&K::mountain_car, kNoBounds),
      task_of<MountainCarContinuous>(&K::mountain_car_continuous, kNoBounds),
      task_of<Pendulum>(&K::pendulum, kNoBounds), task_of<Acrobot>(&K::acrobot, kNoBounds)};
  const auto at = std::find_if(kTasks.begin(), kTasks.end(), [id](const ClassicTask& t) { return t.spec->id == id; });
  return at == kTasks.end() ? nullptr : &*at;
}

const ClassicKernels& kernels_for(troupe::kernels::Isa isa) {
  using troupe::kernels::Isa;
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::classic_kernels_avx512() != nullptr)
    return *detail::classic_kernels_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && detail::classic_kernels_avx2() != nullptr)
    return *detail::classic_kernels_avx2();
  return detail::classic_kernels_reference();
}

std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

// ---------------------------------------------------------------------------------------------------------- making

troupe::Result<std::unique_ptr<ClassicVectorEnv>> ClassicVectorEnv::make(std::string_view id,
                                                                         const BatchEnvOptions& options) {
  const ClassicTask* task = find_task(id);
  if (task == nullptr)
    return troupe::InvalidArgumentError(fmt::format("{} is none of the classic-control environments", id));
  if (options.num_envs == 0) return troupe::InvalidArgumentError("at least one environment is needed");
  if (options.max_episode_steps && *options.max_episode_steps < 1)
    return troupe::InvalidArgumentError("an episode has at least one step");
  return std::unique_ptr<ClassicVectorEnv>(new ClassicVectorEnv(*task, options));
}

ClassicVectorEnv::ClassicVectorEnv(const ClassicTask& task, const BatchEnvOptions& options)
    : task_(task),
      auto_reset_(options.auto_reset),
      size_(options.num_envs),
      padded_(rounded_up(options.num_envs, kClassicGroup)),
      specs_(specs_of(*task.spec)),
      kernel_(kernels_for(options.isa).*task.kernel),
      all_below_(kernels_for(options.isa).all_below),
      state_(task.spec->state_size * padded_),
      episode_return_(padded_),
      steps_(padded_),
      ended_masks_(rounded_up(padded_ / kClassicGroup, sizeof(std::uint64_t))),
      generators_(options.num_envs, Generator(0)),
      ended_before_(options.num_envs) {
  if (options.max_episode_steps) specs_.max_episode_steps = options.max_episode_steps;
  final_obs_ = OwnedRows(specs_.observation_space, size_);
}

// --------------------------------------------------------------------------------------------------------- episodes

void ClassicVectorEnv::reset(std::span<const std::uint64_t> seeds) {
  if (seeds.size() != size())
    troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), size())).raise();
  for (std::size_t i = 0; i < size(); ++i) {
    generators_[i] = Generator(seeds[i]);
    begin_episode(i, nullptr);
  }
  ended_.clear(), returns_.clear(), lengths_.clear();
}

void ClassicVectorEnv::reset_one(std::size_t env) {
  if (env >= size())
    troupe::InvalidArgumentError(fmt::format("no environment {} of {} of {}", env, size(), specs_.id)).raise();
  begin_episode(env, nullptr);
}

/// Shows it in `row` unless that is null.
void ClassicVectorEnv::begin_episode(std::size_t env, float* row) {
  task_.begin(generators_[env], state_.data() + env, padded_, row);
  steps_[env] = 0;
  episode_return_[env] = 0;
  ended_before_count_ -= ended_before_[env];
  ended_before_[env] = 0;
}

void ClassicVectorEnv::observe(Rows obs) const {
  const std::size_t width = task_.spec->obs_size;
  const auto show = [&](std::size_t first, std::size_t groups, float* rows) {
    detail::ClassicView view{.groups = groups, .state = {}, .obs = rows};
    for (std::size_t k = 0; k < task_.spec->state_size; ++k) view.state[k] = state_.data() + k * padded_ + first;
    kernel_.observe(view);
  };
  const std::span<float> rows = obs.as<float>();
  const std::size_t first = kClassicGroup * whole_groups();
  show(0, whole_groups(), rows.data());
  if (first < size()) {
    std::array<float, kClassicGroup * EnvSpec::kObsSizeMax> rest;
    show(first, 1, rest.data());
    std::copy_n(rest.begin(), width * (size() - first), rows.begin() + static_cast<std::ptrdiff_t>(width * first));
  }
  for (std::size_t i = 0; i < size(); ++i)
    if (steps_[i] == 0) task_.show_beginning(state_.data() + i, padded_, rows.data() + width * i);
}

// ------------------------------------------------------------------------------------------------------------ steps

void ClassicVectorEnv::step(ConstRows actions, const StepOut& out) {
  refuse_ended();
  refuse_wrong_actions(actions);
  step_groups(actions, out);
  if (size() % kClassicGroup != 0) step_rest(actions, out);
  std::fill(out.is_reset.begin(), out.is_reset.end(), std::uint8_t{0});
  if (ended_before_count_ > 0) begin_pending(out);
  collect_ends(out);
}

/// BE-4
void ClassicVectorEnv::refuse_ended() const {
  if (auto_reset_ != AutoReset::kDisabled || ended_before_count_ == 0) return;
  const auto at = std::find(ended_before_.begin(), ended_before_.end(), 1) - ended_before_.begin();
  troupe::InvalidArgumentError(fmt::format("environment {} of {} has ended: reset it", at, specs_.id)).raise();
}

/// BE-6
void ClassicVectorEnv::refuse_wrong_actions(ConstRows actions) const {
  if (actions.rows() != size() || actions.width() != 1)
    troupe::InvalidArgumentError(fmt::format("{} actions of {} numbers for {} environments of {}", actions.rows(),
                                             actions.width(), size(), specs_.id))
        .raise();
  const int bound = task_.spec->num_actions;
  if (bound == 0) return (void)actions.as<float>();  // RWS-1
  const std::span<const std::int64_t> choices = actions.as<std::int64_t>();
  if (all_below_(choices.data(), choices.size(), bound)) return;
  for (std::size_t i = 0; i < size(); ++i) {
    if ((choices[i] >= 0 && choices[i] < bound) || ended_before_[i] != 0) continue;
    troupe::InvalidArgumentError(fmt::format("environment {} of {}: action {} is not in {}", i, specs_.id, choices[i],
                                             to_string(specs_.action_space)))
        .raise();
  }
}

/// The arrays from one environment on.
detail::ClassicLanes ClassicVectorEnv::lanes_from(std::size_t first) {
  detail::ClassicLanes lanes{};
  for (std::size_t k = 0; k < task_.spec->state_size; ++k) lanes.state[k] = state_.data() + k * padded_ + first;
  lanes.episode_return = episode_return_.data() + first;
  lanes.steps = steps_.data() + first;
  lanes.max_steps = *specs_.max_episode_steps;
  lanes.ended_masks = ended_masks_.data() + first / kClassicGroup;
  return lanes;
}

/// Whole groups write to the caller's memory.
void ClassicVectorEnv::step_groups(ConstRows actions, const StepOut& out) {
  detail::ClassicLanes lanes = lanes_from(0);
  lanes.groups = whole_groups();
  if (task_.spec->num_actions == 0) lanes.forces = actions.as<float>().data();
  else lanes.choices = actions.as<std::int64_t>().data();
  lanes.obs = out.obs.as<float>().data();
  lanes.reward = out.reward.data();
  lanes.terminated = out.terminated.data();
  lanes.truncated = out.truncated.data();
  kernel_.step(lanes);
}

/// The last ones, which fill no group.
void ClassicVectorEnv::step_rest(ConstRows actions, const StepOut& out) {
  const std::size_t first = kClassicGroup * whole_groups(), count = size() - first, width = task_.spec->obs_size;
  std::array<std::int64_t, kClassicGroup> choices{};
  std::array<float, kClassicGroup> forces{};
  std::array<float, kClassicGroup * EnvSpec::kObsSizeMax> obs;
  std::array<double, kClassicGroup> reward;
  std::array<std::uint8_t, kClassicGroup> terminated, truncated;
  detail::ClassicLanes lanes = lanes_from(first);
  lanes.groups = 1;
  if (task_.spec->num_actions == 0) {
    std::copy_n(actions.as<float>().data() + first, count, forces.begin());
    lanes.forces = forces.data();
  } else {
    std::copy_n(actions.as<std::int64_t>().data() + first, count, choices.begin());
    lanes.choices = choices.data();
  }
  lanes.obs = obs.data();
  lanes.reward = reward.data();
  lanes.terminated = terminated.data(), lanes.truncated = truncated.data();
  kernel_.step(lanes);

  std::copy_n(obs.begin(), width * count, out.obs.as<float>().data() + width * first);
  std::copy_n(reward.begin(), count, out.reward.data() + first);
  std::copy_n(terminated.begin(), count, out.terminated.data() + first);
  std::copy_n(truncated.begin(), count, out.truncated.data() + first);
  ended_masks_[whole_groups()] &= static_cast<std::uint8_t>((1u << count) - 1);
  for (std::size_t i = size(); i < padded_; ++i) {  // what fills the group stays where sines are good
    for (std::size_t k = 0; k < task_.spec->state_size; ++k) state_[k * padded_ + i] = 0;
    steps_[i] = 0;
    episode_return_[i] = 0;
  }
}

/// BE-3: these ended in the call before. What the step just computed for them is thrown away.
void ClassicVectorEnv::begin_pending(const StepOut& out) {
  const std::span<float> obs = out.obs.as<float>();
  const std::size_t width = task_.spec->obs_size;
  for (std::size_t i = 0; i < size(); ++i) {
    if (ended_before_[i] == 0) continue;
    begin_episode(i, obs.data() + width * i);
    out.is_reset[i] = 1;
    out.reward[i] = 0;
    out.terminated[i] = out.truncated[i] = 0;
    ended_masks_[i / kClassicGroup] &= static_cast<std::uint8_t>(~(1u << i % kClassicGroup));
  }
}

void ClassicVectorEnv::collect_ends(const StepOut& out) {
  ended_.clear(), returns_.clear(), lengths_.clear();
  const std::size_t width = task_.spec->obs_size;
  float* const obs = out.obs.as<float>().data();
  float* const final_obs = final_obs_.as<float>().data();
  for (std::size_t word = 0; word < ended_masks_.size(); word += sizeof(std::uint64_t)) {
    std::uint64_t bits;
    std::memcpy(&bits, ended_masks_.data() + word, sizeof bits);
    for (; bits != 0; bits &= bits - 1) {
      const std::size_t env = word * kClassicGroup + static_cast<std::size_t>(std::countr_zero(bits));
      const std::size_t nth = ended_.size();
      ended_.push_back(static_cast<std::uint32_t>(env));
      returns_.push_back(episode_return_[env]);
      lengths_.push_back(steps_[env]);
      if (auto_reset_ == AutoReset::kSameStep) {
        std::copy_n(obs + width * env, width, final_obs + width * nth);  // BE-2
        begin_episode(env, obs + width * env);
      } else {
        ended_before_[env] = 1;
        ++ended_before_count_;
      }
    }
  }
}

EpisodeEnds ClassicVectorEnv::ends() const {
  const std::size_t kept = auto_reset_ == AutoReset::kSameStep ? ended_.size() : 0;
  return {ended_, returns_, lengths_, final_obs_.view().slice(0, kept)};
}

bool ClassicVectorEnv::visit(StateVisitor& visitor) {
  visitor.is("env", task_.spec->id);
  visitor.numbers("state", state_), visitor.numbers("episode_return", episode_return_);
  visitor.numbers("steps", steps_);
  visitor.numbers_within<std::uint8_t>("ended_before", ended_before_, 0, 1);
  visitor.one("ended_before_count", ended_before_count_);
  ended_before_count_ = std::accumulate(ended_before_.begin(), ended_before_.end(), std::size_t{0});
  for (std::size_t i = 0; i < size(); ++i) visitor.generator(fmt::format("generator/{}", i), generators_[i]);
  return true;
}

// ------------------------------------------------------------------------------------------------------- the inside

std::vector<double> ClassicVectorEnv::state(std::size_t env) const {
  std::vector<double> out(task_.spec->state_size);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = state_.at(k * padded_ + env);
  return out;
}

troupe::Status ClassicVectorEnv::set_state(std::size_t env, std::span<const double> state, StateOrigin origin) {
  if (env >= size() || state.size() != task_.spec->state_size)
    return troupe::InvalidArgumentError(
        fmt::format("{} numbers for the state of environment {} of {} of {}", state.size(), env, size(), specs_.id));
  for (std::size_t k = 0; k < state.size(); ++k)
    if (!(std::abs(state[k]) <= task_.magnitude_max[k]))
      return troupe::InvalidArgumentError(fmt::format("{}: number {} of the state is {}, and may be within {}",
                                                      specs_.id, k, state[k], task_.magnitude_max[k]));
  for (std::size_t k = 0; k < state.size(); ++k) state_[k * padded_ + env] = state[k];
  steps_[env] = origin == StateOrigin::kAfterStep ? 1 : 0;
  return {};
}

}  // namespace rl
