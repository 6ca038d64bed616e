// rl: reinforcement learning on the runtime. See --help.
#include <span>

#include <troupe/troupe.h>

#include "apps/datagen/read/read_demonstrations.h"
#include "apps/rl/program/program.h"
#include "apps/rl/program/record.h"
#include "apps/rl/samples/dataset_reader.h"

namespace {

int driver(std::span<char* const> arguments) {
  return rl::run_program(rl::Program::kRl, arguments, {.record = &rl::record});
}

}  // namespace

int main(int argc, char** argv) {
  rl::set_dataset_reader(&datagen::read_demonstrations);
  const troupe::RunOptions options = rl::run_options(rl::Program::kRl, {argv, argv + argc});
  return troupe::run(argc, argv, options, &driver);
}
