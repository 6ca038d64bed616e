#include "bench/blas_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace troupe::bench {

BlasLibrary::BlasLibrary(const std::string& file) {
  // Both count threads when they are loaded.
  ::setenv("OMP_NUM_THREADS", "1", 1);
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("--peer: " + std::string(::dlerror()));
  cblas_ = reinterpret_cast<Cblas>(::dlsym(library, "cblas_sgemm"));
  dnnl_ = reinterpret_cast<Dnnl>(::dlsym(library, "dnnl_sgemm"));
  if (cblas_ == nullptr && dnnl_ == nullptr) throw std::runtime_error("--peer: no product of floats in " + file);
}

void BlasLibrary::multiply(std::size_t m, std::size_t n, std::size_t k, const BlasFactor& a, const BlasFactor& b,
                           float* c, std::size_t stride, bool accumulate) const {
  const float beta = accumulate ? 1 : 0;
  if (dnnl_ != nullptr) {
    dnnl_(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', std::ptrdiff_t(m), std::ptrdiff_t(n), std::ptrdiff_t(k),
          1, a.data, std::ptrdiff_t(a.stride), b.data, std::ptrdiff_t(b.stride), beta, c, std::ptrdiff_t(stride));
    return;
  }
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  cblas_(kRowMajor, a.transposed ? kTransposed : kPlain, b.transposed ? kTransposed : kPlain, int(m), int(n), int(k), 1,
         a.data, int(a.stride), b.data, int(b.stride), beta, c, int(stride));
}

}  // namespace troupe::bench
