// Token plus position embeddings, forward and backward.
//
// Pure; any thread. wte [vocab][channels], wpe [time][channels] (at least), tokens [batch][time], y
// [batch][time][channels]. Bound by memory: one plain version.
//
// EM-1  Tokens must lie in [0, vocab); whoever reads data checks it (token_out_of_range).
// EM-2  Gradients are added to dwte and dwpe, in the order of the positions: repeated tokens add up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels {

struct EmbeddingShape {
  std::size_t batch = 0, time = 0, channels = 0;
};

/// The index of the first token that is negative or not below vocab; tokens.size() when there is none.
[[nodiscard]] std::size_t token_out_of_range(std::span<const std::int32_t> tokens, std::size_t vocab);

template <class T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* wte, const T* wpe, T* y);
template <class T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dy, T* dwte, T* dwpe);

}  // namespace troupe::kernels
