// Job: the generator and the format of a configuration, ready to be used in this process.
//
//   choices of a user ──configure()──▶ JobConfig ──Job::make()──▶ options of the generator and of the format
//
// One thread at a time.
//
// JOB-1  Job::make() refuses what this program does not make as the configuration says: an unknown generator or format
//        (NotFoundError), another version of one, other libraries (InvalidArgumentError with the differences).
#pragma once

#include <memory>
#include <string>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/datagen/config/job_config.h"
#include "apps/datagen/formats/format.h"
#include "apps/datagen/generators/generator.h"

namespace datagen {

/// What a user says.
struct JobChoices {
  std::string generator = {}, format = {};
  boost::json::object generator_settings = {}, format_settings = {};
  std::uint64_t samples = 0;
  std::uint64_t samples_per_shard = 0;  ///< 0: the generator's own
  std::uint64_t seed = 0;
  std::string isa = "auto";
};

/// InvalidArgumentError, NotFoundError: with the flag to change.
[[nodiscard]] troupe::Result<JobConfig> configure(const JobChoices& choices);
/// The configuration as this program would make it now: identities and versions of libraries are looked up anew.
[[nodiscard]] troupe::Result<JobConfig> configure_again(const JobConfig& config);

/// For a configuration that lay on disk: InvalidArgumentError where making it would run a program that somebody else
/// could have put there (NPG-1). NotFoundError: a generator that is not known here.
[[nodiscard]] troupe::Status check_programs(const JobConfig& config);

class Job {
 public:
  [[nodiscard]] static troupe::Result<Job> make(const JobConfig& config);

  [[nodiscard]] const JobConfig& config() const { return config_; }
  [[nodiscard]] GeneratorContext context() const {
    return {.seed = config_.seed, .isa = config_.isa, .samples = config_.plan.samples};
  }
  [[nodiscard]] GeneratorOptions& generator() { return *generator_; }
  [[nodiscard]] FormatOptions& format() { return *format_; }
  [[nodiscard]] ShardInfo shard(std::uint64_t index) const {
    return {.index = index, .count = config_.plan.shards(), .range = config_.plan.range(index)};
  }

 private:
  Job() = default;

  JobConfig config_;
  std::unique_ptr<GeneratorOptions> generator_;
  std::unique_ptr<FormatOptions> format_;
};

}  // namespace datagen
