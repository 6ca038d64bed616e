// Attention as products over blocks of kQueryRows query rows: a block's scores stay in the cache between the product,
// the softmax and the next product, and columns beyond the block's last row are never calculated. The keys and values
// of a head are packed once for all of its blocks.
#include "kernels/cpu/linear/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows/rows.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t kQueryRows = 48;  // whole tiles of both vector versions
// Rows of a block of gradients stand this much further apart than `time`: powers of two would fall into one set of the
// cache.
constexpr std::size_t kRowGap = 16;

// One head of one sequence.
template <class T>
struct Head {
  std::size_t time, width, stride;  // stride: from one position of q, k, v to the next
  T scale;
  const T *q, *k, *v;
};

template <class T>
Head<T> head_of(const AttentionShape& s, const T* qkv, std::size_t index) {
  const std::size_t width = s.channels / s.heads;
  const T* q = qkv + index / s.heads * s.time * 3 * s.channels + index % s.heads * width;
  return {.time = s.time,
          .width = width,
          .stride = 3 * s.channels,
          .scale = T{1} / std::sqrt(static_cast<T>(width)),
          .q = q,
          .k = q + s.channels,
          .v = q + 2 * s.channels};
}

template <class T>
MatmulFactor<T> keys_of(const Head<T>& h) {
  return {.data = h.k, .stride = h.stride};
}
template <class T>
MatmulFactor<T> transposed(MatmulFactor<T> factor) {
  factor.transposed = !factor.transposed;
  return factor;
}

// scores[rows][..first + rows) = q k^T of the block's rows, not scaled.
template <class T>
void scores_of(Isa isa, const Head<T>& h, std::size_t first, std::size_t rows, const PackedFactor<T>& keys_transposed,
               T* scores) {
  matmul<T>(isa, {.m = rows, .n = first + rows, .k = h.width}, {.data = h.q + first * h.stride, .stride = h.stride},
            keys_transposed, {.data = scores, .stride = h.time});
}

}  // namespace

template <class T>
void attention_forward(Isa isa, const AttentionShape& s, const T* qkv, T* out, const AttentionState<T>& state,
                       AttentionWorkspace<T>& workspace) {
  const auto& version = detail::rows_version<T>(isa);
  workspace.scores.resize(std::max(workspace.scores.size(), kQueryRows * s.time));
  for (std::size_t index = 0; index < s.batch * s.heads; ++index) {
    const Head<T> h = head_of(s, qkv, index);
    workspace.keys_transposed.pack(isa, h.width, h.time, transposed(keys_of(h)));
    workspace.values.pack(isa, h.time, h.width, {.data = h.v, .stride = h.stride});
    T* out_head = out + index / s.heads * s.time * s.channels + index % s.heads * h.width;
    for (std::size_t first = 0; first < s.time; first += kQueryRows) {
      const std::size_t rows = std::min(kQueryRows, s.time - first), columns = first + rows;
      T* probs = state.probs != nullptr ? state.probs + (index * s.time + first) * s.time : workspace.scores.data();
      scores_of(isa, h, first, rows, workspace.keys_transposed, probs);
      for (std::size_t r = 0; r < rows; ++r) {
        T* row = probs + r * s.time;
        version.softmax(1, first + r + 1, row, row, h.scale, T{1}, state.lse + index * s.time + first + r);
        std::fill(row + first + r + 1, row + (state.probs != nullptr ? s.time : columns), T{0});
      }
      matmul<T>(isa, {.m = rows, .n = h.width, .k = columns}, {.data = probs, .stride = s.time},
                workspace.values, {.data = out_head + first * s.channels, .stride = s.channels});
    }
  }
}

