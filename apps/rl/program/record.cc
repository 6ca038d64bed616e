#include "apps/rl/program/record.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/record/draw.h"
#include "apps/rl/record/frame_writer.h"
#include "apps/rl/training/checkpoint.h"

namespace rl {
namespace {

/// One environment that is played, and drawn from what it shows behind all wrappers.
class Recording {
 public:
  Recording(const RecordCommand& command, const Policy& policy, MadeEnv made)
      : command_(command),
        policy_(policy),
        made_(std::move(made)),
        player_(make_player(policy.spec)),
        step_(made_.env()),
        actions_(action_space_of(policy.spec), 1),
        raw_(made_.innermost().specs().observation_space, 1) {}

  /// Its return.
  double episode(std::uint64_t seed, FrameWriter& out) {
    made_.env().reset(std::span(&seed, 1));
    made_.env().observe(step_.obs.view());
    made_.innermost().observe(raw_.view());
    add(std::as_const(raw_).view(), {}, out);
    for (;;) {
      player_->best(policy_.params, {std::as_const(step_.obs).view(), made_.action_mask()}, actions_.view());
      made_.env().step(std::as_const(actions_).view(), step_.out());
      const EpisodeEnds ends = made_.env().ends();
      const bool over = !ends.env.empty();
      made_.innermost().observe(raw_.view());
      add(over ? made_.innermost().ends().final_obs : std::as_const(raw_).view(), force(), out);
      if (over) return ends.returns[0];
    }
  }

 private:
  [[nodiscard]] std::optional<double> force() const {
    const ConstRows actions = std::as_const(actions_).view();
    if (actions.dtype() != DType::kFloat32 || actions.width() != 1) return {};
    const double given = static_cast<double>(actions.as<float>()[0]);
    if (!policy_.env.rescale_action) return given;
    const auto& bounds = std::get<Box>(made_.innermost().specs().action_space);  // what the environment was given
    const double share = (std::clamp(given, -1.0, 1.0) + 1) / 2;
    return bounds.low_of(0) + share * (bounds.high_of(0) - bounds.low_of(0));
  }
  void add(ConstRows observation, std::optional<double> action, FrameWriter& out) {
    const Space& space = made_.innermost().specs().observation_space;
    out.add(draw(policy_.env.id, space, observation, action).value()).value();
    ++frames_;
    if (frames_ > command_.frames_max)
      troupe::InvalidArgumentError(fmt::format("more than {} frames: --frames allows more", command_.frames_max))
          .raise();
  }

  const RecordCommand& command_;
  const Policy& policy_;
  MadeEnv made_;
  std::unique_ptr<Player> player_;
  StepBuffers step_;
  OwnedRows actions_, raw_;
  std::size_t frames_ = 0;
};

}  // namespace

int record(const RecordCommand& command) {
  try {
    const Policy policy = load_policy(command.policy).value();
    check_programs(policy.env).value();
    check_policy(policy.spec).value();
    MadeEnv made = MadeEnv::make(policy.env, {.frozen = true, .clip_action = !keeps_bounds(policy.spec), .masks = true})
                       .value();
    check_fits(policy, made).value();
    made.sync(policy.moments);
    check_drawable(policy.env.id, made.innermost().specs().observation_space).value();
    const auto out = make_frame_writer(command.out, {.frames_per_second = command.frames_per_second}).value();
    Recording recording(command, policy, std::move(made));
    for (std::size_t i = 0; i < command.episodes; ++i)
      fmt::print("episode {}: return {:.1f}\n", i + 1, recording.episode(command.seed + i, *out));
    out->finish().value();
    fmt::print("recording {}\n", out->output().string());
    return 0;
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace rl
