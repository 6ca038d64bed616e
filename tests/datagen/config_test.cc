// PLN-1, JBC-1 to JBC-3, JOB-1: a plan is all samples once; a configuration is everything that decides bytes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/config/job.h"
#include "apps/datagen/config/shard_names.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "tests/datagen/tiny.h"

namespace datagen {
namespace {

using troupe::kernels::Isa;

/// PLN-1.
TEST(Plan, IsAllSamplesOnce) {
  for (const Plan plan : {Plan{100, 10}, Plan{101, 10}, Plan{99, 10}, Plan{1, 1}, Plan{5, 1000},
                          Plan{std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 62}}) {
    ASSERT_TRUE(plan.check().ok());
    std::uint64_t next = 0;
    for (std::uint64_t shard = 0; shard < plan.shards(); ++shard) {
      const SampleRange range = plan.range(shard);
      EXPECT_EQ(range.begin, next);
      EXPECT_GT(range.end, range.begin);
      EXPECT_EQ(plan.shard_of(range), shard);
      next = range.end;
    }
    EXPECT_EQ(next, plan.samples);
  }
}

TEST(Plan, OutOfBoundsIsTyped) {
  for (const Plan& plan : {Plan{0, 10}, Plan{10, 0}, Plan{(std::uint64_t{1} << 32) + 1, 1},
                           Plan{std::numeric_limits<std::uint64_t>::max(), 1}}) {
    const troupe::Status status = plan.check();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), troupe::ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE((Plan{std::uint64_t{1} << 32, 1}).check().ok());
  const Plan plan{100, 10};
  for (const SampleRange wrong : {SampleRange{0, 9}, SampleRange{5, 15}, SampleRange{100, 110}, SampleRange{90, 101}})
    EXPECT_EQ(plan.shard_of(wrong), std::nullopt);
}

class ConfigTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_generator(test::numbers()).value();
    register_format(test::lines()).value();
  }
  static JobChoices choices() {
    return {.generator = "numbers", .format = "lines", .samples = 95, .seed = 7, .isa = "portable"};
  }
};

/// JBC-1, JBC-2: the same text whoever made it, there and back.
TEST_F(ConfigTest, IsOneText) {
  const JobConfig config = configure(choices()).value();
  EXPECT_EQ(config.plan, (Plan{95, 10})) << "the generator's own size of shards";
  const std::string text = config.canonical();
  EXPECT_EQ(text,
            R"({"format":{"libraries":{"lines":"1.0"},"name":"lines","settings":{},"version":1},)"
            R"("generator":{"identity":{"policy":"0123"},"name":"numbers","settings":{"label":"none","scale":1E0},)"
            R"("version":1},"glibc":")" + glibc_version() +
                R"(","isa":"reference","libm":")" + libm_numbers() +
                R"(","plan":{"samples":95,"samples_per_shard":10},"seed":7,"version":1})");
  EXPECT_EQ(config.hash(), sha256(text));
  const JobConfig back = job_from(text).value();
  EXPECT_EQ(back.canonical(), text);
  EXPECT_TRUE(differences(config, back).empty());
  JobChoices large = choices();
  large.seed = std::numeric_limits<std::uint64_t>::max();
  const JobConfig most = configure(large).value();
  EXPECT_EQ(job_from(most.canonical()).value().seed, large.seed);
}

TEST_F(ConfigTest, OtherTextIsRefused) {
  const std::string text = configure(choices()).value().canonical();
  for (const std::string& wrong :
       {std::string("{}"), std::string("[1]"), std::string("nonsense"), text.substr(0, text.size() / 2)})
    EXPECT_EQ(job_from(wrong).error().code(), troupe::ErrorCode::kInvalidArgument) << wrong;
  std::string newer = text;
  newer.replace(newer.rfind("\"version\":1"), 11, "\"version\":2");
  EXPECT_NE(job_from(newer).error().message().find("newer"), std::string::npos);
}

