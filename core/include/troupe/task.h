// Tasks: functions that run somewhere in the cluster.
//
//   ObjectRef<int> three = task<&add>.remote(1, 2);
//   ObjectRef<int> ten = task<&add>.options({.resources = {.cpus = 2}}).remote(three, 7);
//   auto doubled = submit([factor](int x) { return x * factor; }, three);
//
// remote does not wait for the task: it waits only while open calls take all the memory that they may, or the store has
// no room for a large argument. Each argument is a value or a ref convertible to the parameter; a ref for a value
// parameter is resolved before the task runs. A wrong call does not compile. Thread rule: any thread of a driver or
// worker.
#pragma once
#include <memory>
#include <utility>

#include <troupe/detail/call.h>
#include <troupe/stream.h>

namespace troupe {

namespace detail {
/// Hands a task to the runtime: fills `returns` (call.returns refs), or gives the stream.
void submit_task(OutgoingCall call, const TaskOptions* options, ObjectPtr* returns);
StreamPtr submit_stream(OutgoingCall call, const TaskOptions* options);

template <class R> using RemoteOf = typename Returns<R>::Remote;

template <class... T> std::tuple<ObjectRef<T>...> refs_of(ObjectPtr* objects, std::tuple<ObjectRef<T>...>*) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<ObjectRef<T>...>{make_ref<T>(std::move(objects[I]))...};
  }(std::index_sequence_for<T...>{});
}
template <class T>
ObjectRef<T> refs_of(ObjectPtr* objects, ObjectRef<T>*) {
  return make_ref<T>(std::move(objects[0]));
}

template <class S> RemoteOf<typename S::Return> launch(OutgoingCall call, const TaskOptions* options) {
  using Remote = RemoteOf<typename S::Return>;
  if constexpr (Returns<typename S::Return>::kStream) {
    return Remote(submit_stream(std::move(call), options));
  } else {
    ObjectPtr returns[Returns<typename S::Return>::kCount + 1];
    submit_task(std::move(call), options, returns);
    return refs_of(returns, static_cast<Remote*>(nullptr));
  }
}
}  // namespace detail

/// A function with its options, ready to be called remotely, any number of times.
template <auto F>
class TaskFunction {
  using S = detail::SignatureOf<decltype(F)>;

 public:
  TaskFunction() = default;

  /// The same function with these options.
  TaskFunction options(TaskOptions options) const {
    TaskFunction other;
    other.options_ = std::make_shared<const TaskOptions>(std::move(options));
    return other;
  }

  /// Starts the task. Throws InvalidArgumentError for an empty ref in the place of a value, and SerializationError for
  /// a value that does not encode.
  template <class... A>
    requires detail::RemoteSignature<S> && detail::CallableWith<S, A...>
  detail::RemoteOf<typename S::Return> remote(A&&... arguments) const {
    detail::OutgoingCall call;
    call.function = &detail::FunctionEntry<F>::node;
    detail::prepare<S>(call, {nullptr, 0}, std::forward<A>(arguments)...);
    return detail::launch<S>(std::move(call), options_.get());
  }

 private:
  std::shared_ptr<const TaskOptions> options_;
};

template <auto F> inline const TaskFunction<F> task{};

/// A closure that its maker means to send although it captures what cannot be shown to be safe; made by shippable.
template <class L> struct Shippable : L {
  using L::operator();
};
/// Marks a closure as meant: its captures are valid in every process (a pointer to a constant of the program is not, by
/// itself: processes may have loaded it elsewhere).
template <class L> Shippable<std::remove_cvref_t<L>> shippable(L&& closure) { return {std::forward<L>(closure)}; }

namespace detail {
template <class L> inline constexpr bool kMeant = false;
template <class L> inline constexpr bool kMeant<Shippable<L>> = true;
/// No capture is a reference, nor a closure that captures one: such a class has no standard layout. A pointer, a
/// string_view or a span looks like any other capture of its size: a worker that crashes in such a closure says so.
template <class L> concept NoReferenceCaptured = kMeant<L> || std::is_empty_v<L> || std::is_standard_layout_v<L>;
/// A closure that may travel: one operator(), trivially copyable state without references.
template <class L> concept RemoteClosure =
    std::is_class_v<L> && std::is_trivially_copyable_v<L> && requires { &L::operator(); } &&
    RemoteSignature<SignatureOf<decltype(&L::operator())>> && NoReferenceCaptured<L>;

template <class L, class... A> auto submit_closure(const TaskOptions* options, const L& closure, A&&... arguments) {
  using Entry = ClosureEntry<L>;
  OutgoingCall call;
  call.function = &Entry::node;
  prepare<typename Entry::S>(call, {&closure, Entry::kSize}, std::forward<A>(arguments)...);
  return launch<typename Entry::S>(std::move(call), options);
}
}  // namespace detail

/// Runs a closure as a task: stateless or with trivially copyable state.
template <class L, class... A>
  requires detail::RemoteClosure<std::remove_cvref_t<L>> &&
           detail::CallableWith<detail::SignatureOf<decltype(&std::remove_cvref_t<L>::operator())>, A...>
auto submit(L&& closure, A&&... arguments) {
  return detail::submit_closure(nullptr, closure, std::forward<A>(arguments)...);
}
template <class L, class... A>
  requires detail::RemoteClosure<std::remove_cvref_t<L>> &&
           detail::CallableWith<detail::SignatureOf<decltype(&std::remove_cvref_t<L>::operator())>, A...>
auto submit(const TaskOptions& options, L&& closure, A&&... arguments) {
  return detail::submit_closure(&options, closure, std::forward<A>(arguments)...);
}

}  // namespace troupe
