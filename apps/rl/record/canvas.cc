#include "apps/rl/record/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

namespace rl {
namespace {

constexpr int kPerSide = 4;  // points of a pixel, in x and in y
constexpr int kPoints = kPerSide * kPerSide;

struct Crossing {
  double x = 0;
  int winding = 0;  // +1 for an edge that goes up, -1 for one that goes down
};

// Where the outline crosses the horizontal line at y, from left to right.
void find_crossings(std::span<const Spot> corners, double y, std::vector<Crossing>& out) {
  out.clear();
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Spot a = corners[i], b = corners[(i + 1) % corners.size()];
    if ((a.y <= y) == (b.y <= y)) continue;
    out.push_back({a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x), a.y <= y ? 1 : -1});
  }
  std::ranges::sort(out, {}, &Crossing::x);
}

// The points of a row are at (i + 0.5) / kPerSide; the index of the first one at or right of x.
int first_point(double x, int points) {
  return static_cast<int>(std::clamp(std::ceil(x * kPerSide - 0.5), 0.0, static_cast<double>(points)));
}

std::uint8_t mixed(std::uint8_t below, std::uint8_t above, int covered) {
  return static_cast<std::uint8_t>((below * (kPoints - covered) + above * covered + kPoints / 2) / kPoints);
}

}  // namespace

Spot placed(Spot spot, double angle, Spot by) {
  const double c = std::cos(angle), s = std::sin(angle);
  return {c * spot.x - s * spot.y + by.x, s * spot.x + c * spot.y + by.y};
}

void Canvas::mix(int x, int row, int covered, Color color) {
  const Color below = frame_.at(x, row);
  frame_.set(x, row, {mixed(below.red, color.red, covered), mixed(below.green, color.green, covered),
                      mixed(below.blue, color.blue, covered)});
}

void Canvas::fill(std::span<const Spot> corners, Color color) {
  if (corners.size() < 3) return;
  if (!std::ranges::all_of(corners, [](Spot s) { return std::isfinite(s.x) && std::isfinite(s.y); })) return;
  const auto [lowest, highest] = std::ranges::minmax(corners, {}, &Spot::y);
  const double limit = frame_.height;
  const int first = static_cast<int>(std::clamp(std::floor(lowest.y), 0.0, limit));
  const int last = static_cast<int>(std::clamp(std::ceil(highest.y), 0.0, limit));
  std::vector<int> covered(static_cast<std::size_t>(frame_.width));
  std::vector<Crossing> crossings;
  for (int y = first; y < last; ++y) {
    std::ranges::fill(covered, 0);
    for (int sub = 0; sub < kPerSide; ++sub) {
      find_crossings(corners, y + (sub + 0.5) / kPerSide, crossings);
      int winding = 0;
      for (std::size_t i = 0; i + 1 < crossings.size(); ++i) {
        winding += crossings[i].winding;
        if (winding == 0) continue;
        const int end = first_point(crossings[i + 1].x, frame_.width * kPerSide);
        for (int p = first_point(crossings[i].x, frame_.width * kPerSide); p < end; ++p)
          ++covered[static_cast<std::size_t>(p / kPerSide)];
      }
    }
    for (int x = 0; x < frame_.width; ++x)
      if (const int points = covered[static_cast<std::size_t>(x)]; points > 0)
        mix(x, frame_.height - 1 - y, points, color);
  }
}

void Canvas::circle(Spot center, double radius, Color color) {
  // Enough corners that an edge is never further than 1/50 pixel from the arc: r (1 - cos(pi / n)) <= 0.02.
  if (!(radius > 0)) return;
  const double corners = std::ceil(std::numbers::pi / std::acos(1 - std::min(1.0, 0.02 / radius)));
  std::vector<Spot> outline(static_cast<std::size_t>(std::clamp(corners, 12.0, 720.0)));
  for (std::size_t i = 0; i < outline.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(outline.size());
    outline[i] = {center.x + radius * std::cos(angle), center.y + radius * std::sin(angle)};
  }
  fill(outline, color);
}

void Canvas::line(std::span<const Spot> spots, double width, Color color) {
  if (spots.size() < 2) return;
  // One outline, there and back, so that no joint is drawn twice: at each spot half a width to the side of the way
  // from the spot before to the one after.
  std::vector<Spot> there, back;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const Spot before = spots[i == 0 ? 0 : i - 1], after = spots[std::min(i + 1, spots.size() - 1)];
    const double dx = after.x - before.x, dy = after.y - before.y, length = std::hypot(dx, dy);
    if (!(length > 0)) continue;
    const Spot side{-dy / length * width / 2, dx / length * width / 2};
    there.push_back({spots[i].x + side.x, spots[i].y + side.y});
    back.push_back({spots[i].x - side.x, spots[i].y - side.y});
  }
  there.insert(there.end(), back.rbegin(), back.rend());
  fill(there, color);
}

void Canvas::box(const Box& box, double angle, Spot by, Color color) {
  const std::array<Spot, 4> corners{placed({box.left, box.bottom}, angle, by), placed({box.left, box.top}, angle, by),
                                    placed({box.right, box.top}, angle, by),
                                    placed({box.right, box.bottom}, angle, by)};
  fill(corners, color);
}

}  // namespace rl
