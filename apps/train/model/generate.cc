#include "apps/train/model/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/train/model/draws.h"

namespace troupe::train {

std::int32_t pick_token(std::span<const float> logits, double temperature, std::size_t top_k, double u) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  const std::size_t kept = temperature == 0 ? 1 : top_k == 0 ? order.size() : std::min(top_k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), more_likely);
  order.resize(kept);
  if (kept == 1) return order[0];
  const double top = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> until(kept);
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - top) / temperature);
    until[i] = sum;
  }
  // The first is at least one of `sum`: u < 1 always finds its place, up to rounding at the very end.
  const auto at = std::upper_bound(until.begin(), until.end() - 1, u * sum) - until.begin();
  return order[static_cast<std::size_t>(at)];
}

Result<std::vector<std::int32_t>> generate(Gpt<float>& model, std::span<const float> parameters,
                                           std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  if (prompt.empty()) return InvalidArgumentError("generate: the prompt has at least one token");
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    return InvalidArgumentError("generate: the temperature is a finite number from 0 on");
  const auto in_vocabulary = [&](std::int32_t token) {
    return token >= 0 && static_cast<std::size_t>(token) < model.options().vocab;
  };
  if (!std::all_of(prompt.begin(), prompt.end(), in_vocabulary))
    return InvalidArgumentError("generate: a token of the prompt is outside the vocabulary");
  if (parameters.size() != model.parameter_count())
    return InvalidArgumentError("generate: these are not the parameters of this model");
  Draws draws(options.seed);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::vector<float> logits(model.options().vocab);
  for (std::size_t i = 0; i < options.tokens; ++i) {
    const std::size_t seen = std::min(text.size(), model.options().time);
    model.next_logits(std::span(text).last(seen), parameters, logits);
    if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
      return InvalidArgumentError("generate: these parameters give logits that are no numbers");
    text.push_back(pick_token(logits, options.temperature, options.top_k, draws.unit()));
  }
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return text;
}

}  // namespace troupe::train
