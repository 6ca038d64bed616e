// A2L-1, A2L-2, DQG-1, DQL-1, SCG-2, SAL-1, SAL-2, KO-5 and ARS-1 to ARS-3 against the recorded updates
// (tests/golden/rl/record_updates.py): whole learners, in float on every instruction set, several updates on one batch:
// what they tell, and what parameters become.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/learners/a2c_learner.h"
#include "apps/rl/learners/ars_learner.h"
#include "apps/rl/learners/bc_learner.h"
#include "apps/rl/learners/dqn_learner.h"
#include "apps/rl/learners/impala_learner.h"
#include "apps/rl/learners/sac_learner.h"
#include "apps/rl/samples/fragments.h"
#include "apps/rl/samples/on_policy.h"
#include "apps/rl/samples/perturbations.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;
using troupe::kernels::Isa;

constexpr double kScalars = 2e-6, kSacScalars = 2e-5;  // relative above 1
constexpr double kParams = 1e-6;

const rl::Box kSeen{.dtype = rl::DType::kFloat32, .shape = {3}, .low = {-10}, .high = {10}};
constexpr rl::Discrete kChoices{.n = 3};

// One recorded run of updates.
class Recorded {
 public:
  explicit Recorded(const value& content) : content_(content) {}

  [[nodiscard]] std::vector<float> floats(const char* key) const { return golden::floats(at(content_, key)); }
  [[nodiscard]] double setting(const char* key) const { return golden::number(at(settings(), key)); }
  [[nodiscard]] bool flag(const char* key) const { return setting(key) != 0; }
  [[nodiscard]] const value& settings() const { return at(content_, "settings"); }
  [[nodiscard]] const golden::json::array& steps() const { return at(content_, "steps").as_array(); }
  [[nodiscard]] double number(const char* key) const { return golden::number(at(content_, key)); }
  [[nodiscard]] rl::LinearDecay learning_rate() const {
    return {.first = setting("learning_rate"), .last = setting("learning_rate")};
  }
  /// The recorded columns by their names; "returns" is recorded as "return".
  [[nodiscard]] rl::OwnedSamples batch(const std::vector<rl::Column>& columns) const {
    const auto& recorded = at(content_, "batch").as_object();
    std::vector<rl::Column> wanted;
    for (const rl::Column& column : columns)
      if (recorded.contains(key_of(column))) wanted.push_back(column);
    EXPECT_EQ(wanted.size(), recorded.size()) << "a recorded column is not read";
    // Columns that are not recorded are not read by the loss; they stay zeros.
    rl::OwnedSamples out(columns, recorded.at("obs").as_array().size());
    for (const rl::Column& column : wanted) {
      const auto numbers = golden::numbers(recorded.at(key_of(column)));
      const rl::Rows rows = out.column(column.name);
      if (column.dtype == rl::DType::kInt64) copy(numbers, rows.as<std::int64_t>());
      else copy(numbers, rows.as<float>());
    }
    return out;
  }

 private:
  static std::string key_of(const rl::Column& column) { return column.name == "returns" ? "return" : column.name; }
  template <class T>
  static void copy(const std::vector<double>& from, std::span<T> to) {
    ASSERT_EQ(from.size(), to.size());
    std::ranges::transform(from, to.begin(), [](double one) { return static_cast<T>(one); });
  }

  const value& content_;
};

rl::PolicySpec policy_of(const Recorded& recorded) {
  const auto numbers = static_cast<std::size_t>(recorded.setting("numbers"));
  rl::Space actions = kChoices;
  if (numbers != 0) actions = rl::Box{.dtype = rl::DType::kFloat32, .shape = {numbers}, .low = {-10}, .high = {10}};
  return {.observation_space = kSeen,
          .action_space = actions,
          .networks = rl::actor_critic_for(kSeen, actions, {.hidden = {8, 6}}).value()};
}

rl::FlatOptimizerOptions adam_of(const Recorded& recorded, Isa isa) {
  return {.epsilon = recorded.setting("adam_epsilon"), .max_grad_norm = recorded.setting("max_grad_norm"), .isa = isa};
}

using Arrays = std::vector<std::pair<std::string, std::vector<float>>>;  // by their names in a learner's state

/// The learner, with what is recorded in place of what it began with.
template <class L, class Options>
std::unique_ptr<L> learner_with(const Options& options, const Arrays& arrays) {
  auto out = std::make_unique<L>(options);
  rl::StateDict state = out->save();
  for (const auto& [name, numbers] : arrays) state.put(name, numbers);
  out->restore(state);
  return out;
}

