// Writes two event files into the folder that is its argument: a run of 20 steps, and one that resumed it at step 10.
// tensorboard_test.py reads them.
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "apps/common/tensorboard/event_file.h"

namespace {

using apps::tensorboard::EventFile;
using apps::tensorboard::Scalar;

constexpr std::int64_t kStepScale = 1'000'000'000;  // steps beyond 32 bits

void run(const char* folder, int first, int last, double time, double slope) {
  EventFile file = EventFile::create(folder, time, {.first_step = kStepScale * first, .flush_seconds = 3}).value();
  for (int step = first; step < last; ++step) {
    const std::array scalars{Scalar{"rollout/mean_return", slope * step}, Scalar{"train/kl", 0.5 / (step + 1)}};
    file.add(kStepScale * step, time + step, scalars).value();
  }
  file.add(kStepScale * last, time + last, std::array{Scalar{"train/loss", std::numeric_limits<double>::quiet_NaN()}})
      .value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    run(argv[1], 0, 20, 1'700'000'000, 1);
    run(argv[1], 10, 15, 1'700'000'100, 2);
  } catch (const troupe::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
