// Matrix products of another library, loaded by its file: OpenBLAS (cblas_sgemm) or oneDNN (dnnl_sgemm), with one
// thread.
//
// Loaded into the measure itself, so that both sides run in turns on the same core and the same memory.
// Thread rule: one thread.
#pragma once
#include <cstddef>
#include <string>

namespace troupe::bench {

/// A row-major factor, transposed in place or not.
struct BlasFactor {
  const float* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

class BlasLibrary {
 public:
  /// Throws std::runtime_error when the file cannot be loaded or has neither function. It stays loaded.
  explicit BlasLibrary(const std::string& file);

  /// C [m][n] = A B, or C + A B.
  void multiply(std::size_t m, std::size_t n, std::size_t k, const BlasFactor& a, const BlasFactor& b, float* c,
                std::size_t stride, bool accumulate) const;

 private:
  using Cblas = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using Dnnl = int (*)(char, char, std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t, float, const float*, std::ptrdiff_t,
                       const float*, std::ptrdiff_t, float, float*, std::ptrdiff_t);
  Cblas cblas_ = nullptr;
  Dnnl dnnl_ = nullptr;
};

}  // namespace troupe::bench
