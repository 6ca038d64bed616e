#include "apps/rl/envs/gym/gym_env.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/rl/algorithms/rng.h"

namespace rl {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;
using Heard = HostProcess::Heard;

constexpr std::size_t kTailLines = 20;

std::string_view name_of(AutoReset mode) {
  switch (mode) {
    case AutoReset::kNextStep: return "next_step";
    case AutoReset::kSameStep: return "same_step";
    case AutoReset::kDisabled: return "disabled";
  }
  return "";
}

json::value optional_number(const std::optional<int>& number) {
  return number ? json::value(*number) : json::value(nullptr);
}

/// GYM-4
troupe::ErrorPtr refusal(std::string_view kind, std::string message) {
  if (kind == "unknown") return troupe::make_error<troupe::NotFoundError>(std::move(message));
  if (kind == "python" || kind == "import" || kind == "dependency")
    return troupe::make_error<troupe::RuntimeEnvError>(std::move(message));
  return troupe::make_error<troupe::InvalidArgumentError>(std::move(message));
}

std::string with_lines(std::string message, const std::vector<std::string>& lines) {
  if (lines.empty()) return message + "; it printed nothing";
  return fmt::format("{}; the end of what it printed:\n  {}", message, fmt::join(lines, "\n  "));
}

troupe::Status check_options(std::string_view id, const BatchEnvOptions& options) {
  const GymOptions& gym = options.gym;
  if (id.empty()) return troupe::InvalidArgumentError("gym: needs an environment's name, as gym:CartPole-v1");
  if (gym.python.empty()) return troupe::InvalidArgumentError("gym: needs the name of a Python");
  if (options.max_episode_steps && *options.max_episode_steps < 1)
    return troupe::InvalidArgumentError("a time limit is at least one step");
  using std::chrono::milliseconds;
  if (gym.step_deadline <= milliseconds(0) || gym.start_deadline <= milliseconds(0) || gym.grace < milliseconds(0) ||
      gym.back_off < milliseconds(0) || gym.restarts.period < milliseconds(0))
    return troupe::InvalidArgumentError("gym: deadlines are above 0, other times not below");
  return {};
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- start

troupe::Result<std::unique_ptr<GymEnv>> GymEnv::make(std::string_view id, const BatchEnvOptions& options) {
  if (troupe::Status sound = check_options(id, options); !sound.ok()) return sound.error_ptr();
  std::unique_ptr<GymEnv> env(new GymEnv(id, options));
  env->cancel_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!env->cancel_fd_) return system_failure("eventfd");
  if (troupe::Status started = env->start(); !started.ok()) return started.error_ptr();
  return env;
}

GymEnv::GymEnv(std::string_view id, const BatchEnvOptions& options)
    : gym_id_(id), options_(options), counter_(options.gym.restarts), episodes_(options.num_envs) {
  specs_.id = fmt::format("gym:{}", id);
}

troupe::Status GymEnv::start() {
  auto memory = HostMemory::create();
  if (!memory.ok()) return memory.error_ptr();
  process_.reset();
  memory_ = std::move(*memory);
  auto process = HostProcess::start({.python = options_.gym.python,
                                     .label = specs_.id,
                                     .memory_fd = memory_.fd(),
                                     .cancel_fd = cancel_fd_.get(),
                                     .grace = options_.gym.grace});
  if (!process.ok()) return process.error_ptr();
  process_ = std::move(*process);
  const Time deadline = steady_clock::now() + options_.gym.start_deadline;
  std::string hello;
  Heard heard = process_->send_frame(json::serialize(setup()), deadline);
  if (heard == Heard::kBell) heard = process_->receive_frame(hello, deadline);
  if (heard != Heard::kBell) return start_failed(heard);
  if (troupe::Status taken = take_hello(hello); !taken.ok()) return taken;
  return send_layout(deadline);
}

troupe::ErrorPtr GymEnv::start_failed(Heard heard) {
  if (heard == Heard::kCancelled) return troupe::make_error<troupe::CancelledError>(specs_.id + " was cancelled");
  process_->end();
  last_words_ = process_->tail(kTailLines);
  const std::string& python = options_.gym.python;
  if (heard == Heard::kLate)
    return troupe::make_error<troupe::DeadlineExceededError>(with_lines(
        fmt::format("{}: {} did not start within {} ms", specs_.id, python, options_.gym.start_deadline.count()),
        last_words_));
  if (heard == Heard::kGarbage)
    return error_with_tail(fmt::format("{}: {} does not say hello as a host of environments does", specs_.id, python));
  return error_with_tail(fmt::format("{}: {} {} before its hello", specs_.id, python, process_->how_it_ended()));
}

json::object GymEnv::setup() const {
  const FaultRates& rates = options_.faults;
  json::value faults = nullptr;
  if (rates.any())
    faults = {{"threw", rates.threw}, {"exited", rates.exited}, {"stalled", rates.stalled},
              {"stall_ms", rates.stall.count()}};
  return {{"version", kHostProtocolVersion},
          {"env", gym_id_},
          {"num_envs", options_.num_envs},
          {"auto_reset", name_of(options_.auto_reset)},
          {"env_kwargs", options_.kwargs},
          {"max_episode_steps", optional_number(options_.max_episode_steps)},
          {"import", options_.gym.gym_import},
          {"working_folder", options_.gym.working_folder},
          {"faults", faults}};
}

/// GYM-2
troupe::Status GymEnv::take_hello(std::string_view text) try {
  boost::system::error_code wrong;
  const json::value hello = json::parse(text, wrong);
  if (wrong || !hello.is_object() || !hello.as_object().contains("protocol") ||
      hello.at("protocol") != json::value(kHostProtocolName))
    return start_failed(Heard::kGarbage);
  if (hello.at("version") != json::value(kHostProtocolVersion))
    return troupe::InvalidArgumentError(fmt::format("{}: {} speaks version {} of the protocol, this program {}",
                                                    specs_.id, options_.gym.python,
                                                    json::serialize(hello.at("version")), kHostProtocolVersion));
  if (const json::value* error = hello.as_object().if_contains("error"))
    return refusal(std::string_view(error->at("kind").as_string()),
                   fmt::format("{}: {}", specs_.id, std::string_view(error->at("message").as_string())));

  auto observation = space_from_json(hello.at("observation_space")), action = space_from_json(hello.at("action_space"));
  for (const auto* space : {&observation, &action})
    if (!space->ok())
      return troupe::InvalidArgumentError(fmt::format("{}: {}", specs_.id, space->error().message()));
  if (has_specs_ && (*observation != specs_.observation_space || *action != specs_.action_space))
    return troupe::InvalidArgumentError(fmt::format("{} has other spaces than before: {} and {}", specs_.id,
                                                    to_string(*observation), to_string(*action)));
  specs_.observation_space = std::move(*observation);
  specs_.action_space = std::move(*action);
  const json::value& spec = hello.at("spec");
  if (const json::value& limit = spec.at("max_episode_steps"); !limit.is_null())
    specs_.max_episode_steps = limit.to_number<int>();
  if (const json::value& threshold = spec.at("reward_threshold"); !threshold.is_null())
    specs_.reward_threshold = threshold.to_number<double>();
  if (const json::value* whole = hello.as_object().if_contains("env_spec"); whole != nullptr && !whole->is_null()) {
    specs_.gym_spec = std::string(whole->as_string());
    (void)json::parse(specs_.gym_spec).at("id").as_string();  // throws: what is passed on is a spec
  }
  versions_ = hello.at("versions").as_object();
  has_lives_ = hello.at("lives").as_bool();
  if (const json::value* fires = hello.as_object().if_contains("fires")) specs_.fires = fires->as_bool();
  has_specs_ = true;
  return {};
} catch (const std::exception& error) {  // a member is missing, or of another type
  return troupe::InvalidArgumentError(
      fmt::format("{}: {} says a hello that cannot be read: {}", specs_.id, options_.gym.python, error.what()));
}

troupe::Status GymEnv::send_layout(Time deadline) {
  auto layout = HostLayout::of(specs_.observation_space, specs_.action_space, size());
  if (!layout.ok())
    return troupe::InvalidArgumentError(fmt::format("{}: {}", specs_.id, layout.error().message()));
  if (troupe::Status grown = memory_.grow(*layout, specs_.observation_space, specs_.action_space); !grown.ok())
    return grown;
  asked_ = 0;
  const Heard heard = process_->send_frame(json::serialize(layout->to_json()), deadline);
  return heard == Heard::kBell ? troupe::Status() : start_failed(heard);
}

// -------------------------------------------------------------------------------------------------------- calls

void GymEnv::check_usable() const {
  if (broken_) broken_->raise();
}

/// BE-6
void GymEnv::check_actions(ConstRows actions) const {
  const Space& space = specs_.action_space;
  if (actions.rows() != size() || actions.width() != elements_of(space) || actions.dtype() != dtype_of(space))
    troupe::InvalidArgumentError(fmt::format("{} rows of {} {} for {} environments of {}, which take {}",
                                             actions.rows(), actions.width(), rl::name_of(actions.dtype()), size(),
                                             specs_.id, to_string(space)))
        .raise();
  if (std::holds_alternative<Box>(space)) return;
  const MultiDiscrete* several = std::get_if<MultiDiscrete>(&space);
  const Discrete* one = std::get_if<Discrete>(&space);
  const std::span<const std::int64_t> choices = actions.as<std::int64_t>();
  for (std::size_t at = 0; at < choices.size(); ++at) {
    const std::size_t env = at / actions.width(), k = at % actions.width();
    const bool ignored = options_.auto_reset == AutoReset::kNextStep && episodes_[env].ended;  // BE-3
    const std::int64_t start = one ? one->start : several->start.empty() ? 0 : several->start[k];
    const std::int64_t n = one ? one->n : several->nvec[k];
    if (ignored || (choices[at] >= start && choices[at] - start < n)) continue;
    troupe::InvalidArgumentError(fmt::format("environment {} of {}: action {} is not in {}", env, specs_.id,
                                             choices[at], to_string(space)))
        .raise();
  }
}

void GymEnv::begin_call(HostCommand command) {
  memory_.header().command = command;
  memory_.header().asked = ++asked_;
  std::atomic_thread_fence(std::memory_order_release);  // the child reads after the doorbell
  process_->ring();
}

Heard GymEnv::call(HostCommand command, std::chrono::milliseconds deadline) {
  begin_call(command);
  return wait_for_answer(steady_clock::now() + deadline);
}

/// The doorbell says that there is an answer; the spin only keeps this thread from sleeping when it comes at once.
Heard GymEnv::wait_for_answer(Time deadline) {
  const std::atomic_ref<std::uint64_t> answered(memory_.header().answered);
  spin_.until([&] { return answered.load(std::memory_order_relaxed) == asked_; });
  return process_->wait(deadline);
}

void GymEnv::reset(std::span<const std::uint64_t> seeds) {
  check_usable();
  if (seeds.size() != size())
    troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), size())).raise();
  ended_.clear(), returns_.clear(), lengths_.clear(), faults_.clear();
  for (std::size_t i = 0; i < size(); ++i) episodes_[i] = {.seed = seeds[i]};
  const std::span<std::uint64_t> given = memory_.array<std::uint64_t>(memory_.layout().seeds);
  const std::span<std::uint64_t> spare = memory_.array<std::uint64_t>(memory_.layout().spare_seeds);
  std::copy(seeds.begin(), seeds.end(), given.begin());
  for (std::size_t i = 0; i < size(); ++i) spare[i] = next_seed(episodes_[i]);
  was_reset_ = true;
  restart_to_show_ = false;
  const Heard heard = call(HostCommand::kResetAll, options_.gym.start_deadline);
  if (heard == Heard::kCancelled) raise_cancelled();
  if (heard != Heard::kBell) process_failed(heard, options_.gym.start_deadline);
  faults_.clear();  // there is no episode that could have been broken off
}

