#include "apps/datagen/generators/option_prices.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "apps/datagen/generators/normals.h"
#include "apps/datagen/generators/ranges.h"
#include "apps/datagen/generators/rows_generator.h"

namespace datagen {
namespace {

enum OptionStream : std::uint32_t { kOptionTerms, kOptionPaths };
enum OptionColumn : std::size_t { kSpot, kStrike, kRate, kVolatility, kMaturity, kCall, kPrice, kPriceError, kExact };

struct OptionSettings {
  Bounds spot{80, 120}, strike{80, 120}, rate{0, 0.05}, volatility{0.1, 0.5}, maturity{0.1, 2};
  double calls = 0.5;
  std::uint64_t paths = 10'000;
  bool antithetic = true;
};

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

struct Estimate {
  double price = 0, standard_error = 0;
};

Estimate simulate(const OptionSettings& settings, const EuropeanOption& option, Normals normals) {
  const double root = option.volatility * std::sqrt(option.maturity);
  const double drift = option.rate * option.maturity - 0.5 * root * root;
  const auto payoff = [&](double normal) {
    const double last = option.spot * std::exp(drift + root * normal);
    return std::max(0.0, option.call ? last - option.strike : option.strike - last);
  };
  const std::uint64_t samples = settings.antithetic ? settings.paths / 2 : settings.paths;
  double mean = 0, squares = 0;  // Welford: payoffs far from 0 keep their digits
  for (std::uint64_t i = 1; i <= samples; ++i) {
    const double normal = normals.next();
    const double value = settings.antithetic ? 0.5 * (payoff(normal) + payoff(-normal)) : payoff(normal);  // OPT-2
    const double away = value - mean;
    mean += away / static_cast<double>(i);
    squares += away * (value - mean);
  }
  const auto count = static_cast<double>(samples);
  const double discount = std::exp(-option.rate * option.maturity);
  return {discount * mean, discount * std::sqrt(squares / (count - 1) / count)};
}

Schema option_schema() {
  Schema schema;
  for (const char* name : {"spot", "strike", "rate", "volatility", "maturity"})
    schema.fields.push_back({.name = name, .type = Type::kFloat64});
  schema.fields.push_back({.name = "call", .type = Type::kBool});
  for (const char* name : {"price", "standard_error", "exact"})
    schema.fields.push_back({.name = name, .type = Type::kFloat64});
  return schema;
}

class OptionPrices final : public RowsGenerator {
 public:
  OptionPrices(const OptionSettings& settings, const GeneratorContext& context)
      : RowsGenerator(option_schema()), settings_(settings), context_(context) {}

 private:
  void row(std::uint64_t sample, std::size_t row, Table& table) override {
    Stream terms(context_.seed, kOptionTerms, sample);
    EuropeanOption option;
    option.spot = settings_.spot.draw(terms), option.strike = settings_.strike.draw(terms);
    option.rate = settings_.rate.draw(terms), option.volatility = settings_.volatility.draw(terms);
    option.maturity = settings_.maturity.draw(terms), option.call = terms.uniform() < settings_.calls;
    const Estimate estimate =
        simulate(settings_, option, Normals(Stream(context_.seed, kOptionPaths, sample), context_.isa));
    const auto put = [&](OptionColumn column, double value) { table.column(column).values<double>()[row] = value; };
    put(kSpot, option.spot), put(kStrike, option.strike), put(kRate, option.rate);
    put(kVolatility, option.volatility), put(kMaturity, option.maturity);
    table.column(kCall).values<bool>()[row] = option.call;
    put(kPrice, estimate.price), put(kPriceError, estimate.standard_error), put(kExact, black_scholes(option));
  }

  OptionSettings settings_;
  GeneratorContext context_;
};

class OptionPricesOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    std::vector<apps::Setting> all;
    add_bounds(all, "spot", "Price of the share today", settings_.spot, 1e-6, 1e9);
    add_bounds(all, "strike", "Price in the contract", settings_.strike, 1e-6, 1e9);
    add_bounds(all, "rate", "Interest, a year", settings_.rate, -1, 1);
    add_bounds(all, "volatility", "Deviation of the logarithm of the share, a year", settings_.volatility, 1e-6, 10);
    add_bounds(all, "maturity", "Years until it ends", settings_.maturity, 1e-6, 100);
    all.push_back({.name = "calls", .help = "Share of calls; the rest are puts", .value = &settings_.calls, .least = 0,
                   .most = 1});
    all.push_back({.name = "paths", .help = "Final values of the share an option is priced by",
                   .value = &settings_.paths, .least = 4, .most = 1e9});
    all.push_back({.name = "antithetic", .help = "Each path has its mirror image", .value = &settings_.antithetic});
    return all;
  }

  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    for (const auto& [name, bounds] :
         {std::pair("spot", settings_.spot), std::pair("strike", settings_.strike), std::pair("rate", settings_.rate),
          std::pair("volatility", settings_.volatility), std::pair("maturity", settings_.maturity)})
      if (troupe::Status fits = check_bounds(name, bounds); !fits.ok()) return fits.error_ptr();
    return std::unique_ptr<Generator>(std::make_unique<OptionPrices>(settings_, context));
  }

  troupe::Result<std::string> check_line(const GeneratorContext& context) override {
    constexpr std::uint64_t kMostRows = 256, kMostPaths = 2'000'000;
    auto made = make(context);
    if (!made.ok()) return made.error_ptr();
    const std::uint64_t rows =
        std::min(context.samples, std::clamp<std::uint64_t>(kMostPaths / settings_.paths, 1, kMostRows));
    double squares = 0, largest = 0;
    std::uint64_t counted = 0;
    (*made)->generate({0, rows}, [&](const Table& table) {
      const auto price = table.column(kPrice).values<double>(), error = table.column(kPriceError).values<double>();
      const auto exact = table.column(kExact).values<double>();
      for (std::size_t i = 0; i < table.rows(); ++i) {
        if (!(error[i] > 0)) continue;  // no path of it paid: there is no error to measure by
        const double off = (price[i] - exact[i]) / error[i];
        squares += off * off, largest = std::max(largest, std::abs(off)), ++counted;
      }
    });
    if (counted == 0) return std::string("no path of the first options paid anything: more --paths");
    return fmt::format("prices against the closed form, first {} options: RMS error {:.2f} standard errors, largest "
                       "{:.2f}",
                       counted, std::sqrt(squares / static_cast<double>(counted)), largest);
  }

 private:
  OptionSettings settings_;
};

}  // namespace

double black_scholes(const EuropeanOption& option) {
  const double root = option.volatility * std::sqrt(option.maturity);
  const double discounted = option.strike * std::exp(-option.rate * option.maturity);
  const double d1 = std::log(option.spot / discounted) / root + 0.5 * root, d2 = d1 - root;
  if (option.call) return option.spot * normal_below(d1) - discounted * normal_below(d2);
  return discounted * normal_below(-d2) - option.spot * normal_below(-d1);
}

GeneratorKind option_prices() {
  return {.name = "option-prices",
          .help = "European options priced by Monte Carlo, with the closed form beside",
          .options = [] { return std::make_unique<OptionPricesOptions>(); },
          .samples_per_shard = 1000};
}

}  // namespace datagen