/// JBC-3: each thing that decides bytes changes the hash, and is named.
TEST_F(ConfigTest, EveryDifferenceIsNamed) {
  const JobConfig was = configure(choices()).value();
  const auto changed = [&](auto change) {
    JobConfig now = was;
    change(now);
    EXPECT_NE(now.hash(), was.hash());
    return differences(was, now);
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(changed([](JobConfig& c) { c.seed = 8; }), Lines{"seed: was 7, now 8"});
  EXPECT_EQ(changed([](JobConfig& c) { c.plan.samples = 96; }), Lines{"plan.samples: was 95, now 96"});
  EXPECT_EQ(changed([](JobConfig& c) { c.plan.samples_per_shard = 5; }),
            Lines{"plan.samples_per_shard: was 10, now 5"});
  EXPECT_EQ(changed([](JobConfig& c) { c.isa = Isa::kAvx2; }), Lines{"isa: was \"reference\", now \"avx2\""});
  EXPECT_EQ(changed([](JobConfig& c) { c.glibc = "3.0"; }),
            Lines{"glibc: was \"" + glibc_version() + "\", now \"3.0\""});
  EXPECT_EQ(changed([](JobConfig& c) { c.libm.clear(); }), Lines{"libm: was \"" + libm_numbers() + "\", now nothing"});
  EXPECT_EQ(changed([](JobConfig& c) { c.generator.version = 2; }), Lines{"generator.version: was 1, now 2"});
  EXPECT_EQ(changed([](JobConfig& c) { c.generator.settings["scale"] = 2.0; }),
            Lines{"generator.settings.scale: was 1E0, now 2E0"});
  EXPECT_EQ(changed([](JobConfig& c) { c.generator.more["policy"] = "4567"; }),
            Lines{"generator.identity.policy: was \"0123\", now \"4567\""});
  EXPECT_EQ(changed([](JobConfig& c) { c.format.more.erase("lines"); }),
            Lines{"format.libraries.lines: was \"1.0\", now nothing"});
}

TEST_F(ConfigTest, ChoicesThatCannotBeAreTyped) {
  const auto refused = [](JobChoices c) { return configure(c).error().message(); };
  JobChoices wrong = choices();
  wrong.generator = "nombers";
  EXPECT_NE(refused(wrong).find("numbers"), std::string::npos);
  wrong = choices();
  wrong.format = "line";
  EXPECT_NE(refused(wrong).find("lines"), std::string::npos);
  wrong = choices();
  wrong.isa = "avx3";
  EXPECT_NE(refused(wrong).find("did you mean avx2"), std::string::npos) << refused(wrong);
  wrong = choices();
  wrong.samples = 0;
  EXPECT_NE(refused(wrong).find("--samples"), std::string::npos);
  wrong = choices();
  wrong.generator_settings["scale"] = -1;
  EXPECT_NE(refused(wrong).find("scale"), std::string::npos);
  EXPECT_EQ(isa_of("auto").value(), troupe::kernels::best_isa());
  EXPECT_EQ(isa_of("portable").value(), Isa::kReference);
}

/// JBC-2: doubles with all their digits; what JSON has no place for is refused before it is kept.
TEST_F(ConfigTest, NumbersAndTextsComeBackAsTheyWere) {
  JobChoices mine = choices();
  std::uint64_t bits = 88'172'645'463'325'252u;
  for (int i = 0; i < 2000; ++i) {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    const double scale = std::ldexp(static_cast<double>(bits >> 11), -53);
    mine.generator_settings["scale"] = scale;
    const JobConfig config = configure(mine).value();
    EXPECT_EQ(config.generator.settings.at("scale").as_double(), scale);
    const JobConfig again = job_from(config.canonical()).value();
    ASSERT_EQ(again.canonical(), config.canonical());
    ASSERT_EQ(again.generator.settings.at("scale").as_double(), scale);
  }
  JobConfig texts = configure(choices()).value();
  texts.generator.settings["word"] = "caf\xc3\xa9 \n \"";
  EXPECT_EQ(job_from(texts.canonical()).value(), texts);
}

/// SHN-1: what a manifest may say of shards.
TEST_F(ConfigTest, ShardsOfAManifestAreThoseOfThePlan) {
  const ShardNames names = ShardNames::make(configure(choices()).value()).value();
  EXPECT_EQ(names.of(9), "data/part-00009.txt");
  EXPECT_TRUE(names.check("data/part-00004.txt", {40, 50}).ok());
  EXPECT_TRUE(names.check("data/part-00009.txt", {90, 95}).ok());
  for (const auto& [name, range] : std::vector<std::pair<std::string, SampleRange>>{
           {"/etc/passwd", {40, 50}},
           {"../../etc/passwd", {40, 50}},
           {"data/../data/part-00004.txt", {40, 50}},
           {"manifest/job.json", {40, 50}},
           {"data/part-00004.txt\n", {40, 50}},
           {std::string("data/part-00004.txt\0", 20), {40, 50}},
           {"data/part-00003.txt", {40, 50}},
           {"data/part-00004.txt", {40, 51}},
           {"data/part-00004.txt", {41, 50}},
           {"data/part-00009.txt", {90, 100}},
           {"data/part-00010.txt", {100, 110}},
           {"data/part-00004.txt", {40, std::numeric_limits<std::uint64_t>::max()}}}) {
    const troupe::Status status = names.check(name, range);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code(), troupe::ErrorCode::kSerialization);
    EXPECT_EQ(status.error().message().find('\n'), std::string::npos);
  }
  JobConfig unknown = configure(choices()).value();
  unknown.format.name = "liness";
  EXPECT_EQ(ShardNames::make(unknown).error().code(), troupe::ErrorCode::kNotFound);
}

