// datagen: data sets, made in a cluster. See --help.
#include <troupe/troupe.h>

#include "apps/datagen/program/program.h"

int main(int argc, char** argv) {
  datagen::register_builtins().value();
  return troupe::run(argc, argv, &datagen::run_program);
}
