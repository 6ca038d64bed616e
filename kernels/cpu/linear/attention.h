// Causal self-attention over several heads, forward and backward.
//
// qkv is [batch][time][3 C]: queries, keys and values side by side, heads side by side in each; out is
// [batch][time][C]. Pure; any thread, one workspace a thread. T is float or double; double runs the reference row
// kernels and products.
//
// AT-1  Position i sees positions 0..i; scores are scaled by 1 / sqrt(C / heads).
// AT-2  lse is the logarithm of the sum of exp(scaled scores); with it backward recomputes the probabilities when they
//       were not kept. Both ways give the same bits on one instruction set only by chance: use one way.
// AT-3  dqkv is written. A sequence does not influence another one of the batch.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/linear/matmul.h"

namespace troupe::kernels {

struct AttentionShape {
  std::size_t batch = 0, time = 0, heads = 0, channels = 0;  ///< heads divides channels
};

/// Scores of one block of rows, and the keys and values of one head as products read them; grows to the largest shape
/// seen.
template <class T>
struct AttentionWorkspace {
  std::vector<T> scores, gradients;
  PackedFactor<T> keys, keys_transposed, values;
};

template <class T>
struct AttentionState {
  T* lse = nullptr;    ///< [batch][heads][time]
  T* probs = nullptr;  ///< [batch][heads][time][time], zero right of the diagonal; null: not kept
};

template <class T>
void attention_forward(Isa isa, const AttentionShape& shape, const T* qkv, T* out, const AttentionState<T>& state,
                       AttentionWorkspace<T>& workspace);
template <class T>
void attention_backward(Isa isa, const AttentionShape& shape, const T* qkv, const AttentionState<T>& state,
                        const T* dout, T* dqkv, AttentionWorkspace<T>& workspace);

}  // namespace troupe::kernels
