#include "apps/datagen/generators/gpt/gpt_checkpoint.h"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/common/input_file.h"
#include "apps/common/safetensors/safetensors.h"

namespace datagen {
namespace {

using troupe::train::GptOptions;
using troupe::train::GptShape;
using troupe::train::Tensor;

/// What the arrays' shapes say.
troupe::Result<GptOptions> options_from(const apps::ArrayFile& file, const std::string& path, std::size_t heads) {
  const auto* tokens = file.find("wte.weight");
  const auto* positions = file.find("wpe.weight");
  if (tokens == nullptr || positions == nullptr || tokens->shape.size() != 2 || positions->shape.size() != 2)
    return troupe::InvalidArgumentError(path + " is no checkpoint of gpt: it has no embeddings of tokens");
  GptOptions out{.vocab = tokens->shape[0], .time = positions->shape[0], .channels = tokens->shape[1], .layers = 0,
                 .heads = heads};
  while (file.find(fmt::format("h.{}.ln_1.weight", out.layers)) != nullptr) ++out.layers;
  if (const troupe::Status fits = troupe::train::check(out); !fits.ok())
    return troupe::InvalidArgumentError(fmt::format("{} with --heads {}: {}", path, heads, fits.error().message()));
  return out;
}

troupe::Result<std::vector<float>> parameters_from(const apps::ArrayFile& file, const std::string& path,
                                                   const GptShape& shape) {
  const auto layout = shape.layout();
  for (const Tensor& tensor : layout) {  // before memory is asked for
    const auto* entry = file.find(tensor.name);
    if (entry == nullptr || entry->dtype != "F32" || entry->shape != tensor.shape ||
        entry->size != tensor.size * sizeof(float))
      return troupe::InvalidArgumentError(
          fmt::format("{} has no {} of the type and shape that its other arrays want", path, tensor.name));
  }
  std::vector<float> out(shape.parameter_count());
  for (const Tensor& tensor : layout) {
    const auto bytes = file.bytes(*file.find(tensor.name));
    std::memcpy(out.data() + tensor.offset, bytes.data(), bytes.size());
  }
  return out;
}

troupe::Result<troupe::train::Vocabulary> vocabulary_from(const std::filesystem::path& text, std::size_t tokens) {
  using troupe::train::TextLevel;
  if (text.empty()) {
    if (tokens == 256) return troupe::train::Vocabulary::of({}, TextLevel::kBytes);
    return troupe::InvalidArgumentError(fmt::format(
        "the checkpoint has {} tokens: name the text that it was trained on with --text, its characters are the tokens",
        tokens));
  }
  if (const auto plain = apps::open_input(text); !plain.ok()) return plain.error_ptr();
  auto data = troupe::train::load_text(text);
  if (!data.ok()) return data.error_ptr();
  if (data->vocabulary.size() != tokens)  // GCK-1
    return troupe::InvalidArgumentError(fmt::format("{} has {} characters, the checkpoint {} tokens: it was trained on "
                                                    "another text",
                                                    text.string(), data->vocabulary.size(), tokens));
  return data->vocabulary;
}

}  // namespace

troupe::Result<GptCheckpoint> load_gpt(const std::filesystem::path& checkpoint, const std::filesystem::path& text,
                                       std::size_t heads) {
  auto file = apps::read_safetensors(checkpoint);
  if (!file.ok()) return file.error_ptr();
  auto options = options_from(*file, checkpoint.string(), heads);
  if (!options.ok()) return options.error_ptr();
  auto parameters = parameters_from(*file, checkpoint.string(), GptShape(*options));
  if (!parameters.ok()) return parameters.error_ptr();
  auto vocabulary = vocabulary_from(text, options->vocab);
  if (!vocabulary.ok()) return vocabulary.error_ptr();
  return GptCheckpoint{*options, std::move(*parameters), std::move(*vocabulary)};
}

}  // namespace datagen
