// Actors: objects with state that live in a process of the cluster and answer calls.
//
//   auto counter = actor<Counter>.options({.name = "hits", .max_restarts = 3}).remote(0);
//   ObjectRef<int> five = counter.call<&Counter::add>(5);    // ordered per caller
//   counter.cast<&Counter::add>(1);                          // no reply
//
// Any class can be an actor: no base, no macro. remote, call and cast do not wait for what they start, only while open
// calls take all the memory that they may (--troupe-call-memory); remote with get_if_exists asks the head. A scoped
// actor ends when its last handle is gone and its queued calls are done, and with its job. Thread rule: any thread of a
// driver or worker; the order of calls is per caller: one task, one actor, or one thread of the driver.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <troupe/detail/call.h>
#include <troupe/objects.h>
#include <troupe/task.h>

namespace troupe {

template <class A> class ActorHandle;

namespace detail {
template <class A> const HandlePtr& handle_of(const ActorHandle<A>& handle) noexcept;
template <class A> ActorHandle<A> make_handle(HandlePtr handle) noexcept;

HandlePtr create_actor(OutgoingCall construction, const ActorOptions* options, const char* pretty_class);
void submit_call(const HandlePtr& handle, OutgoingCall call, const CallOptions* options, ObjectPtr* returns);
StreamPtr submit_stream_call(const HandlePtr& handle, OutgoingCall call, const CallOptions* options);
void submit_cast(const HandlePtr& handle, OutgoingCall call, const CallOptions* options);
Result<HandlePtr> find_actor(const std::string& name, const NameOptions& options, const char* pretty_class);
void kill_actor(const HandlePtr& handle, const KillOptions& options);
void stop_actor(const HandlePtr& handle);
ObjectPtr monitor_actor(const HandlePtr& handle);
ObjectPtr actor_ready(const HandlePtr& handle);
std::string handle_id(const HandlePtr& handle);

template <class A> const char* pretty_class() { return __PRETTY_FUNCTION__; }

/// M is a method of A or of a base of A.
template <class A, auto M>
concept MethodOf = requires { typename SignatureOf<decltype(M)>::Class; } &&
                   std::derived_from<A, typename SignatureOf<decltype(M)>::Class>;

template <class A, auto M, class... X>
auto call_method(const HandlePtr& handle, const CallOptions* options, X&&... arguments) {
  using S = SignatureOf<decltype(M)>;
  using Remote = RemoteOf<typename S::Return>;
  OutgoingCall call;
  call.function = &MethodEntry<A, M>::node;
  prepare<S>(call, {nullptr, 0}, std::forward<X>(arguments)...);
  if constexpr (Returns<typename S::Return>::kStream) {
    return Remote(submit_stream_call(handle, std::move(call), options));
  } else {
    ObjectPtr returns[Returns<typename S::Return>::kCount + 1];
    submit_call(handle, std::move(call), options, returns);
    return refs_of(returns, static_cast<Remote*>(nullptr));
  }
}

template <class A, auto M, class... X>
void cast_method(const HandlePtr& handle, const CallOptions* options, X&&... arguments) {
  using S = SignatureOf<decltype(M)>;
  OutgoingCall call;
  call.function = &MethodEntry<A, M>::node;
  prepare<S>(call, {nullptr, 0}, std::forward<X>(arguments)...);
  call.returns = 0;
  submit_cast(handle, std::move(call), options);
}
}  // namespace detail

/// A handle with call options; made by ActorHandle::options.
template <class A>
class ActorCall {
 public:
  ActorCall(detail::HandlePtr handle, CallOptions options) : handle_(std::move(handle)), options_(std::move(options)) {}

