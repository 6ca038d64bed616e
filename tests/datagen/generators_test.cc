// GEN-1 to GEN-3 of the generators that need no file, and how right their numbers are: OPT-1, OPT-2, MMQ-1, TAB-1,
// TAB-2, BLB-1, RGN-1.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/generators/blobs.h"
#include "apps/datagen/generators/builtin.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/generators/mm1_queue.h"
#include "apps/datagen/generators/option_prices.h"
#include "apps/datagen/generators/scenes/scenes.h"
#include "apps/datagen/generators/tabular.h"
#include "apps/datagen/random/stream.h"
#include "tests/datagen/samples.h"

namespace {

using namespace datagen;
using namespace datagen::test;
using troupe::kernels::Isa;

struct Case {
  std::string name;
  GeneratorKind kind;
  Typed typed;
  SampleRange range;
};

std::vector<Case> cases() {
  return {{"option_prices", option_prices(), {{"paths", "50"}}, {0, 2500}},
          {"option_prices_plain", option_prices(), {{"paths", "51"}, {"antithetic", "false"}}, {5000, 5100}},
          {"mm1_queue", mm1_queue(), {{"customers", "320"}}, {10, 1300}},
          {"tabular", tabular(), {{"label_noise", "0.3"}}, {0, 20'000}},
          {"tabular_64", tabular(), {{"columns", "64"}}, {(1ull << 40) + 3, (1ull << 40) + 9000}},
          {"tabular_odd", tabular(), {{"columns", "13"}, {"clusters", "1"}, {"classes", "1"}}, {1, 700}},
          {"scenes", scenes(), {{"width", "24"}, {"height", "16"}}, {5, 105}},
          {"blobs", blobs(), {{"bytes", "1000"}}, {0, 3000}},
          {"blobs_odd", blobs(), {{"bytes", "3"}, {"classes", "1"}}, {7, 70}}};
}

class EveryGenerator : public testing::TestWithParam<Case> {};

TEST_P(EveryGenerator, ASampleIsTheSameHoweverTheRangeIsCut) {  // GEN-1, GEN-2
  const Case& one = GetParam();
  const std::unique_ptr<Generator> whole = make(one.kind, one.typed, {.seed = 11});
  ASSERT_TRUE(check_schema(whole->schema()).ok());
  const std::vector<std::string> expected = samples_of(*whole, one.range);
  ASSERT_EQ(expected.size(), one.range.size());
  const std::unique_ptr<Generator> cut = make(one.kind, one.typed, {.seed = 11});
  Stream random(3, 0, 0);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> pieces;
    for (std::uint64_t begin = one.range.begin; begin < one.range.end;) {
      const std::uint64_t end = std::min(one.range.end, begin + 1 + random.below(round == 0 ? 97 : 1500));
      for (std::string& sample : samples_of(*cut, {begin, end})) pieces.push_back(std::move(sample));
      begin = end;
    }
    ASSERT_EQ(pieces.size(), expected.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) ASSERT_TRUE(pieces[i] == expected[i]) << "sample " << i;
  }
  EXPECT_TRUE(samples_of(*cut, {one.range.begin, one.range.begin}).empty());
  // A sample alone, behind another range.
  const std::uint64_t middle = one.range.begin + one.range.size() / 2;
  EXPECT_EQ(samples_of(*cut, {middle, middle + 1}).at(0), expected[middle - one.range.begin]);
}

TEST_P(EveryGenerator, TablesAreAFunctionOfTheRange) {  // GEN-2
  const Case& one = GetParam();
  const std::unique_ptr<Generator> first = make(one.kind, one.typed, {.seed = 11});
  const std::unique_ptr<Generator> second = make(one.kind, one.typed, {.seed = 11});
  (void)samples_of(*second, {one.range.begin, one.range.begin + 3});  // what came before changes nothing
  EXPECT_EQ(table_rows_of(*first, one.range), table_rows_of(*second, one.range));
}

TEST_P(EveryGenerator, EveryInstructionSetGivesTheSame) {  // these use whole numbers of Philox alone
  const Case& one = GetParam();
  const std::vector<std::string> expected = samples_of(*make(one.kind, one.typed, {.seed = 5}), one.range);
  for (const Isa isa : troupe::kernels::kAllIsas)
    if (troupe::kernels::isa_supported(isa)) {
      EXPECT_TRUE(samples_of(*make(one.kind, one.typed, {.seed = 5, .isa = isa}), one.range) == expected)
          << troupe::kernels::isa_name(isa);
    }
}

TEST_P(EveryGenerator, AnotherSeedGivesOtherSamples) {
  const Case& one = GetParam();
  const SampleRange range{one.range.begin, one.range.begin + 20};
  const auto first = samples_of(*make(one.kind, one.typed, {.seed = 1}), range);
  const auto second = samples_of(*make(one.kind, one.typed, {.seed = 2}), range);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], second[i]);
}

