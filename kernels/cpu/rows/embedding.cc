#include "kernels/cpu/rows/embedding.h"

#include <algorithm>

namespace troupe::kernels {

std::size_t token_out_of_range(std::span<const std::int32_t> tokens, std::size_t vocab) {
  const auto bad = [vocab](std::int32_t token) { return token < 0 || static_cast<std::size_t>(token) >= vocab; };
  return static_cast<std::size_t>(std::find_if(tokens.begin(), tokens.end(), bad) - tokens.begin());
}

template <class T>
void embedding_forward(const EmbeddingShape& s, const std::int32_t* tokens, const T* wte, const T* wpe, T* y) {
  for (std::size_t at = 0; at < s.batch * s.time; ++at) {
    const T* token = wte + static_cast<std::size_t>(tokens[at]) * s.channels;
    const T* position = wpe + at % s.time * s.channels;
    T* row = y + at * s.channels;
    for (std::size_t c = 0; c < s.channels; ++c) row[c] = token[c] + position[c];
  }
}

template <class T>
void embedding_backward(const EmbeddingShape& s, const std::int32_t* tokens, const T* dy, T* dwte, T* dwpe) {
  for (std::size_t at = 0; at < s.batch * s.time; ++at) {
    T* token = dwte + static_cast<std::size_t>(tokens[at]) * s.channels;
    T* position = dwpe + at % s.time * s.channels;
    const T* row = dy + at * s.channels;
    for (std::size_t c = 0; c < s.channels; ++c) token[c] += row[c];
    for (std::size_t c = 0; c < s.channels; ++c) position[c] += row[c];
  }
}

template void embedding_forward<float>(const EmbeddingShape&, const std::int32_t*, const float*, const float*, float*);
template void embedding_forward<double>(const EmbeddingShape&, const std::int32_t*, const double*, const double*,
                                        double*);
template void embedding_backward<float>(const EmbeddingShape&, const std::int32_t*, const float*, float*, float*);
template void embedding_backward<double>(const EmbeddingShape&, const std::int32_t*, const double*, double*, double*);

}  // namespace troupe::kernels
