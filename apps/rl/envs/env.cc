#include "apps/rl/envs/env.h"

#include <array>

#include "apps/rl/envs/acrobot.h"
#include "apps/rl/envs/cartpole.h"
#include "apps/rl/envs/mountain_car.h"
#include "apps/rl/envs/mountain_car_continuous.h"
#include "apps/rl/envs/pendulum.h"

namespace rl {
namespace {

struct Entry {
  const EnvSpec* spec;
  std::unique_ptr<Env> (*make)();
};

template <class E>
std::unique_ptr<Env> make() {
  return std::make_unique<E>();
}

constexpr std::array<Entry, 5> kEntries{{{&CartPole::kSpec, &make<CartPole>},
                                         {&Acrobot::kSpec, &make<Acrobot>},
                                         {&MountainCar::kSpec, &make<MountainCar>},
                                         {&MountainCarContinuous::kSpec, &make<MountainCarContinuous>},
                                         {&Pendulum::kSpec, &make<Pendulum>}}};

}  // namespace

troupe::Result<std::unique_ptr<Env>> make_env(std::string_view id) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.spec->id == id) return entry.make();
    known += known.empty() ? "" : ", ";
    known += entry.spec->id;
  }
  return troupe::InvalidArgumentError("no environment \"" + std::string(id) + "\"; there are " + known);
}

std::vector<std::string_view> env_ids() {
  std::vector<std::string_view> ids;
  for (const Entry& entry : kEntries) ids.push_back(entry.spec->id);
  return ids;
}

}  // namespace rl
