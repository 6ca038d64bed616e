// Reads a data set as demonstrations and says what came of it: one line, "episodes N steps N" or "NameOfTheError:
// words".
//
//   datagen_read_driver FOLDER
//   datagen_read_driver --parquet FILE      a file alone
#include <array>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "apps/datagen/read/parquet_episodes.h"
#include "apps/datagen/read/read_demonstrations.h"

namespace {

int say(const rl::Demonstrations& read) {
  fmt::print("episodes {} steps {}\n", read.episodes(), read.steps.rows());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    if (std::string_view(argv[1]) != "--parquet") return say(datagen::read_demonstrations(argv[1]).value());
    const std::array files{std::filesystem::path(argv[2])};
    return say(datagen::parquet_episodes(files));
  } catch (const troupe::Error& error) {
    fmt::print("{}: {}\n", troupe::error_name(error.code()), error.message());
    return 1;
  }
}
