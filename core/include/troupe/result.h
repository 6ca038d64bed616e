// Result<T>: a value or an error, and Status = Result<void>. The one currency for failure inside the runtime.
//
// Both are [[nodiscard]]. An error is held by a shared pointer to const, so copying a failed Result is cheap and the
// error keeps its real type: dynamic_cast on error() finds it. A Result that holds neither cannot be made.
#pragma once
#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <troupe/error.h>

namespace troupe {

using ErrorPtr = std::shared_ptr<const Error>;

/// Makes a shared error of class E, e.g. make_error<NotFoundError>("no such actor").
template <std::derived_from<Error> E, class... Args>
ErrorPtr make_error(Args&&... args) { return std::make_shared<const E>(std::forward<Args>(args)...); }

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(const T& value) : value_(value) {}
  Result(T&& value) : value_(std::move(value)) {}
  template <class U>
    requires(std::convertible_to<U, T> && !std::derived_from<std::remove_cvref_t<U>, Error> &&
             !std::same_as<std::remove_cvref_t<U>, Result> && !std::same_as<std::remove_cvref_t<U>, ErrorPtr>)
  Result(U&& value) : value_(std::forward<U>(value)) {}
  template <std::derived_from<Error> E>
  Result(const E& error) : error_(std::make_shared<const E>(error)) {}
  /// A null error would be a Result that holds neither: it becomes an Error that says so.
  Result(ErrorPtr error) : error_(error ? std::move(error) : make_error<Error>("an error that nobody described")) {}

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }

  /// The value; throws the error, with its real type, when there is none.
  const T& value() const& { check(); return *value_; }
  T& value() & { check(); return *value_; }
  T&& value() && { check(); return std::move(*value_); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }
  template <class U> T value_or(U&& other) const& { return ok() ? *value_ : static_cast<T>(std::forward<U>(other)); }
  template <class U>
  T value_or(U&& other) && {
    return ok() ? std::move(*value_) : static_cast<T>(std::forward<U>(other));
  }

  /// The error, of its real type. Only when !ok().
  const Error& error() const { return *error_; }
  const ErrorPtr& error_ptr() const noexcept { return error_; }

 private:
  void check() const { if (!value_) error_->raise(); }

  std::optional<T> value_;
  ErrorPtr error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  template <std::derived_from<Error> E>
  Result(const E& error) : error_(std::make_shared<const E>(error)) {}
  Result(ErrorPtr error) : error_(std::move(error)) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  void value() const { if (error_) error_->raise(); }
  void operator*() const { value(); }
  const Error& error() const { return *error_; }
  const ErrorPtr& error_ptr() const noexcept { return error_; }

 private:
  ErrorPtr error_;
};

using Status = Result<void>;

}  // namespace troupe
