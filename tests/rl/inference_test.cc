// Inference actors in a real cluster: INF-1 to INF-5, PSA-1.
#include <cmath>
#include <vector>

#include "../runtime/check.h"

#include "apps/rl/actors/inference_actor.h"
#include "apps/rl/actors/runners.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/learners/actor_critic_gradient.h"

using namespace std::chrono_literals;

namespace {

using namespace rl;

PolicySpec policy() { return std::get<PolicySpec>(task_of(defaults_of("impala").value()).value().policy); }

std::vector<float> parameters(float value) {
  std::vector<float> out(policy().networks.parameter_count());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = value * std::sin(static_cast<float>(i));
  return out;
}

troupe::Array<float> array(const std::vector<float>& numbers) {
  troupe::ArrayBuilder<float> out(numbers.size());
  std::copy(numbers.begin(), numbers.end(), out.begin());
  return std::move(out).seal();
}

Observations observations(std::int64_t version, std::size_t rows) {
  std::vector<float> numbers(rows * 4);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.01f * static_cast<float>(i % 17);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
  return {.version = version, .rows = rows, .bytes = {bytes, bytes + numbers.size() * sizeof(float)}};
}

using Handle = troupe::ActorHandle<InferenceActor>;

Handle inference(std::uint64_t batch, std::chrono::microseconds wait) {
  return troupe::actor<InferenceActor>.options(inference_options(2)).remote(
      InferenceOptions{.policy = policy(), .batch = batch, .wait = wait});
}

ChosenActions choose(const Handle& actor, std::int64_t version, std::size_t rows) {
  return troupe::get(actor.call<&InferenceActor::choose>(observations(version, rows)));
}

void a_batch_is_complete_by_its_size() {
  const Handle actor = inference(8, 1h);
  actor.cast<&InferenceActor::take>(std::int64_t{0}, array(parameters(0.1f)));
  for (int turn = 0; turn < 3; ++turn) {
    const auto one = actor.call<&InferenceActor::choose>(observations(0, 3));
    const auto other = actor.call<&InferenceActor::choose>(observations(0, 5));
    const ChosenActions first = troupe::get(one), second = troupe::get(other);
    CHECK_EQ(first.batch_rows, 8u);
    CHECK_EQ(second.batch_rows, 8u);
    CHECK_EQ(first.log_prob.size(), 3u);
    CHECK_EQ(second.bytes.size(), 5 * sizeof(std::int64_t));
  }
}

void a_batch_is_complete_when_its_time_is_over() {
  const Handle actor = inference(1000, 1ms);
  actor.cast<&InferenceActor::take>(std::int64_t{0}, array(parameters(0.1f)));
  for (int turn = 0; turn < 3; ++turn) CHECK_EQ(choose(actor, 0, 4).batch_rows, 4u);
}

void it_is_told_parameters_and_keeps_the_newest() {
  const Handle actor = inference(1, 1ms);
  ChosenActions chosen = choose(actor, 3, 2);
  CHECK(chosen.version < 3);
  CHECK(chosen.bytes.empty());
  actor.cast<&InferenceActor::take>(std::int64_t{3}, array(parameters(0.1f)));
  actor.cast<&InferenceActor::take>(std::int64_t{2}, array(parameters(0.2f)));
  chosen = choose(actor, 1, 2);
  CHECK_EQ(chosen.version, 3);
  CHECK_EQ(chosen.log_prob.size(), 2u);
  Observations odd = observations(1, 2);
  odd.rows = 3;
  CHECK_THROWS(troupe::InvalidArgumentError, (void)troupe::get(actor.call<&InferenceActor::choose>(odd)));
}

/// What the network says of the actions that were chosen.
void log_probabilities_are_those_of_the_policy() {
  const Handle actor = inference(64, 1ms);
  const std::vector<float> params = parameters(0.3f);
  actor.cast<&InferenceActor::take>(std::int64_t{0}, array(params));
  const Observations seen = observations(0, 64);
  const ChosenActions chosen = troupe::get(actor.call<&InferenceActor::choose>(seen));
  std::vector<float> obs(64 * 4);
  std::vector<std::int64_t> actions(64);
  std::memcpy(obs.data(), seen.bytes.data(), seen.bytes.size());
  std::memcpy(actions.data(), chosen.bytes.data(), chosen.bytes.size());
  ActorCriticGradient<float> net(policy(), troupe::kernels::best_isa());
  const auto now = net.evaluate(params, {std::span<const float>(obs), 4}, {std::span<const std::int64_t>(actions), 1});
  for (std::size_t i = 0; i < 64; ++i) CHECK(std::abs(now.log_prob[i] - chosen.log_prob[i]) < 1e-5f);
}

void one_that_died_is_told_again_and_draws_others() {
  const Handle actor = inference(512, 1ms);
  const auto tell = [&] { actor.cast<&InferenceActor::take>(std::int64_t{7}, array(parameters(0.1f))); };
  tell();
  const ChosenActions first = choose(actor, 7, 512), next = choose(actor, 7, 512);
  CHECK(first.bytes != next.bytes);
  troupe::kill(actor, {.restart = true});
  ChosenActions again;
  CHECK(rt::eventually([&] {
    auto reply = troupe::try_get(actor.call<&InferenceActor::choose>(observations(7, 512)));
    if (!reply.ok()) return false;
    again = *reply;
    return true;
  }));
  CHECK(again.version < 7);
  tell();
  again = choose(actor, 7, 512);
  CHECK_EQ(again.version, 7);
  CHECK(again.bytes != first.bytes);
  const Handle same = inference(512, 1ms);
  same.cast<&InferenceActor::take>(std::int64_t{7}, array(parameters(0.1f)));
  CHECK(choose(same, 7, 512).bytes == first.bytes);
}

/// Owns parameters, as a learner does.
class Owner {
 public:
  ParamsRef publish() const { return troupe::put(array(parameters(0.1f))); }
};

void parameters_whose_owner_died_are_the_runners_error() {
  const auto owner = troupe::actor<Owner>.remote();
  const ParamsRef params = troupe::get(owner.call<&Owner::publish>());
  troupe::kill(owner);
  const RunConfig config = defaults_of("impala").value();
  const Handle actor = inference(1, 1ms);
  const auto runner = troupe::actor<FragmentActor>.options(runner_options()).remote(
      fragment_runner_options(config, policy(), 0, 0), std::optional(actor));
  auto [batch, report] = runner.call<&FragmentActor::play_by_others>(params, std::int64_t{1}, Moments());
  CHECK_THROWS(troupe::OwnerDiedError, (void)troupe::get(report, {.timeout = 20s}));
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2},
                  {{"INF-1 a batch is complete by its size", &a_batch_is_complete_by_its_size},
                   {"INF-1 or when its time is over", &a_batch_is_complete_when_its_time_is_over},
                   {"INF-2 INF-3 it is told parameters and keeps the newest",
                    &it_is_told_parameters_and_keeps_the_newest},
                   {"log-probabilities are those of the policy", &log_probabilities_are_those_of_the_policy},
                   {"INF-2 INF-4 PSA-1 one that died is told again and draws others",
                    &one_that_died_is_told_again_and_draws_others},
                   {"INF-5 parameters whose owner died are the runner's error",
                    &parameters_whose_owner_died_are_the_runners_error}});
}
