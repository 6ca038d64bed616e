// `datagen` with a generator that misbehaves as it is told, for the tests of the engine.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <troupe/troupe.h>

#include "apps/datagen/config/job_config.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/program/program.h"
#include "tests/datagen/tiny.h"

namespace {

using namespace datagen;

/// Numbers, after so many milliseconds, but for what `fault` says happens to the shard with sample `at`, the first time
/// only where `once` names a file to remember it by.
struct FaultSettings {
  std::string fault = "none", once, log;
  std::uint64_t at = 0;
  std::uint64_t milliseconds = 0;
};

class Faulty final : public Generator {
 public:
  Faulty(const FaultSettings& settings, std::uint64_t seed) : settings_(settings), numbers_(seed) {}
  [[nodiscard]] const Schema& schema() const override { return numbers_.schema(); }

  void generate(SampleRange range, const TableSink& sink) override {
    if (!settings_.log.empty()) std::ofstream(settings_.log, std::ios::app) << range.begin << std::endl;
    const bool here = settings_.fault != "none" && range.begin <= settings_.at && settings_.at < range.end && is_time();
    if (here && settings_.fault == "throw") throw std::runtime_error("the generator has had enough");
    if (here && settings_.fault == "crash") ::raise(SIGSEGV);
    while (here && settings_.fault == "hang") std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (here && settings_.fault == "short") --range.end;
    std::this_thread::sleep_for(std::chrono::milliseconds(settings_.milliseconds));
    if (here && settings_.fault == "unstable") {
      test::Numbers other(static_cast<std::uint64_t>(::getpid()));
      return other.generate(range, sink);
    }
    numbers_.generate(range, sink);
    if (here && settings_.fault == "late-crash") ::raise(SIGKILL);
  }

 private:
  [[nodiscard]] bool is_time() const {
    if (settings_.once.empty()) return true;
    if (std::filesystem::exists(settings_.once)) return false;
    std::ofstream(settings_.once) << "x";
    return true;
  }

  FaultSettings settings_;
  test::Numbers numbers_;
};

class FaultyOptions final : public GeneratorOptions {
 public:
  [[nodiscard]] std::vector<apps::Setting> settings() override {
    return {{.name = "fault",
             .help = "What goes wrong",
             .value = &settings_.fault,
             .choices = {"none", "throw", "crash", "late-crash", "hang", "short", "unstable", "check"}},
            {.name = "once", .help = "File by which it is known to have happened", .value = &settings_.once},
            {.name = "log", .help = "File with a line for each shard that was begun", .value = &settings_.log},
            {.name = "at", .help = "Sample at which it happens", .value = &settings_.at},
            {.name = "milliseconds", .help = "That a shard takes", .value = &settings_.milliseconds}};
  }
  [[nodiscard]] troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    return std::unique_ptr<Generator>(std::make_unique<Faulty>(settings_, context.seed));
  }
  [[nodiscard]] troupe::Result<std::string> check_line(const GeneratorContext&) override {
    if (settings_.fault == "check") throw std::runtime_error("there is nothing to compare with");
    return std::string();
  }

 private:
  FaultSettings settings_;
};

/// A shard is a file without bytes.
class SilentWriter final : public ShardWriter {
 public:
  void append(const Table&) override {}
  void finish() override {}
};

class SilentOptions final : public FormatOptions {
 public:
  [[nodiscard]] std::vector<apps::Setting> settings() override { return {}; }
  [[nodiscard]] troupe::Result<std::map<std::string, std::string>> libraries() override {
    return std::map<std::string, std::string>();
  }
  [[nodiscard]] std::string shard_name(const ShardInfo& shard) const override {
    return fmt::format("data/part-{:05}", shard.index);
  }
  [[nodiscard]] troupe::Status check(const Schema&) const override { return {}; }
  [[nodiscard]] troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema>, const ShardInfo&,
                                                                  ByteSink&) override {
    return std::unique_ptr<ShardWriter>(std::make_unique<SilentWriter>());
  }
};

/// Workers have the driver's environment, so a node that counts as another machine is told by files that it alone sees.
Machine test_machine() {
  Machine machine;
  const char* folder = std::getenv("DATAGEN_TEST_MACHINE");
  if (folder == nullptr) return machine;
  std::string word;
  if (std::ifstream(std::filesystem::path(folder) / "isa") >> word) machine.isa = isa_of(word).value();
  if (std::ifstream(std::filesystem::path(folder) / "glibc") >> word) machine.glibc = word;
  if (std::ifstream(std::filesystem::path(folder) / "libm") >> word) machine.libm = word;
  return machine;
}

}  // namespace

int main(int argc, char** argv) {
  count_as(test_machine());
  register_builtins().value();
  register_generator(test::numbers()).value();
  register_generator({.name = "faulty",
                      .help = "Numbers that go wrong",
                      .version = 1,
                      .options = [] { return std::make_unique<FaultyOptions>(); },
                      .samples_per_shard = 10})
      .value();
  register_format(test::lines()).value();
  register_format({.name = "silent",
                   .help = "Files without bytes",
                   .version = 1,
                   .options = [] { return std::make_unique<SilentOptions>(); }})
      .value();
  return troupe::run(argc, argv, &run_program);
}