  template <auto M, class... X>
    requires detail::MethodOf<A, M> && detail::RemoteSignature<detail::SignatureOf<decltype(M)>> &&
             detail::CallableWith<detail::SignatureOf<decltype(M)>, X...>
  auto call(X&&... arguments) const {
    return detail::call_method<A, M>(handle_, &options_, std::forward<X>(arguments)...);
  }
  template <auto M, class... X>
    requires detail::MethodOf<A, M> && detail::RemoteSignature<detail::SignatureOf<decltype(M)>> &&
             detail::CallableWith<detail::SignatureOf<decltype(M)>, X...>
  void cast(X&&... arguments) const {
    detail::cast_method<A, M>(handle_, &options_, std::forward<X>(arguments)...);
  }

 private:
  detail::HandlePtr handle_;
  CallOptions options_;
};

template <class A>
class ActorHandle {
 public:
  /// An empty handle: calls through it throw InvalidArgumentError.
  ActorHandle() = default;

  /// Calls a method; gives what task gives for the method's return type. Calls of one caller run in order.
  template <auto M, class... X>
    requires detail::MethodOf<A, M> && detail::RemoteSignature<detail::SignatureOf<decltype(M)>> &&
             detail::CallableWith<detail::SignatureOf<decltype(M)>, X...>
  auto call(X&&... arguments) const {
    return detail::call_method<A, M>(handle_, nullptr, std::forward<X>(arguments)...);
  }

  /// Calls without a reply; ordered with calls. Errors are logged where they happen.
  template <auto M, class... X>
    requires detail::MethodOf<A, M> && detail::RemoteSignature<detail::SignatureOf<decltype(M)>> &&
             detail::CallableWith<detail::SignatureOf<decltype(M)>, X...>
  void cast(X&&... arguments) const {
    detail::cast_method<A, M>(handle_, nullptr, std::forward<X>(arguments)...);
  }

  /// The same handle with options for the next call.
  ActorCall<A> options(CallOptions options) const { return ActorCall<A>(handle_, std::move(options)); }

  /// Ready when the actor is constructed; carries the constructor's error.
  ObjectRef<void> ready() const { return detail::make_ref<void>(detail::actor_ready(handle_)); }

  std::string id() const { return handle_ ? detail::handle_id(handle_) : std::string(); }
  explicit operator bool() const noexcept { return bool(handle_); }
  bool operator==(const ActorHandle& other) const { return id() == other.id(); }

 private:
  explicit ActorHandle(detail::HandlePtr handle) noexcept : handle_(std::move(handle)) {}
  friend const detail::HandlePtr& detail::handle_of<A>(const ActorHandle<A>&) noexcept;
  friend ActorHandle<A> detail::make_handle<A>(detail::HandlePtr) noexcept;

