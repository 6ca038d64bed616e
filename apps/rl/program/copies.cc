#include "apps/rl/program/copies.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rl {
namespace {

Evaluation play_copy(const Policy& policy, const EvaluateOptions& options) { return evaluate(policy, options).value(); }

template <class Ref>
bool is_ready(const Ref& ref) {
  return !troupe::wait(std::vector{ref}, {.timeout = troupe::Duration::zero()}).ready.empty();
}

CopyResult result_of(const Policy& policy, const Evaluation& evaluation) {
  return {.steps = policy.steps, .mean = evaluation.mean, .deviation = evaluation.deviation};
}

}  // namespace

troupe::ObjectRef<Evaluation> Copies::play(const Policy& policy, std::uint64_t seed) const {
  return troupe::task<&play_copy>.remote(policy, EvaluateOptions{.episodes = options_.episodes, .seed = seed});
}

std::filesystem::path Copies::gate_file(const std::filesystem::path& best) { return best.parent_path() / "gate.bin"; }

void Copies::after_round(std::int64_t steps, const std::function<Policy()>& policy) {
  if (gate_.wants_copy(steps)) {
    Policy copy = policy();
    auto result = play(copy, kGateSeeds);
    first_looks_.push_back({std::move(copy), std::move(result)});
  }
  read_those_that_are_ready();
}

void Copies::read_those_that_are_ready() {
  while (!first_looks_.empty() && is_ready(first_looks_.front().result)) {
    Played played = std::move(first_looks_.front());
    first_looks_.pop_front();
    const Evaluation evaluation = troupe::get(played.result);
    take(std::move(played), evaluation);
  }
  if (second_look_ && is_ready(second_look_->result)) {
    const CopyResult result = result_of(second_look_->policy, troupe::get(second_look_->result));
    second_look_.reset();
    gate_.add_again(result);
    on_result_(result, true);
  }
}

void Copies::take(Played played, const Evaluation& evaluation) {
  played.policy.mean_return = evaluation.mean;
  if (!best_mean_ || evaluation.mean > *best_mean_) {
    best_mean_ = evaluation.mean;
    save_policy(options_.best, played.policy).value();
  }
  const CopyResult result = result_of(played.policy, evaluation);
  on_result_(result, false);
  if (!gate_.add(result)) return;
  save_policy(gate_file(options_.best), played.policy).value();
  auto again = play(played.policy, kGateSeedsAgain);
  second_look_ = Played{std::move(played.policy), std::move(again)};
}

void Copies::finish(troupe::Duration patience) {
  constexpr troupe::Duration kYear = std::chrono::hours(24 * 365);
  const auto end = std::chrono::steady_clock::now() + std::min(patience, kYear);
  while (!first_looks_.empty() || second_look_) {
    const troupe::Duration left = end - std::chrono::steady_clock::now();
    if (left <= troupe::Duration::zero()) return;
    const auto& next = first_looks_.empty() ? second_look_->result : first_looks_.front().result;
    static_cast<void>(troupe::wait(std::vector{next}, {.timeout = left}));  // the user can interrupt it
    read_those_that_are_ready();
  }
}

void Copies::restore(std::vector<CopyResult> copies, std::optional<CopyResult> again, const AnyPolicySpec& spec,
                     const std::filesystem::path& beside) {
  const auto best = std::ranges::max_element(copies, {}, &CopyResult::mean);
  for (const std::filesystem::path& place : {beside, options_.best}) {
    if (best == copies.end()) break;
    const auto kept = load_policy(place);
    // A better one was kept behind the checkpoint; a worse one is another run's.
    if (!kept.ok() || kept->spec != spec || kept->mean_return < best->mean) continue;
    std::error_code failed;
    if (!std::filesystem::equivalent(place, options_.best, failed)) save_policy(options_.best, *kept).value();
    best_mean_ = kept->mean_return;
    break;
  }
  gate_.restore(std::move(copies), again);
  auto kept = load_policy(gate_file(beside));
  if (!kept.ok() || kept->spec != spec) return;
  const auto first = std::ranges::find_if(gate_.copies(), [&](const CopyResult& copy) {
    return copy.steps == kept->steps && copy.mean == kept->mean_return;
  });
  if (first == gate_.copies().end() || !gate_.await(*first)) return;  // COP-3
  if (gate_file(beside) != gate_file(options_.best)) save_policy(gate_file(options_.best), *kept).value();
  auto result = play(*kept, kGateSeedsAgain);
  second_look_ = Played{std::move(*kept), std::move(result)};
}

}  // namespace rl
