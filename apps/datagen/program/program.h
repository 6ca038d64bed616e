// What `datagen` does with its arguments. A program with generators or formats of its own has a main of a few lines:
//
//   int main(int argc, char** argv) {
//     datagen::register_builtins().value();            // before run: worker processes need them too
//     datagen::register_generator(spirals()).value();
//     return troupe::run(argc, argv, &datagen::run_program);
//   }
#pragma once

#include <span>

#include <troupe/result.h>

namespace datagen {

/// The generators and formats that come with Troupe. In main, once.
troupe::Status register_builtins();

/// The exit code (exit_codes.h). Inside of troupe::run.
[[nodiscard]] int run_program(std::span<char* const> arguments);

}  // namespace datagen
