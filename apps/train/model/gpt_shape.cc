#include "apps/train/model/gpt_shape.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "apps/train/model/draws.h"
#include "kernels/cpu/rows/embedding.h"

namespace troupe::train {
namespace {

constexpr double kDeviation = 0.02;

}  // namespace

Status check(const GptOptions& o) {
  if (o.vocab == 0 || o.time == 0 || o.channels == 0 || o.layers == 0 || o.heads == 0)
    return InvalidArgumentError("GPT: vocab, time, channels, layers and heads are at least 1");
  if (o.channels % o.heads != 0)
    return InvalidArgumentError("GPT: " + std::to_string(o.heads) + " heads do not divide " +
                                std::to_string(o.channels) + " channels");
  return {};
}

GptShape::GptShape(const GptOptions& options) : options_(options) {
  check(options).value();
  const std::size_t c = options_.channels;
  std::size_t end = 0;
  const auto place = [&](std::string name, std::vector<std::size_t> shape) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    const bool decayed = shape.size() >= 2;
    layout_.push_back(
        {.name = std::move(name), .shape = std::move(shape), .offset = end, .size = size, .decayed = decayed});
    end += size;
    return layout_.back().offset;
  };
  place("wte.weight", {options_.vocab, c});
  place("wpe.weight", {options_.time, c});
  first_block_ = end;
  for (std::size_t layer = 0; layer < options_.layers; ++layer) {
    const std::size_t start = end;
    const auto at = [&](const char* name, std::vector<std::size_t> shape) {
      return place("h." + std::to_string(layer) + "." + name, std::move(shape)) - start;
    };
    block_.ln1_w = at("ln_1.weight", {c});
    block_.ln1_b = at("ln_1.bias", {c});
    block_.qkv_w = at("attn.c_attn.weight", {3 * c, c});
    block_.qkv_b = at("attn.c_attn.bias", {3 * c});
    block_.out_w = at("attn.c_proj.weight", {c, c});
    block_.out_b = at("attn.c_proj.bias", {c});
    block_.ln2_w = at("ln_2.weight", {c});
    block_.ln2_b = at("ln_2.bias", {c});
    block_.fc_w = at("mlp.c_fc.weight", {4 * c, c});
    block_.fc_b = at("mlp.c_fc.bias", {4 * c});
    block_.proj_w = at("mlp.c_proj.weight", {c, 4 * c});
    block_.proj_b = at("mlp.c_proj.bias", {c});
    block_.size = end - start;
  }
  ln_f_ = place("ln_f.weight", {c});
  place("ln_f.bias", {c});
}

template <class T>
void GptShape::initialize(std::uint64_t seed, std::span<T> parameters) const {
  check_parameters(parameters.size());
  Draws draws(seed);
  const double onto_stream = kDeviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  for (const Tensor& tensor : layout_) {
    const auto values = parameters.subspan(tensor.offset, tensor.size);
    if (tensor.decayed) {
      const double deviation = tensor.name.ends_with("c_proj.weight") ? onto_stream : kDeviation;
      for (T& value : values) value = static_cast<T>(deviation * draws.normal());
    } else {
      std::fill(values.begin(), values.end(), tensor.name.ends_with(".weight") ? T{1} : T{0});  // a LayerNorm's gain
    }
  }
}

template void GptShape::initialize(std::uint64_t seed, std::span<float> parameters) const;
template void GptShape::initialize(std::uint64_t seed, std::span<double> parameters) const;

double GptShape::step_flops(std::size_t rows) const {
  const double c = static_cast<double>(options_.channels), t = static_cast<double>(options_.time);
  const double layers = static_cast<double>(options_.layers), vocab = static_cast<double>(options_.vocab);
  const double weights = layers * 12 * c * c + vocab * c;
  const double attention = layers * 2 * c * (t + 1) / 2;  // scores and their product with the values, a position
  return 3 * 2 * static_cast<double>(rows) * t * (weights + attention);
}

void GptShape::check_parameters(std::size_t parameters) const {
  if (parameters != parameter_count())
    throw InvalidArgumentError("GPT: " + std::to_string(parameters) + " parameters given, the layout has " +
                               std::to_string(parameter_count()));
}

void GptShape::check_gradients(std::size_t gradients, double divisor) const {
  if (gradients != parameter_count() || !(divisor > 0))
    throw InvalidArgumentError("GPT: a step wants " + std::to_string(parameter_count()) +
                               " gradients and a divisor above 0, not " + std::to_string(gradients) + " and " +
                               std::to_string(divisor));
}

void GptShape::check_tokens(std::span<const std::int32_t> tokens) const {
  const std::size_t bad = kernels::token_out_of_range(tokens, options_.vocab);
  if (bad != tokens.size())
    throw InvalidArgumentError("GPT: token " + std::to_string(tokens[bad]) + " at place " + std::to_string(bad) +
                               " is outside the vocabulary of " + std::to_string(options_.vocab));
}

void GptShape::check_batch(const Batch& batch, std::size_t parameters) const {
  check_parameters(parameters);
  const std::size_t wanted = batch.rows * options_.time;
  if (batch.tokens.size() != wanted || batch.targets.size() != wanted)
    throw InvalidArgumentError("GPT: " + std::to_string(batch.rows) + " rows of " + std::to_string(options_.time) +
                               " positions, but " + std::to_string(batch.tokens.size()) + " tokens and " +
                               std::to_string(batch.targets.size()) + " targets");
  check_tokens(batch.tokens);
  const auto too_high = [&](std::int32_t target) {
    return target >= 0 && static_cast<std::size_t>(target) >= options_.vocab;
  };
  if (const auto bad = std::find_if(batch.targets.begin(), batch.targets.end(), too_high); bad != batch.targets.end())
    throw InvalidArgumentError("GPT: target " + std::to_string(*bad) + " is outside the vocabulary of " +
                               std::to_string(options_.vocab));
}

}  // namespace troupe::train
