// Trainings on three nodes, one of which is killed in the middle: ASL-1, ASL-3, PA-1.
//
// How long the run made no steps is printed, not checked: that depends on the machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "../runtime/check.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <troupe/state.h>
#include <troupe/testing.h>
#include <troupe/troupe.h>

#include "apps/rl/program/program.h"
#include "apps/rl/training/callbacks.h"
#include "tests/base/temporary_folder.h"

namespace {

void check(bool holds, const std::string& what) { rt::that(holds, what, __FILE__, __LINE__); }

troupe::testing::Cluster* cluster = nullptr;
std::function<void(const rl::TrainingLog&)> after_round;

/// A node that has a runner and neither the driver nor a learner; none: there is no such node.
troupe::testing::Node* node_of_runners_alone(const std::string& runner) {
  std::set<std::string> with, without;
  for (const troupe::ActorRow& row : troupe::list_actors({.filter = {{"state", "ALIVE"}}})) {
    if (row.class_name.find(runner) != std::string::npos) with.insert(row.node_id);
    if (row.class_name.find("LearnerActor") != std::string::npos) without.insert(row.node_id);
  }
  for (std::size_t i = 1; i < cluster->size(); ++i) {
    troupe::testing::Node& node = cluster->node(i);
    if (with.contains(node.id()) && !without.contains(node.id())) return &node;
  }
  return nullptr;
}

struct Line {
  std::int64_t steps;
  double seconds, thrown_away;
};

double number(const boost::json::object& object, const char* name) {
  const boost::json::value* value = object.if_contains(name);
  return value == nullptr ? 0 : value->to_number<double>();
}

std::vector<Line> progress(const std::filesystem::path& folder) {
  std::ifstream file(folder / "progress.jsonl");
  std::vector<Line> out;
  for (std::string line; std::getline(file, line);) {
    const boost::json::object object = boost::json::parse(line).as_object();
    if (object.contains("steps_per_second"))
      out.push_back({.steps = object.at("steps").to_number<std::int64_t>(),
                     .seconds = object.at("seconds").to_number<double>(),
                     .thrown_away = number(object, "thrown_away")});
  }
  return out;
}

int train(std::vector<std::string> words) {
  words.insert(words.begin(), {"rl", "train"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return rl::run_program(rl::Program::kRl, arguments);
}

/// Kills the node of a runner after the round in which `when` first holds.
void kill_a_node(const std::string& name, const std::string& runner, std::vector<std::string> arguments,
                 std::int64_t steps_of_a_round, std::int64_t total, int returns_at_most,
                 const std::function<bool(const rl::TrainingLog&, const std::filesystem::path& out)>& when) {
  const troupe::test::TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  bool killed = false;
  after_round = [&](const rl::TrainingLog& log) {
    if (killed || !when(log, out)) return;
    // Runners of the other nodes may come late, and the one here feeds the run alone till then. It waits for this.
    troupe::testing::Node* node = nullptr;
    rt::eventually([&] { return (node = node_of_runners_alone(runner)) != nullptr; });
    check(node != nullptr, name + ": a node has runners and no learner");
    killed = true;
    if (node != nullptr) node->kill();
  };
  for (const char* word : {"--keep-going", "--no-tensorboard", "--out"}) arguments.emplace_back(word);
  arguments.push_back(out.string());
  arguments.insert(arguments.end(), {"--steps", std::to_string(total), "--evaluate-every", "0"});
  const int code = train(arguments);
  check(code == 0 || code == 3, fmt::format("{}: it ends, solved or not, not with code {}", name, code));
  after_round = {};
  check(killed, name + ": the node was killed before the run was over");
  const std::vector<Line> lines = progress(out);
  check(!lines.empty() && lines.back().steps == total, name + ": all steps were made");
  double longest = 0;
  int returns = 0;  // to a checkpoint
  for (std::size_t i = 1; i < lines.size(); ++i) {
    longest = std::max(longest, lines[i].seconds - lines[i - 1].seconds);
    if (lines[i].steps <= lines[i - 1].steps) ++returns;
    else check(lines[i].steps == lines[i - 1].steps + steps_of_a_round,
               fmt::format("{}: {} follow {}: every round is what was consumed", name, lines[i].steps,
                           lines[i - 1].steps));
  }
  check(returns <= returns_at_most, fmt::format("{}: {} returns to a checkpoint", name, returns));
  fmt::print("{}: {} rounds, the longest without new steps {:.2f} s, fragments lost {}, returns to a checkpoint {}\n",
             name, lines.size(), longest, lines.empty() ? 0 : lines.back().thrown_away, returns);
  std::fflush(stdout);
  (void)cluster->add_node({.cpus = 1});
}

int driver(troupe::testing::Cluster& c) {
  cluster = &c;
  kill_a_node("impala", "FragmentActor",
              {"--algo", "impala", "--num-workers", "3", "--num-envs", "4", "--horizon", "32", "--max-outstanding", "8",
               "--max-staleness", "1000000"},
              128, 204'800, 0,
              [](const rl::TrainingLog& log, const auto&) { return log.steps >= 20'480; });
  kill_a_node("impala with inference actors", "FragmentActor",
              {"--algo", "impala", "--num-workers", "3", "--num-envs", "4", "--horizon", "32", "--inference-actors",
               "1", "--max-staleness", "1000000"},
              128, 102'400, 0, [](const rl::TrainingLog& log, const auto&) { return log.steps >= 20'480; });
  // What a synchronous round was to be learned from may be lost with the node: that is the named restart.
  kill_a_node("ppo", "RolloutActor",
              {"--env", "MountainCar-v0", "--hidden", "256,256", "--num-workers", "3", "--num-envs", "8"}, 1536,
              1536 * 40, 1, [](const rl::TrainingLog&, const std::filesystem::path& out) {
                return std::filesystem::exists(out / "checkpoint.bin");
              });
  return rt::failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  rl::register_callback([](const rl::TrainingLog& log) {
    if (after_round) after_round(log);
    return false;
  });
  return troupe::testing::run(argc, argv, {.nodes = {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}}}, &driver);
}
