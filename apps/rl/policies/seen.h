// Seen: what a policy chooses for: observations, and what their environments allow.
//
// A plain value; the memory is the caller's.
#pragma once

#include <cstdint>
#include <span>

#include "apps/rl/spaces/rows.h"

namespace rl {

struct Seen {
  /// By itself observations, where every choice is allowed.
  Seen(ConstRows all, std::span<const std::uint8_t> allowed = {}) : obs(all), mask(allowed) {}
  Seen(Rows all, std::span<const std::uint8_t> allowed = {}) : Seen(ConstRows(all), allowed) {}

  ConstRows obs;
  std::span<const std::uint8_t> mask;  // [rows][choices_of(action space)], 1: allowed; empty: all are
};

}  // namespace rl
