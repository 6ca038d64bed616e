#include "apps/rl/envs/wrappers/atari.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace rl {
namespace {

troupe::Status check_alone(const BatchEnv& env, std::string_view wrapper) {
  if (env.size() == 1) return {};
  return troupe::InvalidArgumentError(
      fmt::format("{} takes one environment alone, and {} comes as {}", wrapper, env.specs().id, env.size()));
}

troupe::Status check_choices(const BatchEnv& env, std::string_view wrapper, std::int64_t least) {
  const Discrete* choice = std::get_if<Discrete>(&env.specs().action_space);
  if (choice != nullptr && choice->start == 0 && choice->n >= least) return check_alone(env, wrapper);
  return troupe::InvalidArgumentError(fmt::format("{} needs {} actions to choose from, and {} takes {}", wrapper, least,
                                                  env.specs().id, to_string(env.specs().action_space)));
}

/// Steps the only environment; whether the episode goes on.
bool goes_on_after(BatchEnv& env, std::int64_t action, StepBuffers& last) {
  env.step(ConstRows(std::span(&action, 1), 1), last.out());
  return last.terminated[0] == 0 && last.truncated[0] == 0;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------- NoopReset

troupe::Result<std::unique_ptr<NoopReset>> NoopReset::make(std::unique_ptr<BatchEnv> inner, int noop_max) {
  if (noop_max < 1) return troupe::InvalidArgumentError("a no-op start has at least one no-op");
  if (troupe::Status fits = check_choices(*inner, "NoopReset", 1); !fits.ok()) return fits.error_ptr();
  return std::unique_ptr<NoopReset>(new NoopReset(std::move(inner), noop_max));
}

NoopReset::NoopReset(std::unique_ptr<BatchEnv> inner_env, int noop_max)
    : EnvWrapper(std::move(inner_env)), noop_max_(noop_max), last_(inner()) {}

void NoopReset::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  generator_ = Generator(SeedSequence(seeds[0]).child(0));
  begin();
}

void NoopReset::reset_one(std::size_t env) {
  inner().reset_one(env);
  begin();
}

void NoopReset::begin() {
  const std::uint32_t noops = 1 + generator_.integers(static_cast<std::uint32_t>(noop_max_));
  for (std::uint32_t i = 0; i < noops; ++i)
    if (!goes_on_after(inner(), kNoopAction, last_)) inner().reset_one(0);  // ATR-1
}

// ------------------------------------------------------------------------------------------------------- FireReset

troupe::Result<std::unique_ptr<FireReset>> FireReset::make(std::unique_ptr<BatchEnv> inner) {
  if (troupe::Status fits = check_choices(*inner, "FireReset", 3); !fits.ok()) return fits.error_ptr();
  return std::unique_ptr<FireReset>(new FireReset(std::move(inner)));
}

FireReset::FireReset(std::unique_ptr<BatchEnv> inner_env) : EnvWrapper(std::move(inner_env)), last_(inner()) {}

void FireReset::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  begin();
}

void FireReset::reset_one(std::size_t env) {
  inner().reset_one(env);
  begin();
}

void FireReset::begin() {
  for (std::int64_t action : {1, 2})
    if (!goes_on_after(inner(), action, last_)) inner().reset_one(0);  // ATR-1
}

// ------------------------------------------------------------------------------------------------------ MaxAndSkip

troupe::Result<std::unique_ptr<MaxAndSkip>> MaxAndSkip::make(std::unique_ptr<BatchEnv> inner, int skip) {
  if (skip < 1) return troupe::InvalidArgumentError("an action is taken at least once");
  if (dtype_of(inner->specs().observation_space) != DType::kUint8)
    return troupe::InvalidArgumentError(fmt::format("MaxAndSkip takes frames of uint8, and {} shows {}",
                                                    inner->specs().id, to_string(inner->specs().observation_space)));
  if (troupe::Status fits = check_alone(*inner, "MaxAndSkip"); !fits.ok()) return fits.error_ptr();
  return std::unique_ptr<MaxAndSkip>(new MaxAndSkip(std::move(inner), skip));
}

MaxAndSkip::MaxAndSkip(std::unique_ptr<BatchEnv> inner, int skip)
    : EnvWrapper(std::move(inner)),
      skip_(skip),
      before_(specs().observation_space, 1),
      shown_(specs().observation_space, 1) {}

void MaxAndSkip::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  inner().observe(shown_.view());
}

void MaxAndSkip::reset_one(std::size_t env) {
  inner().reset_one(env);
  inner().observe(shown_.view());
}

void MaxAndSkip::observe(Rows obs) const { std::memcpy(obs.data(), shown_.view().data(), obs.bytes()); }

void MaxAndSkip::step(ConstRows actions, const StepOut& out) {
  double reward = 0;
  int taken = 0;
  bool goes_on = true;
  while (goes_on && taken < skip_) {
    std::memcpy(before_.view().data(), out.obs.data(), taken == 0 ? 0 : out.obs.bytes());
    inner().step(actions, out);
    reward += out.reward[0];
    ++taken;
    if (out.is_reset[0] != 0) {  // BE-7: another game's first frame, and its fault
      std::memcpy(shown_.view().data(), out.obs.data(), out.obs.bytes());
      return;
    }
    goes_on = out.terminated[0] == 0 && out.truncated[0] == 0;
  }
  out.reward[0] = reward;
  const std::span<std::uint8_t> frame = out.obs.as<std::uint8_t>();
  const std::span<const std::uint8_t> before = before_.as<std::uint8_t>();
  if (taken > 1) std::transform(frame.begin(), frame.end(), before.begin(), frame.begin(), [](auto a, auto b) {
    return std::max(a, b);
  });
  std::memcpy(shown_.view().data(), out.obs.data(), out.obs.bytes());
}

// ---------------------------------------------------------------------------------------------------- EpisodicLife

troupe::Result<std::unique_ptr<EpisodicLife>> EpisodicLife::make(std::unique_ptr<BatchEnv> inner) {
  if (troupe::Status fits = check_choices(*inner, "EpisodicLife", 1); !fits.ok()) return fits.error_ptr();
  if (inner->lives().empty())
    return troupe::InvalidArgumentError(fmt::format("EpisodicLife: {} has no lives", inner->specs().id));
  return std::unique_ptr<EpisodicLife>(new EpisodicLife(std::move(inner)));
}

EpisodicLife::EpisodicLife(std::unique_ptr<BatchEnv> inner_env)
    : EpisodeWrapper(std::move(inner_env)), last_(inner()) {}

void EpisodicLife::reset(std::span<const std::uint64_t> seeds) {
  EpisodeWrapper::reset(seeds);
  lives_ = inner().lives()[0];
  over_ = false;
}

/// ATR-3
void EpisodicLife::judge(std::size_t, std::int64_t, const StepOut& out) {
  over_ = out.terminated[0] != 0 || out.truncated[0] != 0;
  const std::int32_t left = inner().lives()[0];
  if (left > 0 && left < lives_) out.terminated[0] = 1;
  lives_ = left;
}

void EpisodicLife::broken_off(std::size_t) {
  lives_ = inner().lives()[0];
  over_ = false;
}

void EpisodicLife::begin_one(std::size_t env) {
  if (over_ || !goes_on_after(inner(), kNoopAction, last_)) inner().reset_one(env);
  lives_ = inner().lives()[0];
  over_ = false;
}

}  // namespace rl
