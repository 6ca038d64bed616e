// Reads a data set as demonstrations and says what came of it: one line, "episodes N" or "NAME OF THE ERROR: words".
//
//   datagen_read_driver FOLDER
#include <cstdio>

#include <fmt/format.h>

#include "apps/datagen/read/read_demonstrations.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto read = datagen::read_demonstrations(argv[1]);
  if (read.ok()) fmt::print("episodes {} steps {}\n", read->episodes(), read->steps.rows());
  else fmt::print("{}: {}\n", troupe::error_name(read.error().code()), read.error().message());
  return read.ok() ? 0 : 1;
}
