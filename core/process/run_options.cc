#include "core/process/run_options.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>

namespace troupe::worker {

namespace {

Result<double> parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(value) || value < 0)
    return InvalidArgumentError("'" + text + "' is not a number of 0 or more");
  return value;
}

/// "2GB", "512MiB", "1000000"
Result<double> parse_bytes(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit(end);
  static const std::map<std::string, double> units{{"", 1},
                                                   {"B", 1},
                                                   {"K", 1024.},
                                                   {"KB", 1e3},
                                                   {"KiB", 1024.},
                                                   {"M", 1048576.},
                                                   {"MB", 1e6},
                                                   {"MiB", 1048576.},
                                                   {"G", 1073741824.},
                                                   {"GB", 1e9},
                                                   {"GiB", 1073741824.},
                                                   {"TB", 1e12},
                                                   {"TiB", 1099511627776.}};
  auto found = units.find(unit);
  if (end == text.c_str() || found == units.end() || !(value >= 0) || value * found->second >= 0x1p63)
    return InvalidArgumentError("'" + text + "' is not a size such as 2GB or 512MiB");
  return value * found->second;
}

Result<double> parse_seconds(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  if (end == text.c_str() || !(value >= 0) || !(value <= 1e9) || !(unit.empty() || unit == "s" || unit == "ms"))
    return InvalidArgumentError("'" + text + "' is not a duration such as 10s or 500ms");
  return unit == "ms" ? value / 1000 : value;
}

Result<std::map<std::string, std::string>> parse_pairs(const std::string& text) {
  std::map<std::string, std::string> out;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t comma = text.find(',', at);
    if (comma == std::string::npos) comma = text.size();
    const std::string pair = text.substr(at, comma - at);
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) return InvalidArgumentError("'" + pair + "' is not NAME=VALUE");
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
    at = comma + 1;
  }
  return out;
}

struct Option {
  const char* name;     // --troupe-NAME and TROUPE_NAME
  const char* help;
  bool flag;            // needs no value
  std::function<Status(RunOptions&, const std::string&)> set;
};

template <class Parse, class Set> std::function<Status(RunOptions&, const std::string&)> with(Parse parse, Set set) {
  return [parse, set](RunOptions& options, const std::string& text) -> Status {
    auto value = parse(text);
    if (!value.ok()) return value.error_ptr();
    set(options, *value);
    return {};
  };
}

const std::vector<Option>& all_options() {
  auto text = [](const std::string& t) -> Result<std::string> { return t; };
  auto yes = [](const std::string& t) -> Result<bool> { return t != "0" && t != "false" && t != "no"; };
  static const std::vector<Option> options{
      {"address",
       "HOST:PORT of a running cluster, a file that holds it, or a node's socket (of several nodes here: the first "
       "that was "
       "started); without it an embedded one-node cluster",
       false, with(text, [](RunOptions& o, auto& v) { o.address = v; })},
      {"local",
       "everything in one process, on threads, for gdb, valgrind and sanitizers; env of tasks and actors is refused",
       true, with(yes, [](RunOptions& o, auto& v) { o.local = v; })},
      {"cpus", "CPUs of the embedded node (default: the machine's)", false,
       with(parse_number, [](RunOptions& o, auto& v) { o.cpus = v; })},
      {"gpus", "GPUs of the embedded node", false, with(parse_number, [](RunOptions& o, auto& v) { o.gpus = v; })},
      {"resources", "further resources: name=amount,...", false,
       [](RunOptions& o, const std::string& t) -> Status {
         auto pairs = parse_pairs(t);
         if (!pairs.ok()) return pairs.error_ptr();
         for (auto& [name, amount] : *pairs) {
           auto value = parse_number(amount);
           if (!value.ok()) return value.error_ptr();
           o.resources[name] = *value;
         }
         return {};
       }},
      {"object-store-memory", "size of the object store, e.g. 2GB (default: 30 % of memory)", false,
       with(parse_bytes, [](RunOptions& o, auto& v) { o.object_store_memory = std::uint64_t(v); })},
      {"name-space", "namespace of actor names", false, with(text, [](RunOptions& o, auto& v) { o.name_space = v; })},
      {"labels", "labels of the embedded node: name=value,...", false,
       with(parse_pairs, [](RunOptions& o, auto& v) { o.labels = v; })},
      {"call-memory",
       "memory that open calls of one process may take before submitting waits (default: 25 % of memory)", false,
       with(parse_bytes, [](RunOptions& o, auto& v) { o.call_memory = std::uint64_t(v); })},
      {"ring-memory",
       "memory of the rings between processes; above it their calls go by the node daemon (default: 64 MiB)", false,
       with(parse_bytes, [](RunOptions& o, auto& v) { o.ring_memory = std::uint64_t(v); })},
      {"log-level", "debug, info, warn, error or off", false,
       with(text, [](RunOptions& o, auto& v) { o.log_level = v; })},
      {"shutdown-grace", "time to end after the first SIGINT or SIGTERM, e.g. 10s", false,
       with(parse_seconds, [](RunOptions& o, auto& v) { o.shutdown_grace = Duration(std::int64_t(v * 1e9)); })},
      {"max-suspended-workers", "workers a node keeps for tasks that wait", false,
       with(parse_number, [](RunOptions& o, auto& v) { o.max_suspended_workers = int(v); })},
      {"stack-size", "stack of a fiber, e.g. 1MiB", false,
       with(parse_bytes, [](RunOptions& o, auto& v) { o.stack_size = std::uint64_t(v); })},
  };
  return options;
}

std::string variable_of(const std::string& name) {
  std::string out = "TROUPE_";
  for (char c : name) out += c == '-' ? '_' : char(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

Result<ParsedRun> parse_run(int argc, char** argv, const RunOptions& defaults) {
  ParsedRun parsed{defaults, {}, false};
  for (const Option& option : all_options()) {
    const char* value = std::getenv(variable_of(option.name).c_str());
    if (!value) continue;
    if (Status status = option.set(parsed.options, value); !status.ok())
      return InvalidArgumentError(variable_of(option.name) + ": " + status.error().message());
  }
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (i == 0 || argument.rfind("--troupe-", 0) != 0) {
      parsed.arguments.push_back(argv[i]);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(9, equals == std::string::npos ? std::string::npos : equals - 9);
    if (name == "help") {
      parsed.help = true;
      continue;
    }
    const Option* option = nullptr;
    for (const Option& one : all_options())
      if (name == one.name) option = &one;
    if (!option) return InvalidArgumentError("unknown flag " + argument + "; --troupe-help lists them");
    std::string value = "1";
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    else if (!option->flag) {
      if (i + 1 >= argc) return InvalidArgumentError(argument + " needs a value");
      value = argv[++i];
    }
    if (Status status = option->set(parsed.options, value); !status.ok())
      return InvalidArgumentError("--troupe-" + name + ": " + status.error().message());
  }
  return parsed;
}

std::string run_help() {
  std::string text = "Flags of Troupe (each also as a variable, e.g. TROUPE_CPUS; a flag wins over the variable):\n";
  for (const Option& option : all_options())
    text += fmt::format("  {:<34} {}\n", fmt::format("--troupe-{}{}", option.name, option.flag ? "" : "=VALUE"),
                        option.help);
  text += fmt::format("  {:<34} {}\n", "--troupe-help", "this list");
  return text;
}

}  // namespace troupe::worker
