// GPX-1, GPX-2, GCK-1, and GEN-1, GEN-2 of gpt-text.
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/common/safetensors/safetensors.h"
#include "apps/datagen/generators/gpt/gpt_text.h"
#include "apps/train/model/gpt.h"
#include "tests/datagen/samples.h"
#include "tests/base/temporary_folder.h"

namespace {

using namespace datagen;
using namespace datagen::test;
using troupe::kernels::Isa;

class GptTextTest : public testing::Test {
 protected:
  GptTextTest() {
    std::ofstream(text_) << std::string(20, '\n') << std::string(300, 'a') << "bcdefghij klmnop.";
    checkpoint_ = saved("model.safetensors", 19, 1);
  }

  /// A model that nobody trained, as a checkpoint.
  std::string saved(const std::string& name, std::size_t vocabulary, std::uint64_t seed) const {
    const troupe::train::Gpt<float> model({.vocab = vocabulary, .time = 16, .channels = 16, .layers = 2, .heads = 2});
    std::vector<float> parameters(model.parameter_count());
    model.initialize(seed, parameters);
    for (float& one : parameters) one *= 10;  // so that tokens differ in likelihood
    std::vector<apps::ArrayView> arrays;
    for (const troupe::train::Tensor& tensor : model.layout())
      arrays.push_back({tensor.name, "F32", tensor.shape,
                        std::as_bytes(std::span<const float>(parameters).subspan(tensor.offset, tensor.size))});
    const std::string path = (folder_ / name).string();
    apps::write_safetensors(path, {{"format", "troupe.train 1"}}, arrays).value();
    return path;
  }
  [[nodiscard]] Typed typed(const Typed& more = {}) const {
    Typed out{{"checkpoint", checkpoint_}, {"text", text_.string()}, {"heads", "2"}, {"tokens", "30"}};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  [[nodiscard]] std::vector<std::string> texts(const Typed& more, std::uint64_t count) const {
    std::vector<std::string> out;
    make(gpt_text(), typed(more), {.seed = 4, .isa = troupe::kernels::best_isa()})
        ->generate({0, count}, [&](const Table& table) {
          for (std::size_t row = 0; row < table.rows(); ++row) out.emplace_back(table.column(0).text(row));
        });
    return out;
  }
  [[nodiscard]] static std::string refusal(const Typed& typed, troupe::ErrorCode code) {
    const auto made = options_of(gpt_text(), typed)->make({.seed = 1});
    if (made.ok()) return "it was made";
    EXPECT_EQ(made.error().code(), code) << made.error().what();
    return made.error().what();
  }

  troupe::test::TemporaryFolder folder_;
  std::filesystem::path text_ = folder_ / "text.txt";
  std::string checkpoint_;
};

TEST_F(GptTextTest, ATextIsTheSameHoweverTheRangeIsCut) {  // GEN-1, GEN-2, GPX-1
  for (const Isa isa : troupe::kernels::kAllIsas) {
    if (!troupe::kernels::isa_supported(isa)) continue;
    const GeneratorContext context{.seed = 5, .isa = isa};
    const auto generator = make(gpt_text(), typed(), context);
    const std::vector<std::string> expected = samples_of(*generator, {2, 72});
    const auto cut = make(gpt_text(), typed(), context);
    std::vector<std::string> pieces;
    for (const SampleRange range : {SampleRange{2, 3}, {3, 20}, {20, 71}, {71, 72}})
      for (std::string& sample : samples_of(*cut, range)) pieces.push_back(std::move(sample));
    EXPECT_TRUE(pieces == expected) << troupe::kernels::isa_name(isa);
    EXPECT_NE(expected[0], expected[1]);
  }
}

TEST_F(GptTextTest, TextsBeginWithThePromptAndHaveTheTokens) {
  for (const std::string& text : texts({{"prompt", "abc"}}, 20)) {
    EXPECT_TRUE(text.starts_with("abc"));
    EXPECT_EQ(text.size(), 33u);
  }
}

TEST_F(GptTextTest, TemperatureZeroIsTheMostLikelyTextAlways) {
  const std::vector<std::string> all = texts({{"temperature", "0"}}, 5);
  for (const std::string& text : all) EXPECT_EQ(text, all[0]);
  EXPECT_EQ(texts({{"temperature", "3"}, {"top_k", "1"}}, 1), texts({{"temperature", "0"}}, 1));
}

TEST_F(GptTextTest, LogProbabilitiesAreTheModels) {
  const GeneratorContext context{.seed = 4, .isa = troupe::kernels::best_isa()};
  const auto generator = make(gpt_text(), typed({{"tokens", "1"}, {"temperature", "1"}}), context);
  // Of one token: texts that are alike have one probability, and those of all 19 make 1.
  std::map<std::string, double> probability;
  generator->generate({0, 3000}, [&](const Table& table) {
    for (std::size_t row = 0; row < table.rows(); ++row)
      probability[std::string(table.column(0).text(row))] = std::exp(table.column(1).values<double>()[row]);
  });
  double sum = 0;
  for (const auto& [text, one] : probability) sum += one;
  EXPECT_NEAR(sum, 1, 0.01);
}

TEST_F(GptTextTest, TheCheckpointsDigestIsInTheIdentity) {  // GPX-2
  const auto identity = options_of(gpt_text(), typed())->identity().value();
  saved("model.safetensors", 19, 2);
  const auto other = options_of(gpt_text(), typed())->identity().value();
  EXPECT_NE(identity.at("checkpoint_sha256"), other.at("checkpoint_sha256"));
  EXPECT_EQ(identity.at("vocabulary_sha256"), other.at("vocabulary_sha256"));
  EXPECT_EQ(make(gpt_text(), typed(), {})->schema().metadata.at("checkpoint_sha256"),
            std::string(other.at("checkpoint_sha256").as_string()));
}

TEST_F(GptTextTest, AVocabularyOfBytesGivesBytes) {
  const std::string bytes = saved("bytes.safetensors", 256, 1);
  const auto generator = make(gpt_text(), {{"checkpoint", bytes}, {"heads", "2"}, {"tokens", "5"}}, {.seed = 1});
  EXPECT_EQ(generator->schema().fields[0].type, Type::kBytes);
  EXPECT_EQ(make(gpt_text(), typed(), {})->schema().fields[0].type, Type::kString);
}

TEST_F(GptTextTest, WhatDoesNotFitIsRefusedAndSaysWhy) {  // GCK-1
  using enum troupe::ErrorCode;
  EXPECT_NE(refusal({}, kInvalidArgument).find("--checkpoint"), std::string::npos);
  EXPECT_NE(refusal({{"checkpoint", checkpoint_}, {"heads", "2"}}, kInvalidArgument).find("--text"), std::string::npos);
  EXPECT_NE(refusal(typed({{"heads", "3"}}), kInvalidArgument).find("--heads 3"), std::string::npos);
  EXPECT_NE(refusal(typed({{"prompt", "Z"}}), kInvalidArgument).find("--prompt"), std::string::npos);
  EXPECT_NE(refusal(typed({{"text", saved("other.safetensors", 20, 1)}}), kInvalidArgument).find("another text"),
            std::string::npos);
  (void)refusal(typed({{"checkpoint", checkpoint_ + ".not"}}), kNotFound);
  (void)refusal(typed({{"checkpoint", text_.string()}}), kSerialization);
  apps::write_safetensors(folder_ / "empty.safetensors", {}, {}).value();
  EXPECT_NE(refusal(typed({{"checkpoint", (folder_ / "empty.safetensors").string()}}), kInvalidArgument)
                .find("no checkpoint of gpt"),
            std::string::npos);
}

}  // namespace
