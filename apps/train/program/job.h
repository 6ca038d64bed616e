// Job: everything that a rank trains with, made from settings: model, data, sampler, validation.
//
// Every rank makes its own from the same settings, and so does the driver, which thereby finds bad input before it
// starts anything.
//
// Invariants
//   TJB-1  The same settings and files make the same job in every process.
//   TJB-2  The rows that validate are fixed: they depend on the data alone, not on seed, steps or ranks.
// Thread rule: one thread an object.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/result.h>

#include "apps/train/program/settings.h"
#include "apps/train/trainer/trainer.h"

namespace troupe::train {

struct SampleOptions {
  std::uint64_t tokens = 0;
  std::string prompt = "\n";
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

class Job {
 public:
  virtual ~Job() = default;
  virtual Model<float>& model() = 0;
  virtual std::string device() const { return {}; }  ///< the GPU that the model runs on; empty: the CPU
  virtual const SamplerOptions& sampling() const = 0;
  virtual std::size_t targets_per_row() const = 0;
  virtual Loader training() = 0;
  virtual Loader validation() = 0;
  virtual std::size_t validation_rows() const = 0;
  virtual const char* unit() const = 0;  ///< what is counted a second: "tokens", "rows"
  virtual std::size_t units_per_row() const = 0;
  virtual bool has_accuracy() const = 0;
  /// Text from these parameters; InvalidArgumentError where the model writes none.
  virtual Result<std::string> sample(std::span<const float> parameters, const SampleOptions& options) = 0;
};

/// NotFoundError, InvalidArgumentError: what is wrong with settings or files, or that this process has no GPU, or no
/// plug-in, for Device::kCuda. gpu: as own_cuda_device's `assigned`.
Result<std::unique_ptr<Job>> make_job(const JobSettings& settings, int gpu = -1);

/// The project's copy of a data file: beside the sources, or in an installation beside the program. The first that is
/// there; NotFoundError names where it was looked for.
Result<std::filesystem::path> find_data(const std::string& name);

}  // namespace troupe::train
