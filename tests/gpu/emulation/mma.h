// nvcuda::wmma of the emulation (cuda_runtime.h): 16 x 16 x 16 products of bfloat16 with float sums. Lane 0 holds a
// fragment's matrix and does the work; the others only come to the barriers, so a fragment's elements belong to nobody,
// as on a device.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cuda_bf16.h"
#include "cuda_runtime.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static_assert(M == 16 && N == 16 && K == 16);
  float values[16][16];
};

// The hardware needs 32 bytes, and rows that are a multiple of 16 bytes apart.
inline void check_place(const void* p, std::size_t row_bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % 32 == 0 && row_bytes % 16 == 0) return;
  std::fputs("a tensor-core matrix that is not aligned\n", stderr);
  std::abort();
}
inline float widen(float value) { return value; }
inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class F>
void fill_fragment(F& f, float value) {
  for (auto& row : f.values)
    for (float& x : row) x = value;
}
template <class F, class T>
void load(F& f, const T* p, unsigned stride, bool row_major_order) {
  check_place(p, stride * sizeof(T));
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    for (unsigned r = 0; r < 16; ++r)
      for (unsigned c = 0; c < 16; ++c) f.values[r][c] = widen(row_major_order ? p[r * stride + c] : p[c * stride + r]);
  }
  __syncwarp();
}
template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& f, const T* p, unsigned stride) {
  load(f, p, stride, std::is_same_v<Layout, row_major>);
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* p, unsigned stride,
                             layout_t layout) {
  load(f, p, stride, layout == mem_row_major);
}
inline void store_matrix_sync(float* p, const fragment<accumulator, 16, 16, 16, float>& f, unsigned stride,
                              layout_t layout) {
  check_place(p, stride * sizeof(float));
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    for (unsigned r = 0; r < 16; ++r)
      for (unsigned c = 0; c < 16; ++c) p[layout == mem_row_major ? r * stride + c : c * stride + r] = f.values[r][c];
  }
  // No barrier behind: who reads without __syncwarp is wrong on a device too. Lane 0 is the first to run, so a missing
  // one would not always show here.
}
template <class D, class A, class B, class C>
void mma_sync(D& d, const A& a, const B& b, const C& c) {
  if (threadIdx.x % 32 != 0) return;
  for (unsigned i = 0; i < 16; ++i) {
    for (unsigned j = 0; j < 16; ++j) {
      float sum = c.values[i][j];
      for (unsigned k = 0; k < 16; ++k) sum += a.values[i][k] * b.values[k][j];
      d.values[i][j] = sum;
    }
  }
}

}  // namespace nvcuda::wmma
