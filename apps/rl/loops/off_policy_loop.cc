#include "apps/rl/loops/off_policy_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/loops/saved_runners.h"
#include "apps/rl/loops/waits.h"

namespace rl {
namespace {

// Streams of the run's own draws, beside those of runners (StreamId::runner).
constexpr std::uint32_t kAllotStream = 0xffffffff, kFirstShardStream = 0xff000000;

std::uint64_t own_seed(const RunConfig& config, std::uint32_t stream, std::int64_t resumed_from) {
  return seed_of({.job = config.seed, .runner = stream, .resumed_from = resumed_from,
                  .environment = StreamId::kActions});
}

std::string shard_name(std::size_t index) { return fmt::format("replay/{}", index); }
constexpr const char* kAllotGenerator = "allot";

}  // namespace

OffPolicyLoop::OffPolicyLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed)
    : config_(config),
      moments_(resumed ? resumed->moments : task.moments),
      steps_(resumed ? resumed->steps : 0),
      generator_(own_seed(config, kAllotStream, steps_)),
      learners_(config, task.policy, resumed ? std::optional(resumed->state.learner) : std::nullopt) {
  const StateDict parts = resumed ? resumed->state.parts : StateDict();
  if (parts.has(kAllotGenerator)) {
    Generator::Saved saved;
    std::ranges::copy(parts.get<std::uint64_t>(kAllotGenerator, saved.size()), saved.begin());
    generator_.restore(saved);
  }
  for (std::size_t i = 0; i < config.replay.shards; ++i) {
    const StateDict kept = parts.get_all(shard_name(i));
    const ReplayActorOptions options{
        .buffer = replay_options(config, task.policy, mask_width_of(task.specs)),
        .seed = own_seed(config, kFirstShardStream + static_cast<std::uint32_t>(i), steps_)};
    shards_.push_back({.actor = troupe::actor<ReplayActor>.remote(
                           options, kept.entries().empty() ? std::nullopt : std::optional(kept))});
  }
  SavedRunners saved = saved_runners(config, resumed);
  note_ = std::move(saved.note);
  if (resumed && !parts.has(kAllotGenerator)) note_ = "the checkpoint has no replay: it fills anew; " + note_;
  const auto restartable = troupe::actor<TransitionActor>.options(runner_options());
  for (std::size_t i = 0; i < config.num_workers; ++i)
    runners_.push_back(
        restartable.remote(transition_runner_options(config, task.policy, i, steps_), saved.states[i]));
}

std::int64_t OffPolicyLoop::steps_of_a_round() const {
  return static_cast<std::int64_t>(config_.num_workers * config_.num_envs * config_.horizon);
}

Round OffPolicyLoop::run(bool another) {
  if (!params_) params_ = troupe::get(learners_.publish());
  if (!open_) open_ = next_ ? std::exchange(next_, std::nullopt) : play(*params_, steps_);
  if (open_->stage == Stage::kPlaying) {
    if (!draws_ahead()) read_masses();
    open_->stage = can_learn() ? Stage::kLearning : Stage::kEnding;
  }
  if (open_->stage == Stage::kLearning) {
    learn(another);
    if (draws_ahead()) read_masses();  // there by now
    write_back();
    open_->stage = Stage::kEnding;
  }
  return end();
}

OffPolicyLoop::Shard& OffPolicyLoop::shard_of(std::size_t runner, std::int64_t done) {
  const auto round = static_cast<std::size_t>(done / steps_of_a_round());
  const std::size_t first = shards_.size() > runners_.size() ? round * runners_.size() : 0;
  return shards_[(first + runner) % shards_.size()];
}

OffPolicyLoop::Open OffPolicyLoop::play(const ParamsRef& params, std::int64_t done) {
  Open open{.done = done};
  const PlayOrder order{.steps = config_.horizon,
                        .done = done,
                        .together = static_cast<std::int64_t>(config_.num_workers * config_.num_envs)};
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    auto [batch, report] = runners_[i].call<&TransitionActor::play>(params, order, moments_);
    open.reports.push_back(report);
    Shard& shard = shard_of(i, done);
    shard.answers.push_back(shard.actor.call<&ReplayActor::add>(batch));
  }
  return open;
}

/// Waits for what the shards were asked before: their masses decide who gives how many rows.
void OffPolicyLoop::read_masses() {
  const std::size_t of_next = next_ ? runners_.size() : 0;  // from the only shard
  for (std::size_t i = 0; i < shards_.size();) {
    Shard& shard = shards_[i];
    try {
      for (; shard.answers.size() > of_next; shard.answers.erase(shard.answers.begin()))
        shard.mass = troupe::get(shard.answers.front());
      ++i;
    } catch (const troupe::ActorDiedError&) {
      if (shards_.size() == 1) throw;
      shards_.erase(shards_.begin() + static_cast<std::ptrdiff_t>(i));  // OPL-1
    }
  }
}

bool OffPolicyLoop::starts_are_over() const {
  return steps_ + steps_of_a_round() > config_.replay.learning_starts;
}

bool OffPolicyLoop::can_learn() const {
  return starts_are_over() && std::ranges::any_of(shards_, [](const Shard& shard) { return shard.mass.rows > 0; });
}

bool OffPolicyLoop::draws_ahead() const { return shards_.size() == 1 && can_learn(); }

void OffPolicyLoop::read_reports() {
  if (open_->seen) return;
  std::vector<RolloutReport> reports = troupe::get(open_->reports);
  for (const RolloutReport& report : reports) merge(moments_, report.deltas);
  open_->seen = std::move(reports);
}

