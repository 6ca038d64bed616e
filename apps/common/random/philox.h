// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): four random words from a
// counter and a key, without a state. Streams that are told apart by their counters never meet.
//
// Pure; any thread.
//
// PHX-1  The words are Random123's.
#pragma once

#include <array>
#include <cstdint>

namespace apps {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

[[nodiscard]] PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

}  // namespace apps
