// mlp: trains a perceptron on handwritten digits. See --help.
#include "apps/train/program/command_line.h"

int main(int argc, char** argv) { return troupe::train::train_main(argc, argv, &troupe::train::parse_mlp); }
