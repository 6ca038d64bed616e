// put, get, wait, cancel, on_ready: reading and waiting for objects.
//
// All of them may be called from any thread of a driver or worker; in an actor with fibers they suspend the fiber, in a
// task its thread, whose CPUs are given to other tasks meanwhile; when its wait is over it goes on at once, also if
// they all run, and new tasks begin only when there are CPUs again. What would wait there throws CancelledError in
// a task or call that is being cancelled.
#pragma once
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/detail/invocation.h>
#include <troupe/object_ref.h>
#include <troupe/options.h>

namespace troupe {

namespace detail {
ObjectPtr put_value(Value value, const PutOptions& options);
/// Waits until all of them, or all before the first that failed, are ready with their buffers here. Throws
/// GetTimeoutError, CancelledError, InvalidArgumentError, and what keeps a buffer from coming here (ObjectLostError,
/// ObjectStoreFullError and others).
void await_all(const ObjectPtr* const* objects, std::size_t count, Duration timeout);
/// The value of a ready object, or its error.
const Value* value_of(const ObjectBase& object) noexcept;
ErrorPtr error_of(const ObjectBase& object);
/// Indices of the ready ones in order, at most options.num_returns of them.
std::vector<std::uint32_t> wait_for(const ObjectPtr* const* objects, std::size_t count, const WaitOptions& options);
void cancel_object(const ObjectPtr& object, const CancelOptions& options);
/// `callback` gets the error of a value whose memory could not be brought here; null: read_value may be called.
void call_when_ready(const ObjectPtr& object, std::function<void(const ErrorPtr&)> callback);

template <class T> T read_value(const ObjectBase& object) {
  const Value* value = value_of(object);
  if (!value) error_of(object)->raise();
  if constexpr (!std::is_void_v<T>) return decode_value<T>(*value);
}

template <class T> T get_object(const ObjectPtr& object, Duration timeout) {
  const ObjectPtr* one = &object;
  await_all(&one, 1, timeout);
  return read_value<T>(*object);
}

/// Runs a reading function and makes its exception a value: the one place where try_get catches.
template <class T, class F> Result<T> capture(F&& read) {
  try {
    if constexpr (std::is_void_v<T>) { read(); return {}; }
    else return Result<T>(read());
  } catch (const Error& error) {
    return Error::make(error.record());
  }
}
}  // namespace detail

/// Stores a value and gives a ref to it; this process owns it.
template <class T>
  requires Serializable<std::remove_cvref_t<T>>
ObjectRef<std::remove_cvref_t<T>> put(T&& value, PutOptions options = {}) {
  return detail::make_ref<std::remove_cvref_t<T>>(
      detail::put_value(detail::encode_value(static_cast<const std::remove_cvref_t<T>&>(value)), options));
}

/// Waits for the object and gives its value; throws its error with its real type. Arrays are not copied.
template <class T>
T get(const ObjectRef<T>& ref, GetOptions options = {}) {
  return detail::get_object<T>(detail::pointer_of(ref), options.timeout);
}

/// All values, in order; one deadline for all. The first error in the order given is thrown when all before it are
/// ready, whatever is behind it.
template <class T>
  requires(!std::is_void_v<T>)
std::vector<T> get(const std::vector<ObjectRef<T>>& refs, GetOptions options = {}) {
  std::vector<const detail::ObjectPtr*> objects;
  objects.reserve(refs.size());
  for (auto& ref : refs) objects.push_back(&detail::pointer_of(ref));
  detail::await_all(objects.data(), objects.size(), options.timeout);
  std::vector<T> values;
  values.reserve(refs.size());
  for (auto* object : objects) values.push_back(detail::read_value<T>(**object));
  return values;
}
void get(const std::vector<ObjectRef<void>>& refs, GetOptions options = {});

/// As get, with the error as a value: also a timeout.
template <class T> Result<T> try_get(const ObjectRef<T>& ref, GetOptions options = {}) {
  return detail::capture<T>([&] { return get(ref, options); });
}

/// What wait found, each part in the order given.
template <class T> struct WaitResult { std::vector<ObjectRef<T>> ready, pending; };
template <> struct WaitResult<AnyRef> { std::vector<AnyRef> ready, pending; };

namespace detail {
template <class Ref> struct RefTraits;
template <class T> struct RefTraits<ObjectRef<T>> {
  using Out = WaitResult<T>;
  static const ObjectPtr& pointer(const ObjectRef<T>& ref) { return pointer_of(ref); }
};
template <> struct RefTraits<AnyRef> {
  using Out = WaitResult<AnyRef>;
  static const ObjectPtr& pointer(const AnyRef& ref) { return ref.pointer(); }
};

template <class Ref, class Vector> typename RefTraits<Ref>::Out wait_in(Vector&& refs, const WaitOptions& options) {
  std::vector<const ObjectPtr*> objects;
  objects.reserve(refs.size());
  for (auto& ref : refs) objects.push_back(&RefTraits<Ref>::pointer(ref));
  std::vector<std::uint32_t> ready = wait_for(objects.data(), objects.size(), options);
  typename RefTraits<Ref>::Out out;
  out.ready.reserve(ready.size());
  if constexpr (std::is_rvalue_reference_v<Vector&&>) {  // the caller's list becomes the pending one, without copies
    std::size_t kept = 0, next = 0;
    for (std::size_t i = 0; i < refs.size(); ++i) {
      if (next < ready.size() && ready[next] == i) { out.ready.push_back(std::move(refs[i])); ++next; }
      else { if (kept != i) refs[kept] = std::move(refs[i]); ++kept; }
    }
    refs.resize(kept);
    out.pending = std::move(refs);
  } else {
    out.pending.reserve(refs.size() - ready.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < refs.size(); ++i) {
      if (next < ready.size() && ready[next] == i) { out.ready.push_back(refs[i]); ++next; }
      else out.pending.push_back(refs[i]);
    }
  }
  return out;
}
}  // namespace detail

/// Splits refs into ready and pending: returns when num_returns are ready or the timeout has passed, which is no error.
/// Failed objects count as ready. A duplicate, an empty list, num_returns of 0 or above the size: InvalidArgumentError.
template <class T>
WaitResult<T> wait(const std::vector<ObjectRef<T>>& refs, WaitOptions options = {}) {
  return detail::wait_in<ObjectRef<T>>(refs, options);
}
template <class T>
WaitResult<T> wait(std::vector<ObjectRef<T>>&& refs, WaitOptions options = {}) {
  return detail::wait_in<ObjectRef<T>>(std::move(refs), options);
}
WaitResult<AnyRef> wait(const std::vector<AnyRef>& refs, WaitOptions options = {});
WaitResult<AnyRef> wait(std::vector<AnyRef>&& refs, WaitOptions options = {});

/// Cancels the task or call that makes this object; one that is done keeps its value.
template <class T>
void cancel(const ObjectRef<T>& ref, CancelOptions options = {}) {
  detail::cancel_object(detail::pointer_of(ref), options);
}

/// Calls back with the value or the error, on the runtime's own thread: the callback must not block.
template <class T, class Callback>
  requires std::invocable<Callback, Result<T>&&>
void on_ready(const ObjectRef<T>& ref, Callback callback) {
  detail::ObjectPtr object = detail::pointer_of(ref);
  auto shared = std::make_shared<Callback>(std::move(callback));
  detail::call_when_ready(object, [object, shared](const ErrorPtr& lost) {
    (*shared)(detail::capture<T>([&] {
      if (lost) lost->raise();
      return detail::read_value<T>(*object);
    }));
  });
}

}  // namespace troupe
