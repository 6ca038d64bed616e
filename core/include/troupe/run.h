// run: the door of every Troupe program. Make it the first statement of main.
//
//   int main(int argc, char** argv) { return troupe::run(argc, argv, &driver); }
//
// The same executable is driver and worker: run decides from its environment which of them this process is, and only in
// the driver does it return. The driver takes nothing or std::span<char* const> and returns int or void.
#pragma once
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include <troupe/options.h>

namespace troupe {

namespace detail {
int run_program(int argc, char** argv, const RunOptions& options,
                const std::function<int(std::span<char* const>)>& driver);

template <class Driver> int call_driver(Driver& driver, std::span<char* const> arguments) {
  if constexpr (std::is_invocable_v<Driver&, std::span<char* const>>) {
    if constexpr (std::is_void_v<std::invoke_result_t<Driver&, std::span<char* const>>>) {
      driver(arguments);
      return 0;
    } else return driver(arguments);
  } else {
    if constexpr (std::is_void_v<std::invoke_result_t<Driver&>>) { driver(); return 0; }
    else return driver();
  }
}
}  // namespace detail

/// Runs the driver in a cluster: the one of RunOptions::address (or TROUPE_ADDRESS, or --troupe-address), else an
/// embedded one-node cluster of its own. Returns the driver's value; 1 after an exception left it; 128 + signal after
/// SIGINT or SIGTERM.
template <class Driver> int run(int argc, char** argv, RunOptions options, Driver&& driver) {
  return detail::run_program(argc, argv, options,
                             [&](std::span<char* const> arguments) { return detail::call_driver(driver, arguments); });
}
template <class Driver>
  requires(std::is_invocable_v<std::remove_reference_t<Driver>&> ||
           std::is_invocable_v<std::remove_reference_t<Driver>&, std::span<char* const>>)
int run(int argc, char** argv, Driver&& driver) {
  return run(argc, argv, RunOptions{}, std::forward<Driver>(driver));
}

}  // namespace troupe
