// unique_function<R(Args...)>: a std::function that may hold move-only things. Empty by default; calling an empty one
// is a bug.
//
// What fits into three words and moves without throwing lies inside, without an allocation.
// Thread rule: as the function that it holds.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/check.h"

namespace troupe {

template <class Signature> class unique_function;

template <class R, class... Args>
class unique_function<R(Args...)> {
 public:
  unique_function() = default;
  unique_function(std::nullptr_t) {}
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, unique_function> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  unique_function(F&& f) {
    using Held = std::decay_t<F>;
    if constexpr (kInside<Held>) ::new (static_cast<void*>(space_)) Held(std::forward<F>(f));
    else ::new (static_cast<void*>(space_)) Held*(new Held(std::forward<F>(f)));
    table_ = &kTable<Held>;
  }
  unique_function(unique_function&& other) noexcept { take(other); }
  unique_function& operator=(unique_function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~unique_function() { reset(); }

  explicit operator bool() const noexcept { return table_ != nullptr; }
  R operator()(Args... args) {
    TROUPE_CHECK(table_ != nullptr, "called an empty function");
    return table_->call(space_, std::forward<Args>(args)...);
  }

 private:
  struct Table {
    R (*call)(void*, Args&&...);
    void (*move)(void* to, void* from) noexcept;  // and destroys what was moved from
    void (*destroy)(void*) noexcept;
  };
  static constexpr std::size_t kSpace = 3 * sizeof(void*);
  template <class F>
  static constexpr bool kInside =
      sizeof(F) <= kSpace && alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  template <class F> static F& held(void* space) {
    if constexpr (kInside<F>) return *std::launder(static_cast<F*>(space));
    else return **std::launder(static_cast<F**>(space));
  }
  template <class F>
  static constexpr Table kTable = {
      [](void* space, Args&&... args) -> R { return std::invoke(held<F>(space), std::forward<Args>(args)...); },
      [](void* to, void* from) noexcept {
        if constexpr (kInside<F>) {
          ::new (to) F(std::move(held<F>(from)));
          held<F>(from).~F();
        } else {
          ::new (to) F*(&held<F>(from));
        }
      },
      [](void* space) noexcept {
        if constexpr (kInside<F>) held<F>(space).~F();
        else delete &held<F>(space);
      }};

  void take(unique_function& other) noexcept {
    if (!other.table_) return;
    other.table_->move(space_, other.space_);
    table_ = std::exchange(other.table_, nullptr);
  }
  void reset() noexcept {
    if (table_) std::exchange(table_, nullptr)->destroy(space_);
  }

  alignas(void*) std::byte space_[kSpace];
  const Table* table_ = nullptr;
};

}  // namespace troupe
