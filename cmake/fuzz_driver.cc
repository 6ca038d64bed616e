// Runs a fuzzer's entry without libFuzzer: seeded random inputs, and mutations of inputs made before, for a fixed
// number of runs. A finding is a crash, as with libFuzzer; the seed and the run's number reproduce it.
//
//   fuzzer [--runs N] [--seed S] [FILE...]     with files: each of them once, nothing else
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes fresh(std::mt19937_64& random) {
  Bytes bytes(random() % ((random() % 4) ? 128 : 4096));
  const bool sparse = random() % 2;  // mostly zeros reach further into formats with lengths
  for (auto& byte : bytes) byte = sparse && random() % 4 ? 0 : std::uint8_t(random());
  return bytes;
}

void mutate(Bytes& bytes, std::mt19937_64& random) {
  static constexpr std::uint64_t kEdges[] = {0,          1,          0x7F,       0x80,  0xFF,      0xFFFF,
                                             0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, ~0ull, 1ull << 62};
  for (auto n = random() % 6 + 1; n > 0; --n) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 5) {
      case 0: if (!bytes.empty()) bytes[at] ^= std::uint8_t(1u << random() % 8); break;
      case 1: bytes.insert(bytes.begin() + std::ptrdiff_t(at), std::uint8_t(random())); break;
      case 2: if (!bytes.empty()) bytes.erase(bytes.begin() + std::ptrdiff_t(at)); break;
      case 3: bytes.resize(at); break;
      default: {
        const std::uint64_t edge = kEdges[random() % std::size(kEdges)];
        const std::size_t width = std::size_t{1} << random() % 4;
        if (at + width <= bytes.size()) std::memcpy(bytes.data() + at, &edge, width);
      }
    }
  }
}

int run_files(const std::vector<std::string>& files) {
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) { std::fprintf(stderr, "cannot read %s\n", file.c_str()); return 2; }
    const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 20000, seed = 1;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--runs" || argument == "--seed") && i + 1 < argc)
      (argument == "--runs" ? runs : seed) = std::strtoull(argv[++i], nullptr, 10);
    else files.push_back(argument);
  }
  if (!files.empty()) return run_files(files);
  std::mt19937_64 random(seed);
  std::vector<Bytes> pool;
  for (std::uint64_t i = 0; i < runs; ++i) {
    Bytes bytes = pool.empty() || random() % 4 == 0 ? fresh(random) : pool[random() % pool.size()];
    if (random() % 2) mutate(bytes, random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    if (pool.size() < 256) pool.push_back(std::move(bytes));
    else pool[random() % pool.size()] = std::move(bytes);
  }
  std::printf("%llu inputs, seed %llu\n", static_cast<unsigned long long>(runs), static_cast<unsigned long long>(seed));
  return 0;
}
