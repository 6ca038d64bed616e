// Recorded training cases: folders of TROUPE_GOLDEN_DIR (its train subfolder, or itself), by default the project's own
// copy.
//
// A case is known by the prefix of its folder's name; sizes come from its meta.txt and tensors.csv. Reading throws: a
// damaged recording is a failed test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "apps/train/model/model.h"
#include "apps/train/data/npy.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace golden_train {

std::filesystem::path folder();

class Case {
 public:
  explicit Case(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::string name() const { return folder_.filename().string(); }
  const std::filesystem::path& path() const { return folder_; }
  bool has(const std::string& array) const { return std::filesystem::exists(folder_ / (array + ".npy")); }
  bool has_file(const std::string& file) const { return std::filesystem::exists(folder_ / file); }

  /// Any element type as double.
  std::vector<double> array(const std::string& name) const {
    return std::move(troupe::train::read_npy<double>(folder_ / (name + ".npy")).value().values);
  }
  std::vector<std::size_t> shape(const std::string& name) const {
    return troupe::train::read_npy<double>(folder_ / (name + ".npy")).value().shape;
  }
  std::vector<std::int32_t> integers(const std::string& name) const {
    return std::move(troupe::train::read_npy<std::int32_t>(folder_ / (name + ".npy")).value().values);
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto all = array(name);
    return {all.begin(), all.end()};
  }

  /// What stands behind a key of meta.txt.
  std::string text(const std::string& key) const {
    std::ifstream in(folder_ / "meta.txt");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(key + " = ")) return line.substr(key.size() + 3);
    }
    throw std::runtime_error(folder_.string() + "/meta.txt has no " + key);
  }
  double number(const std::string& key) const { return std::stod(text(key)); }
  std::size_t size(const std::string& key) const { return std::stoull(text(key)); }

  /// tensors.csv: name,offset,size,shape[,decay].
  troupe::train::Layout layout() const {
    std::ifstream in(folder_ / "tensors.csv");
    troupe::train::Layout out;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::vector<std::string> cells;
      std::stringstream cut(line);
      for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
      troupe::train::Tensor tensor{
          .name = cells.at(0), .shape = {}, .offset = std::stoull(cells.at(1)), .size = std::stoull(cells.at(2))};
      std::stringstream extents(cells.at(3));
      for (std::string extent; std::getline(extents, extent, 'x');) tensor.shape.push_back(std::stoull(extent));
      tensor.decayed = cells.size() < 5 || cells[4] == "1";
      out.push_back(std::move(tensor));
    }
    return out;
  }

 private:
  std::filesystem::path folder_;
};

/// The cases whose folder's name starts so, sorted.
inline std::vector<Case> cases_of(const std::string& prefix) {
  std::vector<std::filesystem::path> found;
  if (std::filesystem::is_directory(folder())) {
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.is_directory() && entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return {found.begin(), found.end()};
}

/// Runs the check for all cases of a prefix; no case at all is a skip, a counted one.
template <class Check>
void for_cases(const std::string& prefix, const Check& check) {
  const auto cases = cases_of(prefix);
  if (cases.empty()) GTEST_SKIP() << "no recorded case " << prefix << "* in " << folder();
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    check(c);
  }
}

/// The error measure of the recordings: max |a - ref| / max |ref|.
template <class T>
double deviation(std::span<const T> got, std::span<const double> want) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - want[i]);
    difference = d <= difference ? difference : d;  // a NaN stays
    largest = std::max(largest, std::abs(want[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

template <class T>
double largest_difference(std::span<const T> got, std::span<const double> want) {
  double difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - want[i]);
    difference = d <= difference ? difference : d;
  }
  return difference;
}

inline void expect_layout(const troupe::train::Layout& got, const troupe::train::Layout& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].shape, want[i].shape) << want[i].name;
    EXPECT_EQ(got[i].offset, want[i].offset) << want[i].name;
    EXPECT_EQ(got[i].size, want[i].size) << want[i].name;
    EXPECT_EQ(got[i].decayed, want[i].decayed) << want[i].name;
  }
}

/// AdamW over a model's tensors, moments kept.
template <class T>
class AdamW {
 public:
  AdamW(const troupe::train::Layout& layout, std::size_t count, const troupe::kernels::AdamOptions& options)
      : layout_(layout), options_(options), first_(count), second_(count) {}
  void step(troupe::kernels::Isa isa, std::vector<T>& params, const std::vector<T>& grads, double grad_scale,
            double learning_rate) {
    std::vector<troupe::kernels::AdamTensor<T>> tensors;
    for (const auto& t : layout_) {
      tensors.push_back({.arrays = {.params = std::span(params).subspan(t.offset, t.size),
                                    .grads = std::span<const T>(grads).subspan(t.offset, t.size),
                                    .first_moment = std::span(first_).subspan(t.offset, t.size),
                                    .second_moment = std::span(second_).subspan(t.offset, t.size)},
                         .decayed = t.decayed});
    }
    options_.learning_rate = learning_rate;
    troupe::kernels::adamw_step<T>(isa, tensors, ++done_, grad_scale, options_);
  }

 private:
  troupe::train::Layout layout_;
  troupe::kernels::AdamOptions options_;
  std::vector<T> first_, second_;
  std::int64_t done_ = 0;
};

}  // namespace golden_train
