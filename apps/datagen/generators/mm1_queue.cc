#include "apps/datagen/generators/mm1_queue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "apps/datagen/generators/ranges.h"
#include "apps/datagen/generators/rows_generator.h"

namespace datagen {
namespace {

enum QueueStream : std::uint32_t { kQueueTerms, kQueueTimes };
enum QueueColumn : std::size_t {
  kArrivalRate, kServiceRate, kUtilization, kCustomers, kMeanWait, kWaitError, kTheory, kQueueError
};

// Means of so many parts of the run: long parts are nearly independent of each other.
constexpr std::uint64_t kBatches = 32;

struct QueueSettings {
  Bounds service_rate{0.5, 2}, utilization{0.1, 0.9};
  std::uint64_t customers = 100'000;
};

struct Wait {
  double mean = 0, standard_error = 0;
};

/// Exponential times, two words each.
class ExponentialTimes {
 public:
  ExponentialTimes(Stream stream, troupe::kernels::Isa isa) : stream_(stream), isa_(isa) {}
  /// Of mean 1.
  [[nodiscard]] double next() {
    if (used_ == words_.size()) stream_.fill(words_, isa_), used_ = 0;
    const std::uint64_t word = std::uint64_t{words_[used_]} << 32 | words_[used_ + 1];
    used_ += 2;
    return -std::log1p(-static_cast<double>(word >> 11) * 0x1p-53);
  }

 private:
  Stream stream_;
  troupe::kernels::Isa isa_;
  std::array<std::uint32_t, 256> words_{};
  std::size_t used_ = words_.size();
};

Wait simulate_queue(double arrival_rate, double service_rate, std::uint64_t customers, Stream first_wait,
                    ExponentialTimes times) {
  double wait = 0;
  if (first_wait.uniform() < arrival_rate / service_rate)  // MMQ-1
    wait = -std::log1p(-first_wait.uniform()) / (service_rate - arrival_rate);
  std::array<double, kBatches> sums{};
  const std::uint64_t per_batch = customers / kBatches;
  for (double& sum : sums)
    for (std::uint64_t i = 0; i < per_batch; ++i) {
      sum += wait;
      wait = std::max(0.0, wait + times.next() / service_rate - times.next() / arrival_rate);
    }
  double mean = 0, squares = 0;
  for (double& sum : sums) sum /= static_cast<double>(per_batch), mean += sum / kBatches;
  for (const double sum : sums) squares += (sum - mean) * (sum - mean);
  return {mean, std::sqrt(squares / (kBatches - 1) / kBatches)};
}

Schema queue_schema() {
  Schema schema;
  for (const char* name : {"arrival_rate", "service_rate", "utilization"})
    schema.fields.push_back({.name = name, .type = Type::kFloat64});
  schema.fields.push_back({.name = "customers", .type = Type::kInt64});
  for (const char* name : {"mean_wait", "standard_error", "theory", "error"})
    schema.fields.push_back({.name = name, .type = Type::kFloat64});
  return schema;
}

class Queues final : public RowsGenerator {
 public:
  Queues(const QueueSettings& settings, const GeneratorContext& context)
      : RowsGenerator(queue_schema()), settings_(settings), context_(context) {}

 private:
  void row(std::uint64_t sample, std::size_t row, Table& table) override {
    Stream terms(context_.seed, kQueueTerms, sample);
    const double service = settings_.service_rate.draw(terms), utilization = settings_.utilization.draw(terms);
    const double arrival = utilization * service;
    const Wait wait = simulate_queue(arrival, service, settings_.customers, terms,
                                     {Stream(context_.seed, kQueueTimes, sample), context_.isa});
    const double theory = utilization / (service - arrival);
    const auto put = [&](QueueColumn column, double value) { table.column(column).values<double>()[row] = value; };
    put(kArrivalRate, arrival), put(kServiceRate, service), put(kUtilization, utilization);
    table.column(kCustomers).values<std::int64_t>()[row] = static_cast<std::int64_t>(settings_.customers);
    put(kMeanWait, wait.mean), put(kWaitError, wait.standard_error);
    put(kTheory, theory), put(kQueueError, wait.mean - theory);
  }

  QueueSettings settings_;
  GeneratorContext context_;
};

class QueueOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    std::vector<apps::Setting> all;
    add_bounds(all, "service_rate", "Customers that the server could serve in a unit of time", settings_.service_rate,
               1e-6, 1e9);
    add_bounds(all, "utilization", "Share of the time that the server is busy", settings_.utilization, 1e-6, 0.999);
    all.push_back({.name = "customers", .help = "Whose mean wait a row has; a multiple of 32",
                   .value = &settings_.customers, .least = 32, .most = 1e12});
    return all;
  }

  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    if (troupe::Status fits = check_bounds("service_rate", settings_.service_rate); !fits.ok()) return fits.error_ptr();
    if (troupe::Status fits = check_bounds("utilization", settings_.utilization); !fits.ok()) return fits.error_ptr();
    if (settings_.customers % kBatches != 0)
      return troupe::InvalidArgumentError(
          fmt::format("customers is {}, no multiple of {}", settings_.customers, kBatches));
    return std::unique_ptr<Generator>(std::make_unique<Queues>(settings_, context));
  }

  troupe::Result<std::string> check_line(const GeneratorContext& context) override {
    constexpr std::uint64_t kMostRows = 64, kMostCustomers = 4'000'000;
    auto made = make(context);
    if (!made.ok()) return made.error_ptr();
    const std::uint64_t rows =
        std::min(context.samples, std::clamp<std::uint64_t>(kMostCustomers / settings_.customers, 1, kMostRows));
    double squares = 0, relative = 0;
    (*made)->generate({0, rows}, [&](const Table& table) {
      const auto error = table.column(kQueueError).values<double>();
      const auto deviation = table.column(kWaitError).values<double>(), theory = table.column(kTheory).values<double>();
      for (std::size_t i = 0; i < table.rows(); ++i) {
        if (deviation[i] > 0) squares += (error[i] / deviation[i]) * (error[i] / deviation[i]);
        relative += std::abs(error[i]) / theory[i];
      }
    });
    return fmt::format("mean waits against theory, first {} queues: RMS error {:.2f} standard errors, {:.1f} % on "
                       "average",
                       rows, std::sqrt(squares / static_cast<double>(rows)),
                       100 * relative / static_cast<double>(rows));
  }

 private:
  QueueSettings settings_;
};

}  // namespace

GeneratorKind mm1_queue() {
  return {.name = "mm1-queue",
          .help = "Queues with one server: simulated mean waits, with theory beside",
          .options = [] { return std::make_unique<QueueOptions>(); },
          .samples_per_shard = 100};
}

}  // namespace datagen
