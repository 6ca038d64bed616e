// Script: what one thread of a simulated process does, as a coroutine that stops between any two steps. Its process may
// die there: the script is destroyed where it stands.
//
//   co_await kStep           others may do something now
//   co_await blocked(flag)   until somebody sets the flag and wakes it
//
// Thread rule: one thread.
#pragma once
#include <coroutine>
#include <exception>
#include <utility>

namespace troupe::sim {

class Script {
 public:
  struct promise_type {
    bool* waits_for = nullptr;  ///< blocked until this is true
    Script get_return_object() { return Script(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  /// Goes on at once when the flag is set already.
  struct Blocked {
    bool* flag;
    bool await_ready() const { return *flag; }
    void await_suspend(std::coroutine_handle<promise_type> handle) { handle.promise().waits_for = flag; }
    void await_resume() const {}
  };

  Script(Script&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Script& operator=(Script&&) = delete;
  ~Script() {
    if (handle_) handle_.destroy();
  }
  /// The next step. False: that was the last one.
  bool resume() {
    handle_.promise().waits_for = nullptr;
    handle_.resume();
    return !handle_.done();
  }
  bool blocked() const { return handle_.promise().waits_for && !*handle_.promise().waits_for; }

 private:
  explicit Script(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

inline constexpr std::suspend_always kStep{};
inline Script::Blocked blocked(bool& flag) { return {&flag}; }

}  // namespace troupe::sim