void check_step(const rl::UpdateReport& report, const value& step, double tolerance) {
  for (const auto& [key, wanted] : step.as_object()) {
    if (key == "td_errors") {
      const auto numbers = golden::numbers(wanted);
      ASSERT_EQ(report.td_errors.size(), numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(report.td_errors[i], numbers[i], tolerance * std::max(1.0, numbers[i])) << "error " << i;
    } else if (key != "returns") {
      const auto metric = std::ranges::find(report.metrics, std::string(key), &rl::Metric::name);
      ASSERT_NE(metric, report.metrics.end()) << key;
      const double number = golden::number(wanted);
      EXPECT_NEAR(metric->value, number, tolerance * std::max(1.0, std::abs(number))) << key;
    }
  }
}

void check_array(std::span<const float> got, const std::vector<float>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], kParams) << what << ' ' << i;
}

void update_all(rl::Learner& learner, const Recorded& recorded, const rl::OwnedSamples& batch, double tolerance) {
  const rl::SampleView view = batch.view();
  std::size_t number = 0;
  for (const value& step : recorded.steps()) {
    SCOPED_TRACE("update " + std::to_string(++number));
    check_step(learner.update(std::span(&view, 1)), step, tolerance);
  }
  EXPECT_GT(number, 1u);
  check_array(learner.params(), recorded.floats("params_after"), "parameters");
}

void check_a2c(const Recorded& recorded, Isa isa) {
  const rl::A2cOptions options{.policy = policy_of(recorded),
                               .learning_rate = recorded.learning_rate(),
                               .value_coefficient = recorded.setting("value_coefficient"),
                               .entropy_coefficient = recorded.setting("entropy_coefficient"),
                               .normalize_advantage = recorded.flag("normalize_advantage"),
                               .optimizer = {.kind = rl::OptimizerKind::kRmsprop,
                                             .epsilon = recorded.setting("rmsprop_epsilon"),
                                             .decay = recorded.setting("rmsprop_decay"),
                                             .max_grad_norm = recorded.setting("max_grad_norm"),
                                             .isa = isa},
                               .isa = isa};
  const auto learner = learner_with<rl::A2cLearner>(options, {{"params", recorded.floats("params")}});
  update_all(*learner, recorded,
             recorded.batch(rl::on_policy_columns(options.policy.observation_space, options.policy.action_space)),
             kScalars);
}

void check_bc(const Recorded& recorded, Isa isa) {
  const rl::BcOptions options{.policy = policy_of(recorded),
                              .learning_rate = recorded.learning_rate(),
                              .entropy_coefficient = recorded.setting("entropy_coefficient"),
                              .optimizer = adam_of(recorded, isa),
                              .isa = isa};
  const auto learner = learner_with<rl::BcLearner>(options, {{"params", recorded.floats("params")}});
  update_all(*learner, recorded,
             recorded.batch({rl::column_of("obs", options.policy.observation_space),
                             rl::column_of("action", options.policy.action_space)}),
             kScalars);
}

void check_impala(const Recorded& recorded, Isa isa) {
  const rl::ImpalaOptions options{.policy = policy_of(recorded),
                                  .learning_rate = recorded.learning_rate(),
                                  .value_coefficient = recorded.setting("value_coefficient"),
                                  .entropy_coefficient = recorded.setting("entropy_coefficient"),
                                  .clip = recorded.setting("clip"),
                                  .target_interval = static_cast<std::int64_t>(recorded.setting("target_interval")),
                                  .optimizer = adam_of(recorded, isa),
                                  .isa = isa};
  Arrays arrays{{"params", recorded.floats("params")}};
  if (options.target_interval != 0) arrays.emplace_back("old_params", recorded.floats("params"));
  const auto learner = learner_with<rl::ImpalaLearner>(options, arrays);
  update_all(*learner, recorded,
             recorded.batch(rl::fragment_columns(options.policy.observation_space, options.policy.action_space)),
             kScalars);
}

void check_dqn(const Recorded& recorded, Isa isa) {
  const rl::QHeads heads = recorded.flag("dueling") ? rl::QHeads::kDueling : rl::QHeads::kPlain;
  const rl::DqnOptions options{
      .policy = rl::q_network_for(kSeen, kChoices, {.hidden = {8, 8}, .heads = heads}).value(),
      .td_target = recorded.flag("double") ? rl::TdTarget::kDouble : rl::TdTarget::kPlain,
      .loss = recorded.flag("huber") ? rl::TdLoss::kHuber : rl::TdLoss::kSquared,
      .learning_rate = recorded.learning_rate(),
      .target = {.interval = static_cast<std::int64_t>(recorded.setting("target_interval")),
                 .tau = recorded.setting("target_tau")},
      .max_grad_norm = recorded.setting("max_grad_norm"),
      .adam_epsilon = recorded.setting("adam_epsilon"),
      .isa = isa};
  const auto learner = learner_with<rl::DqnLearner>(
      options, {{"params", recorded.floats("params")}, {"target", recorded.floats("target")}});
  auto columns = rl::transition_columns(kSeen, kChoices);
  if (!recorded.flag("huber")) columns.push_back({.name = "weight"});  // that one is recorded with weights
  update_all(*learner, recorded, recorded.batch(columns), kScalars);
  check_array(learner->save().get<float>("target"), recorded.floats("target_after"), "target");
}

