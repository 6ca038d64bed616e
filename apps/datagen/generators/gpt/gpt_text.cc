#include "apps/datagen/generators/gpt/gpt_text.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/datagen/generators/file_digest.h"
#include "apps/datagen/generators/gpt/gpt_checkpoint.h"
#include "apps/datagen/generators/rows_generator.h"
#include "apps/datagen/random/stream.h"
#include "apps/train/model/generate.h"
#include "apps/train/model/gpt.h"

namespace datagen {
namespace {

constexpr std::uint32_t kTokenDraws = 0;
constexpr std::uint64_t kTextsOfATable = 64;
enum GptColumn : std::size_t { kText, kTextLogProb };

struct GptTextSettings {
  std::string checkpoint, text, prompt = "\n";
  std::uint64_t heads = 4, tokens = 200, top_k = 0;
  double temperature = 0.8;
};

bool is_ascii(const std::string& characters) {
  return std::ranges::all_of(characters, [](char one) { return static_cast<unsigned char>(one) < 128; });
}

double log_prob_of(std::span<const float> logits, std::int32_t token) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - top);
  return double{logits[static_cast<std::size_t>(token)]} - top - std::log(sum);
}

Schema text_schema(const GptCheckpoint& checkpoint, const boost::json::object& identity) {
  Schema out{.fields = {{.name = "text",
                         .type = is_ascii(checkpoint.vocabulary.characters()) ? Type::kString : Type::kBytes},
                        {.name = "logp", .type = Type::kFloat64}}};
  for (const char* word : {"checkpoint_sha256", "vocabulary_sha256"})
    out.metadata[word] = std::string(identity.at(word).as_string());
  return out;
}

class GptText final : public RowsGenerator {
 public:
  GptText(const GptTextSettings& settings, GptCheckpoint checkpoint, const boost::json::object& identity,
          const GeneratorContext& context)
      : RowsGenerator(text_schema(checkpoint, identity), kTextsOfATable),
        settings_(settings),
        checkpoint_(std::move(checkpoint)),
        context_(context),
        model_(checkpoint_.options, context.isa),
        prompt_(checkpoint_.vocabulary.encode(settings.prompt).value()),
        logits_(checkpoint_.options.vocab) {}

 private:
  void row(std::uint64_t sample, std::size_t row, Table& table) override {
    Stream draws(context_.seed, kTokenDraws, sample);  // GPX-1
    std::vector<std::int32_t> text = prompt_;
    double sum = 0;
    for (std::uint64_t i = 0; i < settings_.tokens; ++i) {
      const std::size_t seen = std::min(text.size(), checkpoint_.options.time);
      model_.next_logits(std::span<const std::int32_t>(text).last(seen), checkpoint_.parameters, logits_);
      if (!std::ranges::all_of(logits_, [](float logit) { return std::isfinite(logit); }))
        troupe::InvalidArgumentError(settings_.checkpoint + " gives logits that are no numbers: it is damaged").raise();
      text.push_back(troupe::train::pick_token(logits_, settings_.temperature, settings_.top_k, draws.uniform()));
      sum += log_prob_of(logits_, text.back());
    }
    table.column(kText).append(std::string_view(checkpoint_.vocabulary.decode(text).value()));
    table.column(kTextLogProb).values<double>()[row] = sum;
  }

  GptTextSettings settings_;
  GptCheckpoint checkpoint_;
  GeneratorContext context_;
  troupe::train::Gpt<float> model_;
  std::vector<std::int32_t> prompt_;
  std::vector<float> logits_;
};

class GptTextOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "checkpoint", .help = "Of gpt: a file step-....safetensors or best.safetensors",
             .value = &settings_.checkpoint},
            {.name = "text", .help = "The text that it was trained on: its characters are the tokens; empty: all bytes",
             .value = &settings_.text},
            {.name = "heads", .help = "Heads of attention that it was trained with", .value = &settings_.heads,
             .least = 1, .most = 1000},
            {.name = "prompt", .help = "What texts begin with; empty: a new line", .value = &settings_.prompt},
            {.name = "tokens", .help = "Behind the prompt", .value = &settings_.tokens, .least = 1, .most = 1e6},
            {.name = "temperature", .help = "Divides the logits; 0: always the most likely token",
             .value = &settings_.temperature, .least = 0, .most = 1000},
            {.name = "top_k", .help = "Only the so many most likely tokens; 0: all", .value = &settings_.top_k,
             .least = 0, .most = 1e9}};
  }

  troupe::Result<boost::json::object> identity() override {  // GPX-2
    auto loaded = load();
    if (!loaded.ok()) return loaded.error_ptr();
    const auto digest = file_sha256(settings_.checkpoint);
    if (!digest.ok()) return digest.error_ptr();
    boost::json::object out;
    out["checkpoint_sha256"] = hex(*digest);
    out["vocabulary_sha256"] = hex(sha256(std::string_view(loaded->vocabulary.characters())));
    return out;
  }

  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    auto loaded = load();
    if (!loaded.ok()) return loaded.error_ptr();
    if (settings_.prompt.empty()) settings_.prompt = "\n";
    if (const auto prompt = loaded->vocabulary.encode(settings_.prompt); !prompt.ok())
      return troupe::InvalidArgumentError("--prompt: " + prompt.error().message());
    const auto known = identity();
    if (!known.ok()) return known.error_ptr();
    return std::unique_ptr<Generator>(std::make_unique<GptText>(settings_, std::move(*loaded), *known, context));
  }

 private:
  troupe::Result<GptCheckpoint> load() const {
    if (settings_.checkpoint.empty())
      return troupe::InvalidArgumentError("which model writes? --checkpoint FILE of gpt");
    return load_gpt(settings_.checkpoint, settings_.text, settings_.heads);
  }

  GptTextSettings settings_;
};

}  // namespace

GeneratorKind gpt_text() {
  return {.name = "gpt-text",
          .help = "Texts that a GPT of apps/train writes",
          .options = [] { return std::make_unique<GptTextOptions>(); },
          .samples_per_shard = 200};
}

}  // namespace datagen
