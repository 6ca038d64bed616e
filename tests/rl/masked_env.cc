// The program with environments that mask actions (gates_env.h); masked_training_test.py trains in them.
#include <span>

#include <troupe/troupe.h>

#include "apps/rl/program/program.h"
#include "tests/rl/gates_env.h"

namespace {

int driver(std::span<char* const> arguments) { return rl::run_program(rl::Program::kRl, arguments); }

}  // namespace

int main(int argc, char** argv) {
  gates::register_all();
  return troupe::run(argc, argv, &driver);
}
