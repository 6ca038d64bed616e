// Generators: a coroutine that co_yields items one by one.
//
//   troupe::Generator<int> count(int n) { for (int i = 0; i < n; ++i) co_yield i; }
//
// As the result of a task or a method it becomes a RefStream on the caller's side: items can be read before the task
// ends, and the producer runs only a bounded number of items ahead. A generator may also be used by hand with next().
#pragma once
#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace troupe {

template <class T>
class [[nodiscard]] Generator {
 public:
  struct promise_type {
    Generator get_return_object() { return Generator(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    template <class U>
      requires std::convertible_to<U, T>
    std::suspend_always yield_value(U&& item) {
      item_.emplace(std::forward<U>(item));
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() { error_ = std::current_exception(); }
    // a generator waits with get, wait and sleep_for
    template <class Awaitable> void await_transform(Awaitable&&) = delete;

    std::optional<T> item_;
    std::exception_ptr error_;
  };
  using value_type = T;

  Generator(Generator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Generator& operator=(Generator&& other) noexcept {
    if (this != &other) {
      if (coroutine_) coroutine_.destroy();
      coroutine_ = std::exchange(other.coroutine_, {});
    }
    return *this;
  }
  ~Generator() { if (coroutine_) coroutine_.destroy(); }

  /// Runs to the next item. Null at the end; rethrows what the body threw. The item is valid until the next call.
  T* next() {
    if (!coroutine_ || coroutine_.done()) return nullptr;
    coroutine_.promise().item_.reset();
    coroutine_.resume();
    if (auto error = std::exchange(coroutine_.promise().error_, nullptr)) std::rethrow_exception(error);
    return coroutine_.done() ? nullptr : &*coroutine_.promise().item_;
  }

 private:
  explicit Generator(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace troupe
