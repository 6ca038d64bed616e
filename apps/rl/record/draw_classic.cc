#include "apps/rl/record/draw_classic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "apps/rl/record/canvas.h"

namespace rl {
namespace {

// Sizes and colors below are those of gymnasium/envs/classic_control, version 1.4.
constexpr double kPi = std::numbers::pi;
constexpr Color kWhite{255, 255, 255}, kBlack{0, 0, 0}, kGrey{128, 128, 128};
constexpr Color kPole{202, 152, 101}, kAxle{129, 132, 203};
constexpr Color kLink{0, 204, 204}, kJoint{204, 204, 0}, kRod{204, 77, 77};

constexpr double kMinPosition = -1.2, kMaxPosition = 0.6;

double hill(double position) { return std::sin(3 * position) * 0.45 + 0.55; }

// An arc with a head, around `center`; positive: counter-clockwise.
void arrow(Canvas& canvas, Spot center, double radius, double sweep) {
  constexpr int kSpots = 24;
  const auto spot = [&](double angle, double r) {
    return Spot{center.x + r * std::cos(angle), center.y + r * std::sin(angle)};
  };
  const double begin = kPi / 2 - sweep / 2;
  std::vector<Spot> arc;
  for (int i = 0; i <= kSpots; ++i) arc.push_back(spot(begin + sweep * i / kSpots, radius));
  canvas.line(arc, 4, kBlack);
  const double end = begin + sweep, ahead = end + std::copysign(14 / radius, sweep);
  canvas.fill(std::array{spot(end, radius + 8), spot(end, radius - 8), spot(ahead, radius)}, kBlack);
}

}  // namespace

Frame draw_cartpole(std::span<const float> observation) {
  constexpr int kWidth = 600, kHeight = 400;
  constexpr double kScale = kWidth / 4.8, kTrack = 100;
  constexpr double kPoleWidth = 10, kPoleLength = kScale * 1.0, kAxleHeight = 7.5;
  const Spot cart{kWidth / 2.0 + kScale * static_cast<double>(observation[0]), kTrack};
  Canvas canvas(kWidth, kHeight, kWhite);
  canvas.line(std::array{Spot{0, kTrack}, Spot{kWidth, kTrack}}, 1, kBlack);
  canvas.box({.left = -25, .right = 25, .bottom = -15, .top = 15}, 0, cart, kBlack);
  const Spot axle{cart.x, cart.y + kAxleHeight};
  // The angle is clockwise from upright.
  canvas.box({.left = -kPoleWidth / 2, .right = kPoleWidth / 2, .bottom = -kPoleWidth / 2,
              .top = kPoleLength - kPoleWidth / 2},
             -static_cast<double>(observation[2]), axle, kPole);
  canvas.circle(axle, kPoleWidth / 2, kAxle);
  return std::move(canvas).frame();
}

Frame draw_acrobot(std::span<const float> observation) {
  constexpr int kSize = 500;
  constexpr double kScale = kSize / 4.4, kHalfWidth = 0.1 * kScale;
  const double first = std::atan2(observation[1], observation[0]);
  const double second = first + std::atan2(observation[3], observation[2]);
  const Spot shoulder{kSize / 2.0, kSize / 2.0};
  const Canvas::Box link{.left = 0, .right = kScale, .bottom = -kHalfWidth, .top = kHalfWidth};
  // Angles are from hanging down.
  const Spot elbow = placed({kScale, 0}, first - kPi / 2, shoulder);
  Canvas canvas(kSize, kSize, kWhite);
  const double goal = shoulder.y + kScale;
  canvas.line(std::array{Spot{0, goal}, Spot{kSize, goal}}, 1, kBlack);
  canvas.box(link, first - kPi / 2, shoulder, kLink);
  canvas.circle(shoulder, kHalfWidth, kJoint);
  canvas.box(link, second - kPi / 2, elbow, kLink);
  canvas.circle(elbow, kHalfWidth, kJoint);
  return std::move(canvas).frame();
}

Frame draw_mountain_car(std::span<const float> observation, double goal) {
  constexpr int kWidth = 600, kHeight = 400, kHillSpots = 100;
  constexpr double kScale = kWidth / (kMaxPosition - kMinPosition), kClearance = 10;
  Canvas canvas(kWidth, kHeight, kWhite);
  std::vector<Spot> ground;
  for (int i = 0; i < kHillSpots; ++i) {
    const double position = kMinPosition + (kMaxPosition - kMinPosition) * i / (kHillSpots - 1);
    ground.push_back({(position - kMinPosition) * kScale, hill(position) * kScale});
  }
  canvas.line(ground, 1.5, kBlack);

  const Spot flag{(goal - kMinPosition) * kScale, hill(goal) * kScale};
  canvas.line(std::array{flag, Spot{flag.x, flag.y + 50}}, 1.5, kBlack);
  canvas.fill(std::array{Spot{flag.x, flag.y + 50}, Spot{flag.x, flag.y + 40}, Spot{flag.x + 25, flag.y + 45}}, kJoint);

  const auto position = static_cast<double>(observation[0]);
  const double tilt = std::cos(3 * position);
  const Spot car{(position - kMinPosition) * kScale, kClearance + hill(position) * kScale};
  canvas.box({.left = -20, .right = 20, .bottom = 0, .top = 20}, tilt, car, kBlack);
  for (const double wheel : {10.0, -10.0}) canvas.circle(placed({wheel, 0}, tilt, car), 8, kGrey);
  return std::move(canvas).frame();
}

Frame draw_pendulum(std::span<const float> observation, std::optional<double> torque) {
  constexpr int kSize = 500;
  constexpr double kScale = kSize / 4.4, kHalfWidth = 0.1 * kScale;
  const Spot center{kSize / 2.0, kSize / 2.0};
  // The angle is counter-clockwise from upright.
  const double angle = std::atan2(observation[1], observation[0]) + kPi / 2;
  Canvas canvas(kSize, kSize, kWhite);
  canvas.box({.left = 0, .right = kScale, .bottom = -kHalfWidth, .top = kHalfWidth}, angle, center, kRod);
  canvas.circle(center, kHalfWidth, kRod);
  canvas.circle(placed({kScale, 0}, angle, center), kHalfWidth, kRod);
  canvas.circle(center, 0.05 * kScale, kBlack);
  if (torque && std::abs(*torque) > 0.02)
    arrow(canvas, center, 0.35 * kScale, std::clamp(*torque, -2.0, 2.0) * kPi / 2);
  return std::move(canvas).frame();
}

}  // namespace rl