/// JOB-1: another version, another library, another machine.
TEST_F(ConfigTest, WhatThisProgramWouldMakeOtherwiseIsRefused) {
  const JobConfig config = configure(choices()).value();
  EXPECT_TRUE(Job::make(config).ok());
  JobConfig other = config;
  other.generator.version = 2;
  EXPECT_NE(Job::make(other).error().message().find("generator.version: was 2, now 1"), std::string::npos);
  test::LinesOptions::library = "1.1";
  EXPECT_NE(Job::make(config).error().message().find("format.libraries.lines: was \"1.0\", now \"1.1\""),
            std::string::npos);
  test::LinesOptions::library = "1.0";
  test::NumbersOptions::policy_digest = "changed";
  EXPECT_EQ(differences(config, configure_again(config).value()).size(), 1u) << "a policy that was trained further";
  test::NumbersOptions::policy_digest = "0123";
  EXPECT_TRUE(check_machine(config).ok());
}

TEST_F(ConfigTest, AMachineThatMakesOtherBytesIsRefused) {
  JobConfig config = configure(choices()).value();
  const auto refused = [&](const Machine& machine) {
    const troupe::Status checked = check_machine(config, machine);
    if (checked.ok()) return std::string();
    EXPECT_EQ(checked.error().code(), troupe::ErrorCode::kRuntimeEnv);
    return checked.error().message();
  };
  for (const Isa wanted : troupe::kernels::kAllIsas)
    for (const Isa there : troupe::kernels::kAllIsas) {
      config.isa = wanted;
      const std::string why = refused({.isa = there});
      EXPECT_EQ(why.empty(), wanted <= there) << isa_name(wanted) << " on " << isa_name(there) << ": " << why;
      if (why.empty()) continue;
      EXPECT_NE(why.find(isa_name(wanted)), std::string::npos) << why;
      EXPECT_NE(why.find("--isa portable"), std::string::npos) << why;
    }
  config.isa = Isa::kReference;
  const std::string why = refused({.glibc = "1.0"});
  EXPECT_NE(why.find("glibc " + glibc_version() + ", this machine has 1.0"), std::string::npos) << why;
  EXPECT_NE(refused({.libm = "0123"}).find("on this machine they give 0123"), std::string::npos);
  config.libm.clear();
  EXPECT_EQ(refused({.libm = "0123"}), "") << "begun before it was kept";
  EXPECT_EQ(Machine().isa, troupe::kernels::best_isa()) << "nobody has said otherwise";
}

}  // namespace
}  // namespace datagen
