// Generator: a pure function of (its settings, a seed, a range of samples) that makes samples. What a user writes.
//
//   GeneratorKind (registered in main) ──options()──▶ GeneratorOptions: what flags set ──make()──▶ Generator
//                                                                                       generate(range) ─▶ tables
//
// A sample is a whole: an episode, a picture, a group of rows. Each draws from its own stream (random/stream.h), so
// what it is depends neither on its neighbours nor on who makes it, when, or how often.
//
// A Generator is made anew in each worker process and used by one thread at a time.
//
// GEN-1  generate() gives exactly the samples of the range, in order, in tables of the schema that hold whole samples.
// GEN-2  The same settings, seed, instruction set and range give the same tables, bit for bit, however often and in
//        whichever process: how samples are put together in tables is a function of the range as well.
// GEN-3  Whatever else decides what is generated (the bytes of a policy, the version of a library) is in identity().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/common/settings/setting.h"
#include "apps/datagen/table/table.h"
#include "kernels/cpu/isa/isa.h"

namespace datagen {

/// Samples [begin, end) of a data set.
struct SampleRange {
  std::uint64_t begin = 0, end = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// Takes a table; it is the generator's again when this returns. May throw, to end the generation.
using TableSink = std::function<void(const Table&)>;

class Generator {
 public:
  virtual ~Generator() = default;
  [[nodiscard]] virtual const Schema& schema() const = 0;
  /// GEN-1, GEN-2. Throws what went wrong; the shard is then tried again, some times.
  virtual void generate(SampleRange range, const TableSink& sink) = 0;
};

struct GeneratorContext {
  std::uint64_t seed = 0;
  troupe::kernels::Isa isa = troupe::kernels::Isa::kReference;  ///< what kernels are called with: GEN-2
  std::uint64_t samples = ~std::uint64_t{0};  ///< of the data set: picture() and check_line() look at no others
};

/// The settings of one generator, with their defaults until flags or a file change them.
class GeneratorOptions {
 public:
  virtual ~GeneratorOptions() = default;
  /// They point into this object.
  [[nodiscard]] virtual std::vector<apps::Setting> settings() = 0;
  /// GEN-3; read in the driver once, before the run. Default: nothing more.
  [[nodiscard]] virtual troupe::Result<boost::json::object> identity() { return boost::json::object(); }
  /// InvalidArgumentError for settings that do not fit each other, NotFoundError for a file that is not there, ...
  [[nodiscard]] virtual troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) = 0;
  /// A picture of a finished data set's first samples, where there is something to see: PNG. Default: none. What goes
  /// wrong here and in check_line() is told, and the run ends well: the data set is whole without them.
  [[nodiscard]] virtual troupe::Result<std::string> picture(const GeneratorContext&) { return std::string(); }
  /// A line about how right the numbers are (a known closed form), where there is one. Default: none.
  [[nodiscard]] virtual troupe::Result<std::string> check_line(const GeneratorContext&) { return std::string(); }
};

struct GeneratorKind {
  std::string name;     ///< "option-prices"
  std::string help;     ///< a line
  int version = 1;      ///< goes up when what it generates changes
  std::function<std::unique_ptr<GeneratorOptions>()> options;
  std::uint64_t samples_per_shard = 1000;  ///< unless the user says another number
};

}  // namespace datagen
