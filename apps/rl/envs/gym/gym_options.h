// How an environment of Gymnasium is run: the settings of "gym:" (gym_env.h).
#pragma once

#include <chrono>
#include <string>

#include "apps/rl/envs/gym/restart_counter.h"

namespace rl {

struct GymOptions {
  std::string python = "python3";  // a path, or a name on PATH
  std::string gym_import = {};     // "MODULE[:CALL]": imported first, then CALL() or gymnasium.register_envs(MODULE)
  bool working_folder = false;     // modules there can be imported: for names that the user typed, no file (NPG-1)
  std::chrono::milliseconds start_deadline{60'000};  // of the process until its hello, and of a reset
  std::chrono::milliseconds step_deadline{30'000};   // of a step of all environments in the process
  std::chrono::milliseconds grace{1'000};            // to end by itself, and again between TERM and KILL
  RestartLimit restarts{};                           // of the process; beyond: a typed error
  std::chrono::milliseconds back_off{100};           // before the second restart in a row; doubles with each
  std::chrono::milliseconds back_off_most{5'000};
};

}  // namespace rl
