// The main of every measure: reads the flags, runs the measure where it wants to run, prints its rows.
//
//   measure [--only REGEX] [--quick] [--json] [--peer NAME=LIBRARY]...       exit code 0; 1 when the measure failed; 2
//   for wrong usage
#include <cstdio>
#include <span>
#include <string_view>

#include "bench/harness.h"
#include <troupe/run.h>
#if __has_include(<troupe/testing.h>)
#include <troupe/testing.h>
#define TROUPE_HAS_TESTING 1
#endif

namespace {

using troupe::bench::Harness;
using troupe::bench::Row;
using troupe::bench::program;

struct Flags {
  std::string only;
  std::map<std::string, std::string> peers;
  bool quick = false, json = false, wrong = false;
};

Flags parse(std::span<char* const> arguments) {
  Flags flags;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--quick") flags.quick = true;
    else if (argument == "--json") flags.json = true;
    else if (argument == "--only" && i + 1 < arguments.size()) flags.only = arguments[++i];
    else if (argument == "--peer" && i + 1 < arguments.size()) {
      const std::string_view peer = arguments[++i];
      const std::size_t equals = peer.find('=');
      if (equals == 0 || equals == std::string_view::npos) flags.wrong = true;
      else flags.peers.emplace(peer.substr(0, equals), peer.substr(equals + 1));
    } else flags.wrong = true;
  }
  return flags;
}

void print(const Row& row, bool json) {
  if (!json) {
    std::printf("%-36s %14.5g", row.row.c_str(), row.value);
    if (row.spread > 0) std::printf("  +- %.2g", row.spread);
    if (row.floor) std::printf("  floor %.5g", *row.floor);
    for (const auto& [name, value] : row.peers) std::printf("  %s %.5g", name.c_str(), value);
    std::printf("\n");
    return;
  }
  std::printf("{\"row\": \"%s\", \"value\": %.10g, \"spread\": %.6g", row.row.c_str(), row.value, row.spread);
  if (row.floor) std::printf(", \"floor\": %.10g", *row.floor);
  if (row.round_trip_ns) std::printf(", \"round_trip_ns\": %.10g", *row.round_trip_ns);
  if (row.copy_gb_s) std::printf(", \"copy_gb_s\": %.10g", *row.copy_gb_s);
  if (row.ping_pong_us) std::printf(", \"ping_pong_us\": %.10g", *row.ping_pong_us);
  if (!row.peers.empty()) {
    const char* separator = ", \"peers\": {";
    for (const auto& [name, value] : row.peers) {
      std::printf("%s\"%s\": %.10g", separator, name.c_str(), value);
      separator = ", ";
    }
    std::printf("}");
  }
  if (!row.unit.empty()) std::printf(", \"unit\": \"%s\", \"better\": \"%s\"", row.unit.c_str(), row.better.c_str());
  std::printf("}\n");
}

int measure(std::span<char* const> arguments) {
  const Flags flags = parse(arguments);
  if (flags.wrong) {
    std::fprintf(stderr, "usage: %s [--only REGEX] [--quick] [--json] [--peer NAME=LIBRARY]...\n", arguments[0]);
    return 2;
  }
  try {
    Harness harness(flags.only, flags.quick, flags.peers);
    bool wanted = false;
    for (const std::string& row : program.rows) wanted = wanted || harness.wants(row);
    if (wanted) program.measure(harness);
    for (const Row& row : harness.rows()) print(row, flags.json);
    return 0;
  } catch (const std::regex_error& error) {
    std::fprintf(stderr, "--only: %s\n", error.what());
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, std::size_t(argc));
  troupe::bench::usable_cpus();
  if (!program.runtime) return measure(arguments);
  if (program.nodes > 1) {
#ifdef TROUPE_HAS_TESTING
    troupe::testing::ClusterSpec spec;
    spec.nodes.resize(std::size_t(program.nodes));
    for (auto& node : spec.nodes) {
      if (program.cpus >= 0) node.cpus = program.cpus;
      node.object_store_memory = program.object_store_memory;
    }
    return troupe::testing::run(argc, argv, spec, [&](troupe::testing::Cluster&) { return measure(arguments); });
#else
    std::fprintf(stderr, "%s: needs a cluster of several nodes\n", argv[0]);
    return 1;
#endif
  }
  troupe::RunOptions options;
  options.cpus = program.cpus;
  options.object_store_memory = program.object_store_memory;
  return troupe::run(argc, argv, options, [](std::span<char* const> rest) { return measure(rest); });
}
