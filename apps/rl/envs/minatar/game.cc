#include "apps/rl/envs/minatar/game.h"

#include <algorithm>
#include <numeric>

namespace rl::minatar {

void Plane::fill(int y0, int y1, int x0, int x1) {
  for (int y = y0; y < y1; ++y)
    for (int x = x0; x < x1; ++x) set(y, x);
}

int Plane::count() const {
  return std::accumulate(rows_.begin(), rows_.end(), 0,
                         [](int sum, std::uint16_t row) { return sum + std::popcount(row); });
}

int Plane::lowest_in_column(int x) const {
  for (int y = static_cast<int>(kBoard) - 1; y >= 0; --y)
    if (at(y, x)) return y;
  return -1;
}

void Plane::roll_down() { std::rotate(rows_.begin(), rows_.end() - 1, rows_.end()); }
void Plane::roll_up() { std::rotate(rows_.begin(), rows_.begin() + 1, rows_.end()); }

void Plane::shift(int columns) {
  for (std::uint16_t& row : rows_) row = static_cast<std::uint16_t>(columns > 0 ? row << columns : row >> -columns);
}

Plane Plane::both(const Plane& other) const {
  Plane out;
  for (std::size_t y = 0; y < kBoard; ++y) out.rows_[y] = rows_[y] & other.rows_[y];
  return out;
}

void Plane::remove(const Plane& other) {
  for (std::size_t y = 0; y < kBoard; ++y) rows_[y] &= static_cast<std::uint16_t>(~other.rows_[y]);
}

void Plane::show(std::span<std::uint8_t> board, std::size_t channels, std::size_t channel) const {
  for (std::size_t y = 0; y < kBoard; ++y)
    for (std::size_t x = 0; x < kBoard; ++x)
      board[(y * kBoard + x) * channels + channel] = static_cast<std::uint8_t>(rows_[y] >> x & 1u);
}

}  // namespace rl::minatar
