#include "apps/rl/training/seeds_summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/common/progress.h"

namespace rl {
namespace {

namespace json = boost::json;

constexpr int kInterrupted = 130;

std::optional<double> number_or_none(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  return value.to_number<double>();
}

std::optional<OverSeeds> over_seeds(const std::vector<SeedOutcome>& seeds,
                                    std::optional<double> SeedOutcome::*number) {
  ScoreMatrix scores{.tasks = 1};
  for (const SeedOutcome& one : seeds)
    if (one.ended() && one.*number) scores.values.push_back(*(one.*number));
  scores.runs = scores.values.size();
  const auto middle = estimate(Aggregate::kInterquartileMean, scores, {});
  if (!middle.ok()) return std::nullopt;  // there are none
  return OverSeeds{.mean = aggregate(Aggregate::kMean, scores), .interquartile_mean = *middle};
}

json::value to_json(const std::optional<OverSeeds>& over) {
  if (!over) return nullptr;
  const Estimate& middle = over->interquartile_mean;
  return json::object{{"mean", over->mean},
                      {"interquartile_mean", middle.value},
                      {"low", middle.low},
                      {"high", middle.high}};
}

template <class T>
json::value value_or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

std::string cell(const std::optional<double>& number) { return number ? fmt::format("{:.1f}", *number) : "-"; }

std::string how_it_ended(const SeedOutcome& one) {
  if (one.exit_code == kInterrupted) return "interrupted";
  if (!one.ended()) return fmt::format("failed ({})", one.exit_code);
  return one.gate.empty() ? "-" : one.gate;
}

std::string over_line(const char* name, const std::optional<OverSeeds>& over) {
  if (!over) return {};
  const Estimate& middle = over->interquartile_mean;
  return fmt::format("{}: mean {:.1f}, interquartile mean {:.1f}, 95 % interval {:.1f} to {:.1f}\n", name, over->mean,
                     middle.value, middle.low, middle.high);
}

}  // namespace

troupe::Result<SeedOutcome> seed_outcome(std::uint64_t seed, int exit_code, const std::string& result) {
  SeedOutcome out{.seed = seed, .exit_code = exit_code};
  try {
    const json::object read = json::parse(result).as_object();
    out.steps = read.at("steps").to_number<std::int64_t>();
    if (!read.at("solved_steps").is_null()) out.solved_steps = read.at("solved_steps").to_number<std::int64_t>();
    if (read.at("episodes").to_number<std::int64_t>() > 0) out.mean_return = number_or_none(read.at("mean_return"));
    const json::array& copies = read.at("evaluations").as_array();
    if (!copies.empty()) out.last_copy = copies.back().as_array().at(1).to_number<double>();
    if (const json::object* gate = read.at("gate").if_object()) out.gate = std::string(gate->at("state").as_string());
    out.seconds = read.at("seconds").to_number<double>();
    for (const json::value& point : read.at("curve").as_array())
      out.curve.push_back({.steps = point.as_array().at(0).to_number<std::int64_t>(),
                           .mean_return = static_cast<float>(point.as_array().at(1).to_number<double>())});
    if (!out.curve.empty()) return out;
    out.curve_of_copies = true;
    for (const json::value& copy : copies)
      out.curve.push_back({.steps = copy.as_array().at(0).to_number<std::int64_t>(),
                           .mean_return = static_cast<float>(copy.as_array().at(1).to_number<double>())});
  } catch (const std::exception& error) {
    return troupe::SerializationError(fmt::format("the result of seed {} cannot be read: {}", seed, error.what()));
  }
  return out;
}

SeedsSummary summarize(const std::vector<SeedOutcome>& seeds) {
  SeedsSummary out;
  for (const SeedOutcome& one : seeds) {
    if (one.exit_code == kInterrupted) ++out.interrupted;
    else if (!one.ended()) ++out.failed;
    if (!one.ended()) continue;  // SSM-1
    ++out.ended;
    out.solved += one.solved_steps ? 1 : 0;
    out.gates_passed += one.gate == "passed" ? 1 : 0;
  }
  out.mean_return = over_seeds(seeds, &SeedOutcome::mean_return);
  out.last_copy = over_seeds(seeds, &SeedOutcome::last_copy);
  return out;
}

std::string summary_text(const std::vector<SeedOutcome>& seeds) {
  std::string out = fmt::format("{:>8} {:>12} {:>12} {:>12} {:>12}  {}\n", "seed", "steps", "solved after",
                                "last 100", "last copy", "gate");
  for (const SeedOutcome& one : seeds)
    out += fmt::format("{:>8} {:>12} {:>12} {:>12} {:>12}  {}\n", one.seed, apps::grouped(one.steps),
                       one.solved_steps ? apps::grouped(*one.solved_steps) : "-", cell(one.mean_return),
                       cell(one.last_copy), how_it_ended(one));
  const SeedsSummary all = summarize(seeds);
  out += fmt::format("{} of {} seeds ended: {} solved, {} passed their gate\n", all.ended, seeds.size(), all.solved,
                     all.gates_passed);
  out += over_line("return of the last 100 episodes", all.mean_return);
  out += over_line("return without exploration, last copy", all.last_copy);
  return out;
}

json::object summary_json(const std::vector<SeedOutcome>& seeds) {
  const SeedsSummary all = summarize(seeds);
  json::array each;
  for (const SeedOutcome& one : seeds)
    each.push_back(json::object{{"seed", one.seed},
                                {"exit_code", one.exit_code},
                                {"steps", one.steps},
                                {"solved_steps", value_or_null(one.solved_steps)},
                                {"mean_return", value_or_null(one.mean_return)},
                                {"last_copy", value_or_null(one.last_copy)},
                                {"gate", one.gate.empty() ? json::value(nullptr) : json::value(one.gate)},
                                {"seconds", one.seconds}});
  return {{"seeds", std::move(each)},
          {"ended", all.ended},
          {"solved", all.solved},
          {"gates_passed", all.gates_passed},
          {"failed", all.failed},
          {"interrupted", all.interrupted},
          {"mean_return", to_json(all.mean_return)},
          {"last_copy", to_json(all.last_copy)}};
}

}  // namespace rl
