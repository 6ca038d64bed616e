// ppo: learns CartPole on the runtime, and plays what it has learned. See --help.
#include <span>

#include <troupe/troupe.h>

#include "apps/rl/program/program.h"

namespace {

int driver(std::span<char* const> arguments) { return rl::run_program(rl::Program::kPpo, arguments); }

}  // namespace

int main(int argc, char** argv) {
  const troupe::RunOptions options = rl::run_options(rl::Program::kPpo, {argv, argv + argc});
  return troupe::run(argc, argv, options, &driver);
}