namespace {

template <class T>
struct HeadGradients {
  const T* dout;
  std::size_t out_stride;
  T *dq, *dk, *dv;
};

// One block of rows: its dq is written, its shares of dk and dv are added. workspace.values holds v^T.
template <class T>
void backward_block(Isa isa, const Head<T>& h, const HeadGradients<T>& g, std::size_t first, std::size_t rows,
                    const T* probs, AttentionWorkspace<T>& workspace) {
  const auto& version = detail::rows_version<T>(isa);
  const std::size_t columns = first + rows, stride = h.time + kRowGap;
  T* dscores = workspace.gradients.data();
  const MatmulFactor<T> dout{.data = g.dout + first * g.out_stride, .stride = g.out_stride};
  matmul<T>(isa, {.m = rows, .n = columns, .k = h.width}, dout, workspace.values, {.data = dscores, .stride = stride});
  matmul<T>(isa, {.m = columns, .n = h.width, .k = rows}, {.data = probs, .stride = h.time, .transposed = true}, dout,
            {.data = g.dv, .stride = h.stride, .accumulate = true});
  for (std::size_t r = 0; r < rows; ++r) {
    T* row = dscores + r * stride;
    version.softmax_back(first + r + 1, probs + r * h.time, row, row, h.scale);
    std::fill(row + first + r + 1, row + columns, T{0});
  }
  matmul<T>(isa, {.m = rows, .n = h.width, .k = columns}, {.data = dscores, .stride = stride}, workspace.keys,
            {.data = g.dq + first * h.stride, .stride = h.stride});
  matmul<T>(isa, {.m = columns, .n = h.width, .k = rows}, {.data = dscores, .stride = stride, .transposed = true},
            {.data = h.q + first * h.stride, .stride = h.stride},
            {.data = g.dk, .stride = h.stride, .accumulate = true});
}

}  // namespace

template <class T>
void attention_backward(Isa isa, const AttentionShape& s, const T* qkv, const AttentionState<T>& state, const T* dout,
                        T* dqkv, AttentionWorkspace<T>& workspace) {
  const auto& version = detail::rows_version<T>(isa);
  workspace.scores.resize(std::max(workspace.scores.size(), kQueryRows * s.time));
  workspace.gradients.resize(std::max(workspace.gradients.size(), kQueryRows * (s.time + kRowGap)));
  for (std::size_t index = 0; index < s.batch * s.heads; ++index) {
    const Head<T> h = head_of(s, qkv, index);
    T* dq = dqkv + (h.q - qkv);
    const HeadGradients<T> g{.dout = dout + index / s.heads * s.time * s.channels + index % s.heads * h.width,
                             .out_stride = s.channels,
                             .dq = dq,
                             .dk = dq + s.channels,
                             .dv = dq + 2 * s.channels};
    workspace.keys.pack(isa, h.time, h.width, keys_of(h));
    workspace.values.pack(isa, h.width, h.time, {.data = h.v, .stride = h.stride, .transposed = true});
    if (state.probs == nullptr) workspace.keys_transposed.pack(isa, h.width, h.time, transposed(keys_of(h)));
    for (std::size_t t = 0; t < s.time; ++t) {
      std::fill_n(g.dk + t * h.stride, h.width, T{0});
      std::fill_n(g.dv + t * h.stride, h.width, T{0});
    }
    for (std::size_t first = 0; first < s.time; first += kQueryRows) {
      const std::size_t rows = std::min(kQueryRows, s.time - first);
      const T* probs = state.probs != nullptr ? state.probs + (index * s.time + first) * s.time : nullptr;
      if (probs == nullptr) {
        T* again = workspace.scores.data();
        scores_of(isa, h, first, rows, workspace.keys_transposed, again);
        for (std::size_t r = 0; r < rows; ++r) {
          T* row = again + r * s.time;
          version.exponentials(first + r + 1, row, row, h.scale, state.lse[index * s.time + first + r]);
          std::fill(row + first + r + 1, row + first + rows, T{0});
        }
        probs = again;
      }
      backward_block(isa, h, g, first, rows, probs, workspace);
    }
  }
}

template void attention_forward<float>(Isa, const AttentionShape&, const float*, float*, const AttentionState<float>&,
                                       AttentionWorkspace<float>&);
template void attention_forward<double>(Isa, const AttentionShape&, const double*, double*,
                                        const AttentionState<double>&, AttentionWorkspace<double>&);
template void attention_backward<float>(Isa, const AttentionShape&, const float*, const AttentionState<float>&,
                                        const float*, float*, AttentionWorkspace<float>&);
template void attention_backward<double>(Isa, const AttentionShape&, const double*, const AttentionState<double>&,
                                         const double*, double*, AttentionWorkspace<double>&);

}  // namespace troupe::kernels
