// Mixture: which part of the episodes is played how.
//
//   "expert"                       all by the policy's best action
//   "expert=3,epsilon=1"           three of four so, the fourth with a random action now and then
//
// Plain value; any thread.
//
// MIX-1  How an episode is played is a function of the mixture and of one number in [0, 1) that is the episode's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

namespace datagen {

enum class Behaviour : std::uint8_t {
  kExpert,   ///< the best action of the policy
  kMedium,   ///< the best action of the second policy
  kSample,   ///< drawn as the policy says
  kEpsilon,  ///< the best action, with probability epsilon any
  kRandom,   ///< any action
};
[[nodiscard]] std::string_view name_of(Behaviour behaviour);

class Mixture {
 public:
  /// InvalidArgumentError for an unknown name (with the nearest), a share that is not above 0, a name twice.
  [[nodiscard]] static troupe::Result<Mixture> parse(std::string_view text);

  /// `draw` in [0, 1).
  [[nodiscard]] Behaviour at(double draw) const;
  [[nodiscard]] bool has(Behaviour behaviour) const;

 private:
  struct Part {
    Behaviour behaviour;
    double end;  // of its share of [0, 1)
  };
  std::vector<Part> parts_;
};

}  // namespace datagen
