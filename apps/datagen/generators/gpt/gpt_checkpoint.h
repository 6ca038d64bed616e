// A trained GPT from a checkpoint of apps/train, with the vocabulary that its text gave it.
//
// A checkpoint holds the arrays: sizes of vocabulary, context, channels and layers are their shapes. It does not say
// how many heads there are, nor which characters the tokens are: those come with it.
//
// Plain value; any thread.
//
// GCK-1  A file that is none, or of another model, is an error that says what is wrong with it; nothing is guessed: the
//        vocabulary must have as many characters as the checkpoint has tokens.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include <troupe/result.h>

#include "apps/train/data/text.h"
#include "apps/train/model/gpt_shape.h"

namespace datagen {

struct GptCheckpoint {
  troupe::train::GptOptions options = {};
  std::vector<float> parameters = {};
  troupe::train::Vocabulary vocabulary = {};
};

/// `text`: the file that it was trained on; empty: all bytes are tokens. NotFoundError, SerializationError,
/// InvalidArgumentError.
[[nodiscard]] troupe::Result<GptCheckpoint> load_gpt(const std::filesystem::path& checkpoint,
                                                     const std::filesystem::path& text, std::size_t heads);

}  // namespace datagen
