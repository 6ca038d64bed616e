// y = x w^T of a fully connected layer by another library, one thread: blas_rows SECONDS ROWS,IN,OUT... prints one JSON object a
// shape, with the least time of many runs, as ours. A library that computes wrong on this processor is an error, not a rival.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#ifdef ONEDNN
#include <oneapi/dnnl/dnnl.h>
#else
extern "C" void cblas_sgemm(int order, int transposed_a, int transposed_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
#endif

namespace {

struct Shape { int rows = 0, in = 0, out = 0; };

void product(const Shape& s, const float* x, const float* w, float* y) {
#ifdef ONEDNN
  dnnl_sgemm('N', 'T', s.rows, s.out, s.in, 1.0f, x, s.in, w, s.in, 0.0f, y, s.out);
#else
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  cblas_sgemm(kRowMajor, kPlain, kTransposed, s.rows, s.out, s.in, 1.0f, x, s.in, w, s.in, 0.0f, y, s.out);
#endif
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  return out;
}

bool right(const Shape& s, const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& y) {
  for (int r = 0; r < s.rows; r += 37)
    for (int o = 0; o < s.out; ++o) {
      double want = 0;
      for (int i = 0; i < s.in; ++i) want += double(x[std::size_t(r) * s.in + i]) * w[std::size_t(o) * s.in + i];
      if (!(std::abs(want - y[std::size_t(r) * s.out + o]) < 1e-3)) return false;
    }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.1;
  for (int a = 2; a < argc; ++a) {
    Shape s;
    if (std::sscanf(argv[a], "%d,%d,%d", &s.rows, &s.in, &s.out) != 3) return 2;
    const auto x = random_floats(std::size_t(s.rows) * s.in, 1), w = random_floats(std::size_t(s.in) * s.out, 2);
    std::vector<float> y(std::size_t(s.rows) * s.out);
    product(s, x.data(), w.data(), y.data());
    if (!right(s, x, w, y)) {
      std::fprintf(stderr, "wrong result for %s\n", argv[a]);
      return 1;
    }
    double least = 1e9;
    for (const auto start = Clock::now(); seconds_since(start) < budget;) {
      const auto before = Clock::now();
      product(s, x.data(), w.data(), y.data());
      least = std::fmin(least, seconds_since(before));
    }
    std::printf("{\"shape\": \"%s\", \"gflops\": %.6g}\n", argv[a], 2e-9 * s.rows * s.in * s.out / least);
    std::fflush(stdout);
  }
  return 0;
}
