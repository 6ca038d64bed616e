// The head's randomness, injected as a seed: node ids, anonymous namespaces, back-off jitter (splitmix64: small, good enough).
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace troupe::head {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [-1, 1).
  double symmetric() { return static_cast<double>(next() >> 11) * 0x1.0p-52 - 1; }
  std::string hex16() {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(next()));
    return text;
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::head
