// ObservationEncoder: what a network sees of an observation: rows of floats.
//
//   Box(float32)    as it is, without a copy
//   Box(uint8)      divided by 255 (images)
//   Box(bool, ...)  other numbers as floats
//   Discrete, MultiDiscrete   one-hot, one dimension after the other
//
// An image whose channels come first ([c, h, w], as stacked frames) is turned to [h, w, c], which convolutions want.
//
// No state but its description: any thread.
//
// OBE-1  The shape of what comes out is shape(); an image is recognized by three dimensions, of which the first is the
//        smallest and smaller than the last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

class ObservationEncoder {
 public:
  /// InvalidArgumentError for a space that makes no sense.
  static troupe::Result<ObservationEncoder> make(Space space);

  [[nodiscard]] const std::vector<std::size_t>& shape() const { return shape_; }
  /// Numbers of a row.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// What `obs` is as floats: itself, or what it writes to `memory`, which is resized.
  [[nodiscard]] std::span<const float> encode(ConstRows obs, std::vector<float>& memory) const;

 private:
  explicit ObservationEncoder(Space space);

  Space space_;
  std::vector<std::size_t> shape_;
  std::size_t size_ = 0;
  bool channels_first_ = false;
};

}  // namespace rl
