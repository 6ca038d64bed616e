// What a model announced as final during one step, and whether it kept to it (MD-3 of apps/train/model/model.h).
//
//   Announced announced(gradients);
//   model.step(batch, params, gradients, divisor, announced.listener());
//   announced.expect_kept();
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "apps/train/model/model.h"

namespace model_promises {

class Announced {
 public:
  explicit Announced(std::span<const float> gradients) : gradients_(gradients) {}

  troupe::train::FinalFrom listener() {
    return [this](std::size_t offset) {
      const auto final_ones = gradients_.subspan(offset);
      told_.emplace_back(offset, std::vector<float>(final_ones.begin(), final_ones.end()));
    };
  }
  std::size_t count() const { return told_.size(); }
  /// The offsets fell to 0, and no element was written after it was announced.
  void expect_kept() const {
    ASSERT_FALSE(told_.empty());
    EXPECT_EQ(told_.back().first, 0u);
    std::size_t last = gradients_.size();
    for (const auto& [offset, then] : told_) {
      EXPECT_LT(offset, last);
      last = offset;
      EXPECT_TRUE(std::ranges::equal(then, gradients_.subspan(offset))) << offset;
    }
  }

 private:
  std::span<const float> gradients_;
  std::vector<std::pair<std::size_t, std::vector<float>>> told_;
};

}  // namespace model_promises