void GymEnv::reset_one(std::size_t env) {
  check_usable();
  if (env >= size())
    troupe::InvalidArgumentError(fmt::format("there is no environment {} of {}", env, specs_.id)).raise();
  memory_.header().env = static_cast<std::uint32_t>(env);
  Episode& episode = episodes_[env];
  episode = {.seed = episode.seed, .lives = episode.lives, .ended = true};
  const Heard heard = call(HostCommand::kResetOne, options_.gym.start_deadline);
  if (heard == Heard::kCancelled) raise_cancelled();
  if (heard != Heard::kBell) {  // GYM-3
    process_failed(heard, options_.gym.start_deadline);
    restart_to_show_ = true;
    owed_ = std::exchange(faults_, {});
  }
  episode.ended = false;
}

void GymEnv::observe(Rows obs) const {
  check_usable();
  std::memcpy(obs.data(), memory_.obs().data(), memory_.obs().bytes());
}

void GymEnv::step(ConstRows actions, const StepOut& out) {
  send(actions);
  receive(out);
}

void GymEnv::send(ConstRows actions) {
  check_usable();
  if (!was_reset_) troupe::InvalidArgumentError(specs_.id + " was never reset").raise();
  check_actions(actions);
  if (options_.auto_reset == AutoReset::kDisabled)
    for (std::size_t i = 0; i < size(); ++i)
      if (episodes_[i].ended)  // BE-4
        troupe::InvalidArgumentError(fmt::format("environment {} of {} has ended: reset it", i, specs_.id)).raise();
  if (restart_to_show_) return;
  std::memcpy(memory_.actions().data(), actions.data(), actions.bytes());
  deadline_ = steady_clock::now() + options_.gym.step_deadline;
  begin_call(HostCommand::kStep);
}

