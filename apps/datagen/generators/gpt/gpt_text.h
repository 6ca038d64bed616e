// gpt-text: texts that a GPT of apps/train writes, a token after the other, from a prompt; a sample is a text.
//
//   text     string (bytes where the vocabulary has any that are no ASCII): the prompt and what follows
//   logp     float64: the sum of the logarithms of the probabilities, as the model gives them at temperature 1, of the
//            tokens behind the prompt
//
// GPX-1  A text is a function of settings, checkpoint, instruction set, seed and its number: each token takes one draw
//        of the sample's own stream.
// GPX-2  Digests of the checkpoint's file and of the vocabulary are in identity() and in the words of the data set
//        (GEN-3).
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind gpt_text();

}  // namespace datagen