INSTANTIATE_TEST_SUITE_P(All, EveryGenerator, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

template <class T>
std::vector<T> column(Generator& generator, SampleRange range, const std::string& name) {
  std::vector<T> out;
  generator.generate(range, [&](const Table& table) {
    const auto values = table.column(table.schema().find(name)).values<T>();
    out.insert(out.end(), values.begin(), values.end());
  });
  return out;
}

TEST(OptionPrices, TheClosedFormIsThatOfTheBooks) {
  // Hull, Options, Futures and Other Derivatives: S 42, K 40, r 0.1, sigma 0.2, T 0.5: call 4.76, put 0.81.
  const EuropeanOption call{.spot = 42, .strike = 40, .rate = 0.1, .volatility = 0.2, .maturity = 0.5};
  EuropeanOption put = call;
  put.call = false;
  EXPECT_NEAR(black_scholes(call), 4.7594, 1e-4);
  EXPECT_NEAR(black_scholes(put), 0.8086, 1e-4);
  // Put-call parity.
  EXPECT_NEAR(black_scholes(call) - black_scholes(put), 42 - 40 * std::exp(-0.05), 1e-12);
}

TEST(OptionPrices, ErrorsAreThoseOfSampling) {  // OPT-1, OPT-2
  for (const char* antithetic : {"true", "false"}) {
    const Typed typed{{"paths", "2000"}, {"antithetic", antithetic}};
    const auto generator = make(option_prices(), typed, {.seed = 3, .isa = troupe::kernels::best_isa()});
    const SampleRange range{0, 400};
    const auto price = column<double>(*generator, range, "price"), exact = column<double>(*generator, range, "exact");
    const auto error = column<double>(*generator, range, "standard_error");
    double squares = 0, count = 0;
    for (std::size_t i = 0; i < price.size(); ++i)
      if (error[i] > 0.01) squares += std::pow((price[i] - exact[i]) / error[i], 2), ++count;
    EXPECT_GT(count, 300);
    // Of `count` squares of about normal numbers the mean's deviation is sqrt(2 / count).
    EXPECT_NEAR(squares / count, 1, 6 * std::sqrt(2 / count)) << antithetic;
  }
}

TEST(OptionPrices, MirrorImagesMakeTheErrorSmaller) {
  const auto error = [](const char* antithetic) {
    const auto generator = make(option_prices(), {{"paths", "4000"}, {"antithetic", antithetic}}, {.seed = 3});
    double sum = 0;
    for (const double one : column<double>(*generator, {0, 100}, "standard_error")) sum += one;
    return sum;
  };
  EXPECT_LT(error("true"), 0.9 * error("false"));
}

TEST(MM1Queue, MeanWaitsAreThoseOfTheory) {  // MMQ-1
  const auto generator = make(mm1_queue(), {{"customers", "32000"}, {"utilization_max", "0.6"}}, {.seed = 8});
  const SampleRange range{0, 100};
  const auto error = column<double>(*generator, range, "error");
  const auto deviation = column<double>(*generator, range, "standard_error");
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double off = error[i] / deviation[i];
    sum += off, squares += off * off;
  }
  EXPECT_LT(std::abs(sum / 100), 0.4);  // no bias: four deviations of a mean of 100
  EXPECT_NEAR(squares / 100, 1, 0.7);   // batch means: Student's t of 31 degrees
  const auto waits = column<double>(*generator, range, "mean_wait");
  const auto theory = column<double>(*generator, range, "theory");
  for (std::size_t i = 0; i < waits.size(); ++i) EXPECT_NEAR(waits[i], theory[i], 0.35 * theory[i] + 0.02);
}

TEST(Tabular, RowsLieAroundTheirCentres) {  // TAB-2
  const TabularSettings settings{.columns = 5, .clusters = 3, .classes = 2, .noise = 0.5};
  const auto generator = make(tabular(), {{"columns", "5"}, {"clusters", "3"}, {"classes", "2"}, {"noise", "0.5"}},
                              {.seed = 4, .isa = troupe::kernels::best_isa()});
  const SampleRange range{0, 30'000};
  const auto cluster = column<std::int32_t>(*generator, range, "cluster");
  const auto label = column<std::int32_t>(*generator, range, "label");
  std::array<int, 3> counts{};
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    ++counts.at(static_cast<std::size_t>(cluster[i]));
    ASSERT_EQ(label[i], cluster[i] % 2);
  }
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 400);
  for (std::size_t c = 0; c < 5; ++c) {
    const auto values = column<float>(*generator, range, "f0" + std::to_string(c));
    for (std::size_t k = 0; k < 3; ++k) {
      double sum = 0, squares = 0;
      const float centre = centre_of(settings, 4, k)[c];
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (cluster[i] != static_cast<std::int32_t>(k)) continue;
        sum += values[i] - centre, squares += std::pow(values[i] - centre, 2);
      }
      EXPECT_NEAR(sum / counts[k], 0, 0.025);
      EXPECT_NEAR(std::sqrt(squares / counts[k]), 0.5, 0.02);
    }
  }
}