void GymEnv::receive(const StepOut& out) {
  check_usable();
  ended_.clear(), returns_.clear(), lengths_.clear(), faults_.clear();
  if (std::exchange(restart_to_show_, false)) {
    faults_ = std::exchange(owed_, {});
    return show_restart(out);
  }
  Heard heard = wait_for_answer(deadline_);
  if (heard == Heard::kCancelled) raise_cancelled();
  if (heard == Heard::kBell && !results_make_sense()) heard = Heard::kGarbage;
  if (heard == Heard::kBell) return take_results(out);
  process_failed(heard, options_.gym.step_deadline);
  show_restart(out);
}

/// GYM-2
bool GymEnv::results_make_sense() {
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint32_t count = memory_.header().num_ended;
  if (memory_.header().answered != asked_ || count > size()) return false;
  const std::span<const std::uint32_t> ended = memory_.array<const std::uint32_t>(memory_.layout().ended);
  ended_.assign(ended.begin(), ended.begin() + count);
  const bool ascending = std::adjacent_find(ended_.begin(), ended_.end(), std::greater_equal<>()) == ended_.end();
  if (ascending && (ended_.empty() || ended_.back() < size())) return true;
  ended_.clear();
  return false;
}

void GymEnv::take_results(const StepOut& out) {
  const HostLayout& at = memory_.layout();
  std::memcpy(out.obs.data(), memory_.obs().data(), memory_.obs().bytes());
  std::memcpy(out.reward.data(), memory_.array<double>(at.reward).data(), size() * sizeof(double));
  std::memcpy(out.terminated.data(), memory_.array<std::uint8_t>(at.terminated).data(), size());
  std::memcpy(out.truncated.data(), memory_.array<std::uint8_t>(at.truncated).data(), size());
  std::memcpy(out.is_reset.data(), memory_.array<std::uint8_t>(at.is_reset).data(), size());
  const std::span<const std::uint8_t> threw = memory_.array<const std::uint8_t>(at.threw);
  for (std::size_t i = 0; i < size(); ++i) {
    if (threw[i] != 0) {
      broke_off(i, FaultKind::kThrew, std::string(memory_.reason(i)));
      memory_.array<std::uint64_t>(at.spare_seeds)[i] = next_seed(episodes_[i]);
    } else if (out.is_reset[i] != 0) {
      episodes_[i].ended = false;
    } else {
      episodes_[i].sum += out.reward[i];
      ++episodes_[i].steps;
    }
  }
  for (std::uint32_t env : ended_) {
    Episode& episode = episodes_[env];
    returns_.push_back(std::exchange(episode.sum, 0.0));
    lengths_.push_back(std::exchange(episode.steps, 0));
    episode.ended = options_.auto_reset != AutoReset::kSameStep;
  }
}

