// The reference products and the choice of a version.
#include "kernels/cpu/linear/matmul.h"

#include <type_traits>

namespace troupe::kernels {
namespace {

const detail::MatmulVersion* matmul_version(Isa isa) {
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::matmul_avx512() != nullptr) return detail::matmul_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2)) return detail::matmul_avx2();
  return nullptr;
}

// No call gives up the thread between taking it and its end, so fibers of one thread can share it.
detail::AlignedFloats& scratch() {
  thread_local detail::AlignedFloats memory;
  return memory;
}

template <class T>
T at(const MatmulFactor<T>& f, std::size_t row, std::size_t column) {
  return f.transposed ? f.data[column * f.stride + row] : f.data[row * f.stride + column];
}

template <class T>
void matmul_reference(const MatmulShape& s, const MatmulFactor<T>& a, const MatmulFactor<T>& b,
                      const MatmulResult<T>& c) {
  for (std::size_t i = 0; i < s.m; ++i) {
    T* row = c.data + i * c.stride;
    for (std::size_t j = 0; j < s.n; ++j) {
      T sum{0};
      for (std::size_t p = 0; p < s.k; ++p) sum += at(a, i, p) * at(b, p, j);
      if (c.bias != nullptr) sum += c.bias[j];
      if (c.residual != nullptr) sum += c.residual[i * c.stride + j];
      row[j] = c.accumulate ? row[j] + sum : sum;
    }
  }
}

}  // namespace

template <class T>
void matmul(Isa isa, const MatmulShape& shape, const MatmulFactor<T>& a, const MatmulFactor<T>& b,
            const MatmulResult<T>& c) {
  if (shape.m == 0 || shape.n == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    const detail::MatmulVersion* version = matmul_version(isa);
    if (version != nullptr && shape.k != 0) {
      version->run({.shape = shape, .a = a, .b = b, .packed_b = {}, .c = c, .scratch = &scratch()});
      return;
    }
  }
  matmul_reference(shape, a, b, c);
}

template <class T>
void PackedFactor<T>::pack(Isa isa, std::size_t k, std::size_t n, const MatmulFactor<T>& b) {
  source_ = b;
  k_ = k;
  n_ = n;
  isa_ = isa;
  packed_ = false;
  if constexpr (std::is_same_v<T, float>) {
    const detail::MatmulVersion* version = matmul_version(isa);
    if (version == nullptr || k == 0 || n == 0) return;
    version->pack_b(k, n, b, memory_.at_least(version->packed_size(k, n)));
    packed_ = true;
  }
}

template <class T>
void matmul(Isa isa, const MatmulShape& shape, const MatmulFactor<T>& a, const PackedFactor<T>& b,
            const MatmulResult<T>& c) {
  if constexpr (std::is_same_v<T, float>) {
    if (const float* panels = b.panels(isa); panels != nullptr && shape.m != 0 && shape.n != 0 && shape.k != 0) {
      const detail::MatmulPanels packed{panels, b.k(), b.n()};
      matmul_version(isa)->run(
          {.shape = shape, .a = a, .b = {}, .packed_b = packed, .c = c, .scratch = &scratch()});
      return;
    }
  }
  matmul(isa, shape, a, b.source(), c);
}

template <class T>
void matvec(Isa isa, std::size_t m, std::size_t k, const T* a, const T* x, const T* bias, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::MatmulVersion* version = matmul_version(isa)) {
      version->matvec(m, k, a, x, bias, y);
      return;
    }
  }
  for (std::size_t i = 0; i < m; ++i) {
    T sum{0};
    for (std::size_t p = 0; p < k; ++p) sum += a[i * k + p] * x[p];
    y[i] = sum + bias[i];
  }
}

template <class T>
void linear_forward(Isa isa, const LinearShape& s, const T* x, const T* w, const T* bias, T* y) {
  matmul<T>(isa, {.m = s.rows, .n = s.out, .k = s.in}, {.data = x, .stride = s.in},
            {.data = w, .stride = s.in, .transposed = true}, {.data = y, .stride = s.out, .bias = bias});
}

template <class T>
void linear_backward(Isa isa, const LinearShape& s, const T* x, const T* w, const T* dy,
                     const LinearGradients<T>& gradients) {
  if (gradients.dx != nullptr) {
    matmul<T>(isa, {.m = s.rows, .n = s.in, .k = s.out}, {.data = dy, .stride = s.out}, {.data = w, .stride = s.in},
              {.data = gradients.dx, .stride = s.in});
  }
  matmul<T>(isa, {.m = s.out, .n = s.in, .k = s.rows}, {.data = dy, .stride = s.out, .transposed = true},
            {.data = x, .stride = s.in}, {.data = gradients.dw, .stride = s.in, .accumulate = true});
  if (gradients.dbias == nullptr) return;
  if constexpr (std::is_same_v<T, float>) {
    if (const detail::MatmulVersion* version = matmul_version(isa)) {
      version->add_rows(dy, s.rows, s.out, gradients.dbias);
      return;
    }
  }
  for (std::size_t r = 0; r < s.rows; ++r) {
    for (std::size_t c = 0; c < s.out; ++c) gradients.dbias[c] += dy[r * s.out + c];
  }
}

template void matmul<float>(Isa, const MatmulShape&, const MatmulFactor<float>&, const MatmulFactor<float>&,
                            const MatmulResult<float>&);
template void matmul<double>(Isa, const MatmulShape&, const MatmulFactor<double>&, const MatmulFactor<double>&,
                             const MatmulResult<double>&);
template void matmul<float>(Isa, const MatmulShape&, const MatmulFactor<float>&, const PackedFactor<float>&,
                            const MatmulResult<float>&);
template void matmul<double>(Isa, const MatmulShape&, const MatmulFactor<double>&, const PackedFactor<double>&,
                             const MatmulResult<double>&);
template class PackedFactor<float>;
template class PackedFactor<double>;
template void matvec<float>(Isa, std::size_t, std::size_t, const float*, const float*, const float*, float*);
template void matvec<double>(Isa, std::size_t, std::size_t, const double*, const double*, const double*, double*);
template void linear_forward<float>(Isa, const LinearShape&, const float*, const float*, const float*, float*);
template void linear_forward<double>(Isa, const LinearShape&, const double*, const double*, const double*, double*);
template void linear_backward<float>(Isa, const LinearShape&, const float*, const float*, const float*,
                                     const LinearGradients<float>&);
template void linear_backward<double>(Isa, const LinearShape&, const double*, const double*, const double*,
                                      const LinearGradients<double>&);

}  // namespace troupe::kernels