TEST(Tabular, LabelNoiseIsTheShareOfOtherLabels) {
  const auto generator = make(tabular(), {{"classes", "4"}, {"label_noise", "0.25"}}, {.seed = 4});
  const auto cluster = column<std::int32_t>(*generator, {0, 20'000}, "cluster");
  const auto label = column<std::int32_t>(*generator, {0, 20'000}, "label");
  std::array<int, 4> off{};
  for (std::size_t i = 0; i < label.size(); ++i)
    ++off.at(static_cast<std::size_t>((label[i] - cluster[i] % 4 + 4) % 4));
  EXPECT_NEAR(off[0], 15'000, 300);
  for (std::size_t k = 1; k < 4; ++k) EXPECT_NEAR(off.at(k), 1667, 180);
}

TEST(Tabular, LabelNoiseWithoutASecondClassIsRefused) {
  const auto made = options_of(tabular(), {{"classes", "1"}, {"label_noise", "0.5"}})->make({});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), troupe::ErrorCode::kInvalidArgument);
}

TEST(Blobs, BytesAreTheStreamsWords) {  // BLB-1
  const auto generator = make(blobs(), {{"bytes", "10"}}, {.seed = 6, .isa = troupe::kernels::best_isa()});
  generator->generate({4, 5}, [](const Table& table) {
    Stream stream(6, 0, 4);
    std::string expected;
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t word = stream.next();
      for (int byte = 0; byte < 4; ++byte) expected += static_cast<char>(word >> (8 * byte));
    }
    EXPECT_EQ(table.column(0).text(0), expected.substr(0, 10));
  });
}

TEST(Settings, WhatIsOutOfRangeOrCrossesIsRefused) {
  for (const auto& kind : {option_prices(), mm1_queue(), tabular(), blobs()}) {
    const auto options = kind.options();
    for (const apps::Setting& setting : options->settings()) {
      EXPECT_FALSE(setting.help.empty()) << kind.name << " " << setting.name;
      if (std::isfinite(setting.least) && !std::holds_alternative<bool*>(setting.value)) {
        EXPECT_FALSE(apps::assign(setting, setting.least - 1).ok()) << kind.name << " " << setting.name;
      }
    }
  }
  const auto crossed = options_of(option_prices(), {{"spot_min", "10"}, {"spot_max", "5"}})->make({});
  ASSERT_FALSE(crossed.ok());
  EXPECT_NE(crossed.error().message().find("spot_min"), std::string::npos);
  EXPECT_FALSE(options_of(mm1_queue(), {{"customers", "33"}})->make({}).ok());
  EXPECT_FALSE(options_of(mm1_queue(), {{"utilization_min", "0.95"}})->make({}).ok());
}

TEST(CheckLines, SayHowRightTheNumbersAre) {
  const auto line = [](const GeneratorKind& kind, const Typed& typed) {
    return options_of(kind, typed)->check_line({.seed = 1, .isa = troupe::kernels::best_isa()}).value();
  };
  EXPECT_NE(line(option_prices(), {{"paths", "1000"}}).find("standard errors"), std::string::npos);
  EXPECT_NE(line(mm1_queue(), {{"customers", "3200"}}).find("standard errors"), std::string::npos);
  EXPECT_NE(line(tabular(), {}).find("100.0 %"), std::string::npos);
  EXPECT_EQ(line(blobs(), {}), "");
}

TEST(CheckLines, LookAtNoSamplesThatThereAreNot) {
  const auto line = [](const GeneratorKind& kind, const Typed& typed) {
    return options_of(kind, typed)->check_line({.seed = 1, .samples = 7}).value();
  };
  EXPECT_NE(line(option_prices(), {{"paths", "1000"}}).find("first 7 options"), std::string::npos);
  EXPECT_NE(line(mm1_queue(), {{"customers", "3200"}}).find("first 7 queues"), std::string::npos);
  EXPECT_NE(line(tabular(), {}).find("first 7 rows"), std::string::npos);
}

TEST(Builtin, AllAreRegisteredOnce) {
  ASSERT_TRUE(register_builtin_generators().ok());
  for (const GeneratorKind& kind : generator_kinds()) {
    EXPECT_FALSE(kind.help.empty());
    EXPECT_GE(kind.samples_per_shard, 1u);
    EXPECT_TRUE(kind.options() != nullptr);
  }
  EXPECT_TRUE(find_generator("tabular").ok());
  EXPECT_FALSE(register_builtin_generators().ok());  // GRG-1
}

}  // namespace