bool OffPolicyLoop::begins_early() const {
  return !next_ && draws_ahead() && !config_.replay.prioritized &&
         open_->done + steps_of_a_round() < config_.total_steps;
}

/// While the learners learn, when nobody waits for the loop: the runners have played for that, so their reports come
/// first.
void OffPolicyLoop::begin_next() {
  read_reports();
  next_ = play(std::get<ParamsRef>(*open_->update), open_->done + steps_of_a_round());
  next_->stage = Stage::kLearning;
  next_->allot_before = generator_.save();
  draw(*next_, true);
}

/// `early`: what it adds depends on an update that may fail, and then nothing is learned from what was there before.
void OffPolicyLoop::draw(Open& round, bool early) {
  const bool alone = shards_.size() == 1;  // then its mass may be one of before: it knows better
  std::vector<ReplayMass> masses;
  for (const Shard& shard : shards_) masses.push_back(shard.mass);
  const std::size_t updates =
      config_.replay.updates == 0 ? static_cast<std::size_t>(steps_of_a_round()) : config_.replay.updates;
  const double progress = std::min(1.0, static_cast<double>(round.done) / static_cast<double>(config_.total_steps));
  const double first = config_.replay.priority_beta;
  std::vector<DrawOrder> orders(shards_.size(), {.rows = {}, .beta = first + (1 - first) * progress,
                                                 .all = alone ? std::nullopt : std::optional(merged(masses))});
  for (std::size_t update = 0; update < updates; ++update) {
    const std::vector<std::size_t> rows = allot_draws(masses, config_.replay.minibatch, generator_);
    for (std::size_t i = 0; i < orders.size(); ++i) orders[i].rows.push_back(rows[i]);
  }
  round.drawn.clear();
  for (std::size_t i = 0; i < shards_.size(); ++i)
    round.drawn.push_back(
        early ? shards_[i].actor.call<&ReplayActor::draw_after>(shards_[i].answers.back(), orders[i])
              : shards_[i].actor.call<&ReplayActor::draw>(orders[i]));
  round.update = learners_.update_each(round.drawn);
}

void OffPolicyLoop::learn(bool another) {
  for (;;) {
    if (!open_->update) draw(*open_, false);
    if (another && begins_early()) begin_next();
    auto reply = troupe::try_get(std::get<1>(*open_->update));
    if (reply.ok()) {
      open_->reply = std::move(*reply);
      return;
    }
    if (reply.error().code() == troupe::ErrorCode::kCancelled) reply.error().raise();
    leave_out_dead_shards(reply.error());
    open_->update.reset();  // the learner has not learned from it: the others draw anew
    if (!can_learn()) return;
  }
}

void OffPolicyLoop::leave_out_dead_shards(const troupe::Error& error) {
  if (next_) error.raise();  // there is one shard, and nobody to go on with
  for (Shard& shard : shards_) shard.answers.push_back(shard.actor.call<&ReplayActor::mass>());
  read_masses();
  // Not with how many there were a moment ago: a Ctrl-C may have ended a look that had left one out.
  if (shards_.size() == open_->drawn.size()) error.raise();
}

void OffPolicyLoop::write_back() {
  if (!config_.replay.prioritized || !open_->reply) return;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    shards_[i].answers.push_back(
        shards_[i].actor.call<&ReplayActor::write_back>(open_->drawn[i], open_->reply->errors[i]));
}

Round OffPolicyLoop::end() {
  read_reports();
  Round round{.ended = {}, .num_envs = config_.num_envs, .horizon = config_.horizon, .update = {}};
  for (RolloutReport& report : *open_->seen) add_report(std::move(report), round);
  if (open_->reply) {
    round.update = std::move(open_->reply->report);
    params_ = std::get<ParamsRef>(*open_->update);
  }
  steps_ += steps_of_a_round();
  open_.reset();
  return round;
}

Weights OffPolicyLoop::weights() {
  if (!params_) params_ = troupe::get(learners_.publish());
  return {.params = fetch(*params_), .moments = moments_};
}

troupe::Result<AlgorithmState> OffPolicyLoop::save(const SaveOptions& options) {
  std::vector<troupe::ObjectRef<StateDict>> replay;
  const auto learner_state = learners_.save();
  if (options.parts)
    for (const Shard& shard : shards_) replay.push_back(shard.actor.call<&ReplayActor::save>());
  AlgorithmState out;
  auto learner = troupe::try_get(learner_state, {.timeout = options.deadline});
  if (!learner.ok()) return learner.error_ptr();
  out.learner = std::move(*learner);
  if (!options.parts) return out;
  std::size_t saved_shards = 0;
  for (const auto& shard : replay) {
    const auto kept = troupe::try_get(shard, {.timeout = options.deadline});
    if (kept.ok()) {
      out.parts.put_all(shard_name(saved_shards++), *kept);
      continue;
    }
    // OPL-1: the next round leaves it out.
    const bool dead = kept.error().code() == troupe::ErrorCode::kActorDied;
    if (!dead || next_ || replay.size() == 1) return kept.error_ptr();
  }
  if (!replay.empty() && saved_shards == 0) return troupe::ActorDiedError("all replay shards are dead");
  const Generator::Saved saved = next_ ? next_->allot_before : generator_.save();  // next_: after a failure (OPL-3)
  out.parts.put(kAllotGenerator, std::vector<std::uint64_t>(saved.begin(), saved.end()));
  if (const troupe::Status saved = save_runners(config_, runners_, options, out); !saved.ok()) return saved.error_ptr();
  return out;
}

}  // namespace rl
