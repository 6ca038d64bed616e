// Text from a trained GPT, one token after the other.
//
// GE-1  The same parameters, prompt and options give the same tokens.
// GE-2  A prompt or text longer than the context is seen through its last `time` tokens, so nothing depends on what is
//       older.
// GE-3  No token outside the top_k most likely is ever drawn; among equals the lower id comes first.
// Thread rule: that of the model.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/result.h>

#include "apps/train/model/gpt.h"

namespace troupe::train {

struct GenerateOptions {
  std::size_t tokens = 500;
  double temperature = 1;  ///< divides the logits; 0: the most likely token, always
  std::size_t top_k = 0;   ///< 0: all
  std::uint64_t seed = 1;
};

/// The new tokens, without the prompt. An empty prompt, a token outside the vocabulary, a temperature below 0 or not
/// finite, parameters that give NaN: InvalidArgumentError.
Result<std::vector<std::int32_t>> generate(Gpt<float>& model, std::span<const float> parameters,
                                           std::span<const std::int32_t> prompt, const GenerateOptions& options = {});

/// The token that a draw u of [0, 1) picks; pure. temperature and top_k as above.
std::int32_t pick_token(std::span<const float> logits, double temperature, std::size_t top_k, double u);

}  // namespace troupe::train