EpisodeEnds GymEnv::ends() const {
  const std::size_t kept = options_.auto_reset == AutoReset::kSameStep ? ended_.size() : 0;
  return {ended_, returns_, lengths_, kept == 0 ? ConstRows() : ConstRows(memory_.final_obs().slice(0, kept))};
}

void GymEnv::cancel() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(cancel_fd_.get(), &one, sizeof(one));
}

// ------------------------------------------------------------------------------------------------------- faults

/// BE-7
void GymEnv::broke_off(std::size_t env, FaultKind kind, std::string what) {
  Episode& episode = episodes_[env];
  faults_.push_back({.env = static_cast<std::uint32_t>(env),
                     .kind = kind,
                     .partial_return = std::exchange(episode.sum, 0.0),
                     .length = std::exchange(episode.steps, 0),
                     .what = std::move(what)});
}

/// A seed that this environment has not had: its own stream's next life. Below 2^31, which every environment takes.
std::uint64_t GymEnv::next_seed(Episode& episode) const {
  return SeedSequence(episode.seed).child(++episode.lives).generate_state_uint32(1)[0] >> 1;
}

/// Breaks all open episodes off and has a new process begin the next ones.
void GymEnv::process_failed(Heard heard, std::chrono::milliseconds deadline) {
  const bool late = heard == Heard::kLate;
  process_->end();
  last_words_ = process_->tail(kTailLines);
  std::string why = process_->how_it_ended();
  if (late) why = fmt::format("did not answer within {} ms", deadline.count());
  if (heard == Heard::kGarbage) why = "answered what cannot be";
  for (std::size_t i = 0; i < size(); ++i)
    if (!episodes_[i].ended) broke_off(i, late ? FaultKind::kStalled : FaultKind::kExited, why);
  for (Episode& episode : episodes_) episode.sum = 0, episode.steps = 0;
  restart(why);
  if (options_.auto_reset == AutoReset::kNextStep)
    for (Episode& episode : episodes_) episode.ended = false;
}