void check_sac(const Recorded& recorded, Isa isa) {
  const rl::Box pushed{.dtype = rl::DType::kFloat32,
                       .shape = {2},
                       .low = golden::numbers(at(recorded.settings(), "low")),
                       .high = golden::numbers(at(recorded.settings(), "high"))};
  const bool learned = at(recorded.settings(), "fixed_alpha").is_null();
  rl::SacOptions options{.policy = rl::squashed_gaussian_for(kSeen, pushed, {.hidden = {8, 8}}).value(),
                         .critic_hidden = {8, 8},
                         .learning_rate = recorded.learning_rate(),
                         .temperature = {.first = recorded.setting("first_alpha"),
                                         .target_entropy = recorded.setting("target_entropy")},
                         .tau = recorded.setting("tau"),
                         .adam_epsilon = recorded.setting("adam_epsilon"),
                         .isa = isa};
  if (!learned) options.temperature.fixed = recorded.setting("fixed_alpha");
  rl::SacLearner learner(options);
  rl::StateDict state = learner.save();
  state.put("actor/params", recorded.floats("params"));
  state.put("critics/params", recorded.floats("critics")), state.put("critics/target", recorded.floats("targets"));
  const auto generator = rl::Generator(static_cast<std::uint64_t>(recorded.setting("generator_seed"))).save();
  state.put("generator", std::vector<std::uint64_t>(generator.begin(), generator.end()));
  learner.restore(state);
  update_all(learner, recorded, recorded.batch(rl::transition_columns(kSeen, pushed)), kSacScalars);
  const rl::StateDict after = learner.save();
  check_array(after.get<float>("critics/params"), recorded.floats("critics_after"), "critics");
  check_array(after.get<float>("critics/target"), recorded.floats("targets_after"), "targets");
  EXPECT_NEAR(after.get<double>("temperature")[0],
              learned ? recorded.number("log_alpha_after") : std::log(*options.temperature.fixed), kParams);
}

void check_ars(const Recorded& recorded) {
  rl::NetworkOptions linear{.hidden = {}};
  const rl::PolicySpec policy{.observation_space = kSeen,
                              .action_space = kChoices,
                              .networks = rl::actor_critic_for(kSeen, kChoices, linear).value()};
  const rl::ArsOptions options{.policy = policy,
                               .learning_rate = recorded.setting("learning_rate"),
                               .directions = static_cast<std::size_t>(recorded.setting("directions")),
                               .top = static_cast<std::size_t>(recorded.setting("top")),
                               .seed = std::stoull(golden::text(at(recorded.settings(), "seed")))};
  rl::ArsLearner learner(options);
  rl::StateDict state = learner.save();
  auto params = state.get<float>("params");
  const std::vector<float> first = recorded.floats("params");
  ASSERT_EQ(rl::searched_parameters(policy), first.size());
  std::ranges::copy(first, params.begin());
  state.put("params", params);
  learner.restore(state);
  for (const value& step : recorded.steps()) {
    const auto returns = golden::numbers(at(step, "returns"));
    std::vector<rl::ArsPair> pairs;
    for (std::uint32_t i = 0; i < options.directions; ++i)
      pairs.push_back({.direction = i, .plus = returns[2 * i], .minus = returns[2 * i + 1]});
    rl::OwnedSamples samples(rl::perturbation_columns(), pairs.size());
    rl::write_pairs(pairs, samples.layout(), samples.memory());
    const rl::SampleView view = samples.view();
    check_step(learner.update(std::span(&view, 1)), step, kScalars);
  }
  check_array(learner.params().first(first.size()), recorded.floats("params_after"), "parameters");
  EXPECT_TRUE(std::ranges::equal(learner.params().subspan(first.size()), std::span(params).subspan(first.size())))
      << "the value is not searched";
}

void check(const std::string& algorithm, const Recorded& recorded, Isa isa) {
  if (algorithm == "a2c") return check_a2c(recorded, isa);
  if (algorithm == "bc") return check_bc(recorded, isa);
  if (algorithm == "impala") return check_impala(recorded, isa);
  if (algorithm == "dqn") return check_dqn(recorded, isa);
  if (algorithm == "sac") return check_sac(recorded, isa);
  if (algorithm == "ars") return check_ars(recorded);
  FAIL() << "nobody reads updates of " << algorithm;
}

TEST(GoldenUpdates, OfWholeLearnersOnEveryInstructionSet) {
  const auto files = golden::files_of(golden::Kind::kUpdates);
  if (files.empty()) GTEST_SKIP() << "no recorded updates";
  for (const golden::File* file : files) {
    for (const value& recorded : file->content.at("updates").as_array()) {
      for (const Isa isa : troupe::kernels::kAllIsas) {
        if (!troupe::kernels::isa_supported(isa)) continue;
        SCOPED_TRACE(golden::text(at(recorded, "name")) + " on " + std::string(troupe::kernels::isa_name(isa)));
        check(golden::text(at(recorded, "algorithm")), Recorded(recorded), isa);
      }
    }
  }
}

}  // namespace
