// An operation under test: how to make a problem, how the device solves it, and what is right.
//
// Arrays go by the names of the recorded cases (tests/golden), so that one description serves random problems, whose
// answers come from the double reference of kernels/, and recorded ones, whose answers are recorded.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/device.h"

namespace gpu_test {

using Arrays = std::map<std::string, std::vector<double>>;

struct Problem {
  std::string name;
  std::map<std::string, double> sizes;  // and other numbers, by the keys of meta.txt
  Arrays arrays;
  double tolerance = 0;  // when more than the operation's

  [[nodiscard]] std::size_t size(const std::string& key) const { return static_cast<std::size_t>(sizes.at(key)); }
  [[nodiscard]] std::vector<float> floats(const std::string& key) const {
    const auto& values = arrays.at(key);
    return {values.begin(), values.end()};
  }
  [[nodiscard]] std::vector<std::int32_t> integers(const std::string& key) const {
    const auto& values = arrays.at(key);
    return {values.begin(), values.end()};
  }
  [[nodiscard]] std::vector<std::uint8_t> bytes(const std::string& key) const {
    const auto& values = arrays.at(key);
    return {values.begin(), values.end()};
  }
};

struct Operation {
  std::string name;
  std::string golden;               // prefix of its recorded cases; empty: none
  std::vector<std::string> keys;    // of meta.txt that a recorded case has
  std::vector<std::string> inputs;  // arrays that are read
  std::vector<int> versions;
  double tolerance = 0;             // of |got - want| / |want|, both as vectors
  std::function<std::vector<Problem>(bool small)> problems;
  std::function<Arrays(const Gpu&, int version, const Problem&)> solve;
  std::function<Arrays(const Problem&)> reference;
};

std::vector<Operation> row_operations();
std::vector<Operation> element_operations();
std::vector<Operation> training_operations();
std::vector<Operation> matrix_operations();

/// Reproducible values around zero, and problems from shapes.
std::vector<double> random_values(std::size_t count, unsigned seed, double spread = 1.0);
std::vector<double> random_integers(std::size_t count, unsigned seed, int low, int high);  // [low, high)

inline std::vector<double> widen(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace gpu_test
