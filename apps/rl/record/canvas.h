// Draws filled shapes on a frame, with smooth edges. Coordinates are pixels from the lower left corner, y upwards, so
// the center of the lowest left pixel is (0.5, 0.5): as the worlds that are drawn.
//
// Our own: three shapes are two screens of code, and the well-kept library for them (cairo) brings fonts and X11.
//
// CNV-1  A pixel takes as much of the color as the shape covers of its 4 x 4 points, a multiple of 1/16: so a drawing
//        of a few colors has few mixed ones, and fits a GIF's palette. Nothing is drawn outside of the frame.
// CNV-2  A shape with a coordinate that is not finite is not drawn.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "apps/rl/record/frame.h"

namespace rl {

struct Spot {
  double x = 0, y = 0;
};

/// `spot` turned counter-clockwise by `angle` (radians) around the origin, then moved by `by`.
[[nodiscard]] Spot placed(Spot spot, double angle, Spot by);

class Canvas {
 public:
  Canvas(int width, int height, Color background) : frame_(width, height, background) {}

  /// The corners in order; where the shape crosses itself, everything that it winds around is filled.
  void fill(std::span<const Spot> corners, Color color);
  void circle(Spot center, double radius, Color color);
  /// Along all spots, of that width, with flat ends.
  void line(std::span<const Spot> spots, double width, Color color);
  /// A box from (left, bottom) to (right, top), turned by `angle` around the origin, then moved by `by`.
  struct Box {
    double left = 0, right = 0, bottom = 0, top = 0;
  };
  void box(const Box& box, double angle, Spot by, Color color);

  [[nodiscard]] const Frame& frame() const& { return frame_; }
  [[nodiscard]] Frame frame() && { return std::move(frame_); }

 private:
  void mix(int x, int row, int covered, Color color);

  Frame frame_;
};

}  // namespace rl