  detail::HandlePtr handle_;
};

namespace detail {
template <class A> const HandlePtr& handle_of(const ActorHandle<A>& handle) noexcept { return handle.handle_; }
template <class A> ActorHandle<A> make_handle(HandlePtr handle) noexcept { return ActorHandle<A>(std::move(handle)); }

/// In bytes: index among the value's handles, or kNoAttachment.
template <class A>
struct Attached<ActorHandle<A>> {
  static constexpr std::size_t kMinSize = sizeof(std::uint32_t);
  static void size(Sizer& ar, const ActorHandle<A>&) { ar.add(sizeof(std::uint32_t)); }
  static void write(Writer& ar, const ActorHandle<A>& handle) {
    std::uint32_t index = kNoAttachment;
    if (handle) {
      auto& handles = writable_attachments(ar).handles;
      index = std::uint32_t(handles.size());
      handles.push_back(handle_of(handle));
    }
    ar(index);
  }
  static void read(Reader& ar, ActorHandle<A>& handle) {
    std::uint32_t index = kNoAttachment;
    ar(index);
    if (index == kNoAttachment) { handle = {}; return; }
    const Attachments* attachments = ar.attachments();
    if (!attachments || index >= attachments->handles.size()) return ar.fail("an actor handle out of range");
    handle = make_handle<A>(attachments->handles[index]);
  }
};

/// The type an argument of a constructor is encoded as: refs by what they refer to, literals as strings.
template <class X> struct ConstructorArgument {
  using D = std::decay_t<X>;
  using Type = std::conditional_t<std::is_same_v<D, const char*> || std::is_same_v<D, char*>, std::string, D>;
};
template <class T> struct ConstructorArgument<ObjectRef<T>> { using Type = T; };
template <class X>
using Unwrapped = typename ConstructorArgument<std::conditional_t<kIsRef<X>, std::remove_cvref_t<X>, X>>::Type;
template <class X>
using AsGiven = std::conditional_t<kIsRef<X>, std::remove_cvref_t<X>, typename ConstructorArgument<X>::Type>;

template <class A, class... D>
inline constexpr bool kConstructible =
    (Serializable<D> && ...) && requires(D&&... value) { new A(std::move(value)...); };
template <class A, class... X>
concept ConstructibleFrom = kConstructible<A, Unwrapped<X>...> || kConstructible<A, AsGiven<X>...>;

template <class A, class... D, class... X> OutgoingCall construction(X&&... arguments) {
  using Entry = ConstructorEntry<A, D...>;
  OutgoingCall call;
  call.function = &Entry::node;
  prepare<typename Entry::S>(call, {nullptr, 0}, std::forward<X>(arguments)...);
  return call;
}
}  // namespace detail

/// An actor class with its options.
template <class A>
class ActorClass {
 public:
  ActorClass() = default;
  ActorClass options(ActorOptions options) const {
    ActorClass other;
    other.options_ = std::make_shared<const ActorOptions>(std::move(options));
    return other;
  }

  /// Creates an actor and returns at once; the constructor runs in the actor's process. Refs among the arguments are
  /// resolved first. Errors of placing and constructing come out of ready() and of every call.
  template <class... X>
    requires std::is_class_v<A> && detail::ConstructibleFrom<A, X...>
  ActorHandle<A> remote(X&&... arguments) const {
    detail::OutgoingCall call = [&] {
      if constexpr (detail::kConstructible<A, detail::Unwrapped<X>...>)
        return detail::construction<A, detail::Unwrapped<X>...>(std::forward<X>(arguments)...);
      else return detail::construction<A, detail::AsGiven<X>...>(std::forward<X>(arguments)...);
    }();
    return detail::make_handle<A>(detail::create_actor(std::move(call), options_.get(), detail::pretty_class<A>()));
  }

 private:
  std::shared_ptr<const ActorOptions> options_;
};

template <class A> inline const ActorClass<A> actor{};

/// Finds an actor by name, in the job's namespace unless told otherwise. Throws ActorNotFoundError, and
/// InvalidArgumentError when the actor of that name is of another class than A.
template <class A> ActorHandle<A> get_actor(const std::string& name, NameOptions options = {}) {
  return detail::make_handle<A>(*detail::find_actor(name, options, detail::pretty_class<A>()));
}
template <class A> Result<ActorHandle<A>> try_get_actor(const std::string& name, NameOptions options = {}) {
  auto found = detail::find_actor(name, options, detail::pretty_class<A>());
  if (!found.ok()) return found.error_ptr();
  return detail::make_handle<A>(*std::move(found));
}

/// Ends it at once; queued calls fail with ActorDiedError. With restart: a crash. GetTimeoutError: no word of the head.
template <class A>
void kill(const ActorHandle<A>& handle, KillOptions options = {}) {
  detail::kill_actor(detail::handle_of(handle), options);
}
/// Ends the actor when the calls made before are done; its destructor runs.
template <class A> void stop(const ActorHandle<A>& handle) { detail::stop_actor(detail::handle_of(handle)); }
/// Inside a method: the actor ends after this call has answered. Throws InvalidArgumentError outside of an actor.
void exit_actor();
/// Ready at the actor's final death, with how it came.
template <class A>
ObjectRef<ActorDeath> monitor(const ActorHandle<A>& handle) {
  return detail::make_ref<ActorDeath>(detail::monitor_actor(detail::handle_of(handle)));
}

}  // namespace troupe
