// option-prices: European calls and puts in the model of Black and Scholes (1973), priced by Monte Carlo: a row is one
// option, with what it depends on, its simulated price, that price's standard error, and the exact price beside it.
//
//   spot, strike, rate, volatility, maturity   drawn from ranges; float64
//   call                                       or a put: bool
//   price, standard_error                      of `paths` draws of the final value
//   exact                                      the closed form
//
// OPT-1  price differs from exact by sampling alone: over many rows the error is about one standard error.
// OPT-2  With antithetic paths a draw and its mirror image are one sample: the standard error is that of their means.
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind option_prices();

struct EuropeanOption {
  double spot = 100, strike = 100, rate = 0, volatility = 0.2, maturity = 1;
  bool call = true;
};
/// The closed form.
[[nodiscard]] double black_scholes(const EuropeanOption& option);

}  // namespace datagen
