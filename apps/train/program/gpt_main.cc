// gpt: trains a character GPT on all cores, and writes what it has learned to write. See --help.
#include "apps/train/program/command_line.h"

int main(int argc, char** argv) { return troupe::train::train_main(argc, argv, &troupe::train::parse_gpt); }
