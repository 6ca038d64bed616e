#include "apps/rl/training/result_json.h"

#include <boost/json.hpp>

#include "apps/rl/envs/faults.h"

namespace rl {
namespace {

namespace json = boost::json;

json::value file_or_null(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  return json::value(path.string());
}

const char* name_of(GateState state) {
  switch (state) {
    case GateState::kOpen: return "open";
    case GateState::kAgain: return "again";
    case GateState::kPassed: return "passed";
    case GateState::kFailed: return "failed";
  }
  return "";
}

json::value gate_json(const Gate& gate) {
  if (gate.options().every <= 0 || !gate.options().threshold) return nullptr;
  json::object out{{"threshold", *gate.options().threshold}, {"state", name_of(gate.state())}};
  if (gate.again()) out["steps"] = gate.again()->steps, out["again"] = gate.again()->mean;
  return out;
}

json::value final_json(const std::optional<Evaluation>& look) {
  if (!look) return nullptr;
  return {{"mean", look->mean},
          {"interquartile_mean", interquartile_mean(*look)},
          {"deviation", look->deviation}};
}

}  // namespace

std::string training_json(const TrainingOutcome& o) {
  const TrainingLog& log = o.log;
  json::array curve;
  for (const CurvePoint& point : log.curve)
    curve.push_back(json::array{point.steps, static_cast<double>(point.mean_return)});
  json::object faults;
  for (FaultKind kind : {FaultKind::kThrew, FaultKind::kExited, FaultKind::kStalled})
    faults[name_of(kind)] = log.faults[static_cast<std::size_t>(kind)];
  json::array learning;
  for (const UpdatePoint& point : log.learning) {
    json::object of_update{{"steps", point.steps}};
    for (std::size_t i = 0; i < log.metrics.size(); ++i)
      of_update[log.metrics[i]] = static_cast<double>(point.values[i]);
    learning.push_back(std::move(of_update));
  }
  json::array evaluations;
  for (const CopyResult& copy : o.gate.copies())
    evaluations.push_back(json::array{copy.steps, copy.mean, copy.deviation});
  const double steps_this_run = static_cast<double>(log.steps - o.resumed_from);
  RunConfig config = o.config;
  json::object out{{"program", "rl"},
                   {"algo", config.algo},
                   {"env", config.env.id},
                   {"seed", config.seed},
                   {"num_workers", config.num_workers},
                   {"num_envs", config.num_envs},
                   {"horizon", config.horizon},
                   {"total_steps", config.total_steps},
                   {"config", to_json(settings_of(config))},
                   {"threshold", log.threshold ? json::value(*log.threshold) : json::value(nullptr)},
                   {"solved", log.solved()},
                   {"solved_steps", log.solved() ? json::value(log.solved_steps) : json::value(nullptr)},
                   {"solved_seconds", log.solved() ? json::value(log.solved_seconds) : json::value(nullptr)},
                   {"steps", log.steps},
                   {"episodes", log.episodes},
                   {"updates", log.updates},
                   {"faults", std::move(faults)},
                   {"mean_return", log.mean_return()},
                   {"interquartile_mean_return", log.interquartile_mean_return()},
                   {"mean_length", log.mean_length()},
                   {"seconds", log.seconds},
                   {"steps_per_second", o.seconds_this_run > 0 ? steps_this_run / o.seconds_this_run : 0.0},
                   {"resumed_from_steps", o.resumed_from},
                   {"interrupted", o.interrupted},
                   {"evaluations", std::move(evaluations)},
                   {"gate", gate_json(o.gate)},
                   {"final_return", final_json(o.final_look)},
                   {"policy", file_or_null(o.policy)},
                   {"best_policy", file_or_null(o.best)},
                   {"picture", file_or_null(o.picture)},
                   {"checkpoint", file_or_null(o.checkpoint)},
                   {"learning", std::move(learning)},
                   {"curve", std::move(curve)}};
  return json::serialize(out) + "\n";
}

std::string evaluation_json(const Policy& policy, const Evaluation& evaluation) {
  json::array returns(evaluation.returns.begin(), evaluation.returns.end());
  json::object out{{"program", "rl evaluate"},
                   {"env", policy.env.id},
                   {"trained_seed", policy.seed},
                   {"trained_steps", policy.steps},
                   {"episodes", evaluation.returns.size()},
                   {"mean_return", evaluation.mean},
                   {"deviation", evaluation.deviation},
                   {"returns", std::move(returns)}};
  return json::serialize(out) + "\n";
}

}  // namespace rl