void GymEnv::show_restart(const StepOut& out) const {
  std::fill(out.reward.begin(), out.reward.end(), 0.0);
  std::fill(out.terminated.begin(), out.terminated.end(), std::uint8_t{0});
  std::fill(out.truncated.begin(), out.truncated.end(), std::uint8_t{0});
  std::fill(out.is_reset.begin(), out.is_reset.end(), std::uint8_t{1});
  observe(out.obs);
}

/// Until a new process has begun all episodes, or there were too many restarts.
void GymEnv::restart(std::string why) {
  for (;;) {
    const Time asked = steady_clock::now();
    if (!counter_.allow(asked)) {
      const RestartLimit& limit = options_.gym.restarts;
      process_.reset();
      broken_ = error_with_tail(fmt::format("{}: its process {}; that was more than {} restarts within {} ms",
                                            specs_.id, why, limit.most, limit.period.count()));
      broken_->raise();
    }
    ++restarts_;
    wait_before_restart();
    troupe::Status started = start();
    if (started.ok() && begin_after_restart()) return;
    if (!started.ok() && started.error().code() == troupe::ErrorCode::kCancelled) raise_cancelled();
    if (!started.ok()) {
      why = "could not be started again: " + started.error().message();
    } else {
      process_->end();
      why = "began no episodes: it " + process_->how_it_ended();
      last_words_ = process_->tail(kTailLines);
    }
    counter_.failed(steady_clock::now() - asked);
  }
}

bool GymEnv::begin_after_restart() {
  const std::span<std::uint64_t> given = memory_.array<std::uint64_t>(memory_.layout().seeds);
  const std::span<std::uint64_t> spare = memory_.array<std::uint64_t>(memory_.layout().spare_seeds);
  for (std::size_t i = 0; i < size(); ++i) {
    given[i] = next_seed(episodes_[i]);
    spare[i] = next_seed(episodes_[i]);
  }
  const Heard heard = call(HostCommand::kResetAll, options_.gym.start_deadline);
  if (heard == Heard::kCancelled) raise_cancelled();
  return heard == Heard::kBell;
}

/// The first restart in a row is at once; then `back_off`, twice that, ... It is a wait for cancel().
void GymEnv::wait_before_restart() {
  const std::size_t recent = counter_.recent();
  if (recent < 2) return;
  const std::size_t doublings = std::min<std::size_t>(recent - 2, 20);
  const auto pause = std::min(options_.gym.back_off * (1 << doublings), options_.gym.back_off_most);
  const Time until = steady_clock::now() + pause;
  for (;;) {
    pollfd cancelled{cancel_fd_.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
    if (left <= 0) return;
    if (::poll(&cancelled, 1, static_cast<int>(left)) > 0) raise_cancelled();
  }
}

troupe::ErrorPtr GymEnv::error_with_tail(std::string message) const {
  troupe::ErrorRecord record;
  record.code = troupe::ErrorCode::kWorkerCrashed;
  record.message = with_lines(std::move(message), last_words_);
  record.context.log_tail = last_words_;
  return troupe::make_error<troupe::WorkerCrashedError>(std::move(record));
}

void GymEnv::raise_cancelled() {
  process_->end();  // without the time to end by itself
  const troupe::CancelledError error(specs_.id + " was cancelled");
  broken_ = std::make_shared<const troupe::CancelledError>(error);
  throw error;
}

}  // namespace rl
