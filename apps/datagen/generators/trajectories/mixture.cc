#include "apps/datagen/generators/trajectories/mixture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"

namespace datagen {
namespace {

constexpr std::array<std::string_view, 5> kBehaviours{"expert", "medium", "sample", "epsilon", "random"};

/// The parts between commas.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::string_view name_of(Behaviour behaviour) { return kBehaviours.at(static_cast<std::size_t>(behaviour)); }

troupe::Result<Mixture> Mixture::parse(std::string_view text) {
  Mixture out;
  double sum = 0;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto known = std::ranges::find(kBehaviours, name);
    if (known == kBehaviours.end()) {
      const std::vector<std::string> names(kBehaviours.begin(), kBehaviours.end());
      return troupe::InvalidArgumentError(fmt::format("mixture: nobody plays '{}'; did you mean '{}'? There are {}",
                                                      name, apps::nearest_name(name, names), fmt::join(names, ", ")));
    }
    const auto behaviour = static_cast<Behaviour>(known - kBehaviours.begin());
    if (out.has(behaviour)) return troupe::InvalidArgumentError(fmt::format("mixture: '{}' is in it twice", name));
    double share = 1;
    if (equals != part.npos) {
      const std::string number = part.substr(equals + 1);
      char* end = nullptr;
      share = std::strtod(number.c_str(), &end);
      if (number.empty() || *end != 0 || !(share > 0) || !std::isfinite(share))
        return troupe::InvalidArgumentError(
            fmt::format("mixture: the share of '{}' is a number above 0, not '{}'", name, number));
    }
    out.parts_.push_back({behaviour, sum += share});
  }
  for (Part& part : out.parts_) part.end /= sum;
  return out;
}

Behaviour Mixture::at(double draw) const {
  for (const Part& part : parts_)
    if (draw < part.end) return part.behaviour;
  return parts_.back().behaviour;
}

bool Mixture::has(Behaviour behaviour) const {
  return std::ranges::any_of(parts_, [&](const Part& part) { return part.behaviour == behaviour; });
}

}  // namespace datagen
