#include "apps/train/program/run_report.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/line_chart.h"

namespace troupe::train {
namespace {

namespace json = boost::json;

/// JSON knows no NaN.
json::value number(double value) { return std::isfinite(value) ? json::value(value) : json::value(nullptr); }

json::value text_or_null(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

double units_per_second(const RunFacts& facts, const TrainingLog& log) {
  return log.seconds.total > 0 ? facts.units_per_step * static_cast<double>(log.timed_steps) / log.seconds.total : 0;
}

json::object shares(const StepSeconds& s) {
  const double whole = s.total > 0 ? s.total : 1;
  return {{"input", s.input / whole},
          {"compute", s.compute / whole},
          {"communication", s.communication / whole},
          {"update", s.update / whole}};
}

void add_settings(const JobSettings& job, json::object& out) {
  const RunSettings& run = run_of(job);
  out["seed"] = run.seed;
  out["workers"] = run.workers;
  out["total_steps"] = run.steps;
  out["device"] = run.device == Device::kCuda ? "cuda" : "cpu";
  out["batch"] = run.batch;
  out["zero"] = run.zero == Zero::k1 ? 1 : 0;
  if (const auto* gpt = std::get_if<GptSettings>(&job)) {
    out["layers"] = gpt->layers;
    out["heads"] = gpt->heads;
    out["channels"] = gpt->channels;
    out["context"] = gpt->context;
  } else {
    const auto& mlp = std::get<MlpSettings>(job);
    out["hidden"] = json::array(mlp.hidden.begin(), mlp.hidden.end());
    out["activation"] = mlp.activation == Activation::kRelu ? "relu" : "tanh";
  }
}

template <class Line>
void replace_from(std::vector<Line>& lines, const Line& line) {
  while (!lines.empty() && lines.back().step >= line.step) lines.pop_back();
  lines.push_back(line);
}

}  // namespace

void TrainingLog::add(const News& news) {
  for (const StepLine& line : news.steps) replace_from(steps, line);
  for (const EvaluationLine& line : news.evaluations) replace_from(evaluations, line);
  for (const Recovery& recovery : news.recoveries)  // another rank tells what its predecessor had told already
    if (std::ranges::none_of(recoveries, [&](const Recovery& known) {
          return known.text == recovery.text && known.ranks == recovery.ranks;
        }))
      recoveries.push_back(recovery);
  for (const std::string& warning : news.warnings)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
  seconds = news.seconds;
  bytes = news.bytes;
  timed_steps = news.timed_steps;
}

RunFacts facts_of(const std::string& program, const JobSettings& settings, Job& job, int ranks) {
  const std::uint64_t batch = run_of(settings).batch;
  return {.program = program,
          .job = settings,
          .ranks = ranks,
          .unit = job.unit(),
          .units_per_step = static_cast<double>(batch * job.units_per_row()),
          .flops_per_step = job.model().step_flops(batch),
          .parameters = job.model().parameter_count()};
}

std::string progress_line(const RunFacts& facts, const TrainingLog& log, double seconds, int bar_width) {
  const std::int64_t total = run_of(facts.job).steps, reached = log.reached();
  std::string line =
      apps::bar(static_cast<double>(reached) / static_cast<double>(std::max<std::int64_t>(total, 1)), bar_width);
  line += fmt::format("{}/{} steps", apps::grouped(reached), apps::grouped(total));
  if (!log.steps.empty()) line += fmt::format("  loss {:.4f}", log.steps.back().loss);
  if (!log.evaluations.empty()) {
    const EvaluationLine& last = log.evaluations.back();
    line += last.accuracy >= 0 ? fmt::format("  accuracy {:.4f}", last.accuracy)
                               : fmt::format("  validation {:.4f}", last.loss);
  }
  const auto done = static_cast<double>(reached - log.began_at());
  line += fmt::format("  {} {}/s  ETA ", apps::short_rate(units_per_second(facts, log)), facts.unit);
  return line + (done > 0 ? apps::clock_time(static_cast<double>(total - reached) * seconds / done) : "-:--");
}

std::string curve_svg(const RunFacts& facts, const TrainingLog& log) {
  std::vector<apps::Series> series{{.name = "training", .color = "#9cc3e6", .width = 1},
                                   {.name = "validation", .color = "#c2571a", .dots = true}};
  for (const StepLine& line : log.steps) series[0].points.push_back({static_cast<double>(line.step), line.loss});
  for (const EvaluationLine& line : log.evaluations)
    series[1].points.push_back({static_cast<double>(line.step), line.loss});
  if (!log.evaluations.empty()) {
    const EvaluationLine& last = log.evaluations.back();
    series[1].name += fmt::format(" ({:.4f} at the end)", last.loss);
    if (last.accuracy >= 0) series[1].name += fmt::format(", accuracy {:.4f}", last.accuracy);
  }
  return apps::line_chart_svg({.title = fmt::format("{}: {} parameters, {} rank{}, seed {}", facts.program,
                                                    apps::grouped(static_cast<std::int64_t>(facts.parameters)),
                                                    facts.ranks, facts.ranks == 1 ? "" : "s", run_of(facts.job).seed),
                               .x_label = "steps",
                               .y_label = "loss"},
                              series);
}

std::string result_json(const RunFacts& facts, const TrainingLog& log, const RunEnd& end) {
  json::object out{{"program", facts.program}, {"parameters", facts.parameters}, {"ranks", facts.ranks}};
  add_settings(facts.job, out);
  json::array losses, step_seconds, evaluations, recoveries;
  for (const StepLine& line : log.steps) {
    losses.push_back(json::array{line.step, number(line.loss)});
    step_seconds.push_back(json::array{line.step, line.seconds});
  }
  for (const EvaluationLine& line : log.evaluations) {
    json::object one{{"step", line.step}, {"loss", number(line.loss)}, {"seconds_per_step", line.seconds.total},
                     {"shares", shares(line.seconds)}};
    if (line.accuracy >= 0) one["accuracy"] = line.accuracy;
    evaluations.push_back(std::move(one));
  }
  for (const Recovery& recovery : log.recoveries)
    recoveries.push_back(json::object{{"ranks", recovery.ranks},
                                      {"step", recovery.step},
                                      {"lost_steps", recovery.lost_steps},
                                      {"why", text_or_null(recovery.why)},
                                      {"text", recovery.text}});
  const bool evaluated = !log.evaluations.empty();
  const bool has_accuracy = evaluated && log.evaluations.back().accuracy >= 0;
  const double rate = units_per_second(facts, log);
  out["steps"] = log.reached();
  out["resumed_from"] = log.began_at();
  out["interrupted"] = end.interrupted;
  out["error"] = text_or_null(end.error);
  out["loss"] = log.steps.empty() ? json::value(nullptr) : number(log.steps.back().loss);
  out["validation_loss"] = evaluated ? number(log.evaluations.back().loss) : json::value(nullptr);
  out["accuracy"] = has_accuracy ? json::value(log.evaluations.back().accuracy) : json::value(nullptr);
  out["seconds"] = end.seconds;
  out[facts.unit + "_per_second"] = rate;
  out["gflops"] = facts.units_per_step > 0 ? facts.flops_per_step / facts.units_per_step * rate / 1e9 : 0.0;
  out["shares"] = shares(log.seconds);
  out["bytes_per_step"] = json::object{{"gradients", log.bytes.gradients},
                                       {"parameters", log.bytes.parameters},
                                       {"control", log.bytes.control}};
  out["picture"] = text_or_null(end.picture.string());
  out["checkpoint"] = text_or_null(end.checkpoint.string());
  out["sample"] = text_or_null(end.sample);
  out["recoveries"] = std::move(recoveries);
  out["warnings"] = json::array(log.warnings.begin(), log.warnings.end());
  out["evaluations"] = std::move(evaluations);
  out["losses"] = std::move(losses);
  out["step_seconds"] = std::move(step_seconds);
  return json::serialize(out) + "\n";
}

RunReport::RunReport(RunFacts facts, bool terminal) : facts_(std::move(facts)), progress_(stderr, terminal) {}

void RunReport::add(const News& news, double seconds) {
  const std::size_t known = log_.recoveries.size(), warned = log_.warnings.size();
  log_.add(news);
  for (const Recovery& recovery : std::span(log_.recoveries).subspan(known))
    progress_.note(
        fmt::format("{} rank{}: {}{}", recovery.ranks, recovery.ranks == 1 ? "" : "s", recovery.text,
                    recovery.lost_steps > 0 ? fmt::format(" ({} steps are done again)", recovery.lost_steps) : ""));
  for (const std::string& warning : std::span(log_.warnings).subspan(warned)) progress_.note("warning: " + warning);
  progress_.update(seconds, [&](int width) { return progress_line(facts_, log_, seconds, width); });
}

void RunReport::end(double seconds) {
  progress_.update(seconds, [&](int width) { return progress_line(facts_, log_, seconds, width); }, true);
}

}  // namespace troupe::train
