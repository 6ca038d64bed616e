// rl: reinforcement learning on the runtime. See --help.
#include <span>

#include <troupe/troupe.h>

#include "apps/rl/program/program.h"
#include "apps/rl/program/record.h"

namespace {

int driver(std::span<char* const> arguments) {
  return rl::run_program(rl::Program::kRl, arguments, {.record = &rl::record});
}

}  // namespace

int main(int argc, char** argv) { return troupe::run(argc, argv, &driver); }
