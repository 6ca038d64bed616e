// Pictures as training wants them: Grayscale and Resize, by Gymnasium's names and with OpenCV's numbers.
//
// One thread at a time.
//
//   IMG-1  Grayscale is OpenCV's COLOR_RGB2GRAY: (9798 R + 19235 G + 3735 B + 2^14) / 2^15, rounded down.
//   IMG-2  Resize is OpenCV's INTER_AREA where neither side grows: each new pixel is the mean of the area that it
//          covers, in float32, rounded to the nearest number; ties to the even one, but up where both sides are halved.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

/// A wrapper that turns each observation into another one, by itself.
class ObservationWrapper : public EnvWrapper {
 public:
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;

 protected:
  ObservationWrapper(std::unique_ptr<BatchEnv> inner, Space shown);
  /// One row.
  virtual void turn(ConstRows from, Rows to) const = 0;

 private:
  void turn_all(ConstRows from, Rows to) const;

  mutable OwnedRows raw_;  // memory for what is inside
  OwnedRows final_obs_;
  std::size_t final_rows_ = 0;
};

/// [H, W, 3] of uint8 to [H, W].
class Grayscale final : public ObservationWrapper {
 public:
  /// InvalidArgumentError for other observations.
  static troupe::Result<std::unique_ptr<Grayscale>> make(std::unique_ptr<BatchEnv> inner);

 private:
  using ObservationWrapper::ObservationWrapper;
  void turn(ConstRows from, Rows to) const override;
};

/// [H, W] of uint8 to [height, width], neither of which is more.
class Resize final : public ObservationWrapper {
 public:
  struct Size {
    std::size_t height = 84, width = 84;
  };
  /// InvalidArgumentError for other observations and sizes.
  static troupe::Result<std::unique_ptr<Resize>> make(std::unique_ptr<BatchEnv> inner, Size size);

 private:
  /// So much of the old pixel `from` goes into the new pixel `to`.
  struct Share {
    std::size_t from, to;
    float weight;
  };
  static std::vector<Share> shares(std::size_t from, std::size_t to);

  Resize(std::unique_ptr<BatchEnv> inner, const Box& shown, std::size_t old_height, std::size_t old_width);
  void turn(ConstRows from, Rows to) const override;

  [[nodiscard]] static std::uint8_t rounded(float mean, bool ties_up);

  std::size_t old_width_, width_;
  bool halves_;
  std::vector<Share> rows_, columns_;
};

}  // namespace rl
