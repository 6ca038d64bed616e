// SyncVectorEnv: any environment of env.h, n of them, stepped one after the other (Gymnasium's name for it).
//
// One thread at a time. Promises: BE-1 to BE-7 of batch_env.h, SVE-1 and SVE-2.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/env.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/slots_vector_env.h"

namespace rl {

namespace detail {

/// An environment of env.h and its stream.
class EnvSlot {
 public:
  explicit EnvSlot(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  void seed(std::uint64_t seed) { generator_ = Generator(seed); }
  void begin() {
    env_->reset(generator_);
    origin_ = StateOrigin::kAfterReset;
  }
  void check(ConstRows actions, std::size_t row) const;
  StepOutcome step(ConstRows actions, std::size_t row) {
    origin_ = StateOrigin::kAfterStep;
    return env_->step(action_of(actions, row));
  }
  void observe(Rows row) const { env_->observe(row.as<float>()); }

  void visit(StateVisitor& visitor) {
    std::vector<double> state(env_->state().begin(), env_->state().end());
    visitor.numbers("state", state), visitor.one("origin", origin_), visitor.generator("generator", generator_);
    if (visitor.mode() == StateVisitor::Mode::kRestore) env_->set_state(state, origin_);
  }

  [[nodiscard]] const Env& env() const { return *env_; }

 private:
  [[nodiscard]] Action action_of(ConstRows actions, std::size_t row) const;

  std::unique_ptr<Env> env_;
  Generator generator_{0};
  StateOrigin origin_ = StateOrigin::kAfterReset;
};

}  // namespace detail

class SyncVectorEnv final : public SlotsVectorEnv<detail::EnvSlot> {
 public:
  /// `id`: of make_env.
  static troupe::Result<std::unique_ptr<SyncVectorEnv>> make(std::string_view id, const BatchEnvOptions& options);
  /// Of any environments of one kind, at least one; options.num_envs is theirs.
  static troupe::Result<std::unique_ptr<SyncVectorEnv>> make(std::vector<std::unique_ptr<Env>> envs,
                                                             const BatchEnvOptions& options);

  [[nodiscard]] const Env& env(std::size_t index) const { return slot(index).env(); }

 private:
  using SlotsVectorEnv::SlotsVectorEnv;
};

/// The spaces of one of our environments.
[[nodiscard]] EnvSpecs specs_of(const EnvSpec& spec);

}  // namespace rl
