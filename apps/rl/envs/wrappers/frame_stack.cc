#include "apps/rl/envs/wrappers/frame_stack.h"

#include <cstring>

#include <fmt/format.h>

namespace rl {
namespace {

Space stacked(const Space& space, std::size_t frames) {
  Box box = std::get<Box>(space);
  const auto repeat = [&](std::vector<double>& bounds) {
    if (bounds.size() == 1) return;
    const std::vector<double> one = bounds;
    for (std::size_t i = 1; i < frames; ++i) bounds.insert(bounds.end(), one.begin(), one.end());
  };
  repeat(box.low);
  repeat(box.high);
  box.shape.insert(box.shape.begin(), frames);
  return box;
}

}  // namespace

troupe::Result<std::unique_ptr<FrameStack>> FrameStack::make(std::unique_ptr<BatchEnv> inner, std::size_t frames) {
  const Space& space = inner->specs().observation_space;
  if (frames == 0) return troupe::InvalidArgumentError("at least one frame is stacked");
  if (!std::holds_alternative<Box>(space))
    return troupe::InvalidArgumentError(
        fmt::format("{} shows {}: only Boxes are stacked", inner->specs().id, to_string(space)));
  if (troupe::Status sound = check_space(stacked(space, frames)); !sound.ok()) return sound.error_ptr();
  return std::unique_ptr<FrameStack>(new FrameStack(std::move(inner), frames));
}

FrameStack::FrameStack(std::unique_ptr<BatchEnv> inner, std::size_t frames)
    : EnvWrapper(std::move(inner)), frames_(frames), newest_(specs().observation_space, size()) {
  frame_bytes_ = newest_.view().row_bytes();
  changed_specs().observation_space = stacked(specs().observation_space, frames);
  stacks_ = OwnedRows(specs().observation_space, size());
  final_obs_ = OwnedRows(specs().observation_space, size());
}

std::byte* FrameStack::frame(std::size_t env, std::size_t index) {
  return stacks_.view().row(env).data() + index * frame_bytes_;
}

/// An episode begins.
void FrameStack::fill(std::size_t env) {
  for (std::size_t i = 0; i < frames_; ++i) std::memcpy(frame(env, i), newest_.view().row(env).data(), frame_bytes_);
}

void FrameStack::push(std::size_t env, const std::byte* newest) {
  std::memmove(frame(env, 0), frame(env, 1), (frames_ - 1) * frame_bytes_);
  std::memcpy(frame(env, frames_ - 1), newest, frame_bytes_);
}

void FrameStack::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  inner().observe(newest_.view());
  for (std::size_t i = 0; i < size(); ++i) fill(i);
}

void FrameStack::reset_one(std::size_t env) {
  inner().reset_one(env);
  inner().observe(newest_.view());
  fill(env);
}

void FrameStack::observe(Rows obs) const { std::memcpy(obs.data(), stacks_.view().data(), stacks_.view().bytes()); }

void FrameStack::step(ConstRows actions, const StepOut& out) {
  StepOut into = out;
  into.obs = newest_.view();
  inner().step(actions, into);
  const EpisodeEnds ends = inner().ends();
  std::size_t ended = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const bool ends_here = ended < ends.env.size() && ends.env[ended] == i;
    if (ends_here && ends.final_obs.rows() > 0) {  // FST-1
      push(i, ends.final_obs.row(ended).data());
      std::memcpy(final_obs_.view().row(ended).data(), stacks_.view().row(i).data(), stacks_.view().row_bytes());
      fill(i);
    } else if (out.is_reset[i] != 0) {
      fill(i);
    } else {
      push(i, newest_.view().row(i).data());
    }
    ended += ends_here ? 1 : 0;
  }
  observe(out.obs);
}

EpisodeEnds FrameStack::ends() const {
  EpisodeEnds ends = inner().ends();
  ends.final_obs = final_obs_.view().slice(0, ends.final_obs.rows());
  return ends;
}

}  // namespace rl
