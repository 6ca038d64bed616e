// All-reduces of float by MPI, counted as ours: mpirun -n N mpi_rows BYTES:ITERATIONS,... prints one JSON object a
// size.
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

/// Touched, on huge pages where the machine has them: as ours.
float* touched(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes + 4096);
  return static_cast<float*>(memory);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void measure(std::size_t bytes, int iterations, int rank) {
  float *in = touched(bytes), *out = touched(bytes);
  const int count = static_cast<int>(bytes / sizeof(float));
  for (int i = 0; i < count; ++i) in[i] = static_cast<float>(1 + (rank * 7 + i * 3) % 5);
  const auto all_reduce = [&] { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
  for (int i = 0; i < 3; ++i) all_reduce();
  std::vector<double> times(static_cast<std::size_t>(iterations)), slowest(times.size());
  for (double& time : times) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    all_reduce();
    time = MPI_Wtime() - start;
  }
  MPI_Reduce(times.data(), slowest.data(), iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) all_reduce();
  double mean = (MPI_Wtime() - start) / iterations, slowest_mean = 0;
  MPI_Reduce(&mean, &slowest_mean, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("{\"bytes\": %zu, \"median\": %.9g, \"back_to_back\": %.9g}\n", bytes, median(slowest), slowest_mean);
    std::fflush(stdout);
  }
  ::munmap(in, bytes + 4096);
  ::munmap(out, bytes + 4096);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (char* at = argc > 1 ? argv[1] : nullptr; at != nullptr && *at != 0;) {
    const std::size_t bytes = std::strtoull(at, &at, 10);
    if (*at != ':') break;
    const int iterations = static_cast<int>(std::strtol(at + 1, &at, 10));
    measure(bytes, iterations, rank);
    if (*at == ',') ++at;
  }
  MPI_Finalize();
  return 0;
}
