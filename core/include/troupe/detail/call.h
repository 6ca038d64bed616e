// From C++ calls to encoded ones and back: signatures, argument checking, and one thunk for each remote function.
//
// Arguments in bytes, for each parameter: a tag, then
//   kInline     the value, encoded as the decayed parameter type
//   kDependency the index of a dependency whose value has the parameter's own type
//   kConverted  the same with another type: index, then the registry index of a converter
// A closure's bytes stand before its arguments.
#pragma once
#include <concepts>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <troupe/detail/invocation.h>
#include <troupe/detail/registry.h>
#include <troupe/object_ref.h>
#include <troupe/options.h>

namespace troupe {
template <class T> class RefStream;
}

namespace troupe::detail {

// ---------------------------------------------------------------------------------------------------------- signatures

template <class R, class... P> struct Signature {
  using Return = R;
  using Parameters = std::tuple<P...>;
  using Decayed = std::tuple<std::remove_cvref_t<P>...>;
  static constexpr std::size_t kArity = sizeof...(P);
};

template <class F> struct SignatureOf;
template <class R, class... P> struct SignatureOf<R (*)(P...)> : Signature<R, P...> {};
template <class R, class... P> struct SignatureOf<R (*)(P...) noexcept> : Signature<R, P...> {};
template <class C, class R, class... P> struct SignatureOf<R (C::*)(P...)> : Signature<R, P...> { using Class = C; };
template <class C, class R, class... P>
struct SignatureOf<R (C::*)(P...) const> : Signature<R, P...> {
  using Class = C;
};
template <class C, class R, class... P>
struct SignatureOf<R (C::*)(P...) noexcept> : Signature<R, P...> {
  using Class = C;
};
template <class C, class R, class... P>
struct SignatureOf<R (C::*)(P...) const noexcept> : Signature<R, P...> {
  using Class = C;
};
template <class C, class R, class... P> struct SignatureOf<R (C::*)(P...) &> : Signature<R, P...> { using Class = C; };
template <class C, class R, class... P>
struct SignatureOf<R (C::*)(P...) const&> : Signature<R, P...> {
  using Class = C;
};

// -------------------------------------------------------------------------------------------------------- return types

template <class R> struct ReturnTraits {                       // a plain value
  using Remote = ObjectRef<R>;
  static constexpr std::uint32_t kCount = 1;
  static constexpr bool kStream = false, kValid = Serializable<R>;
};
template <> struct ReturnTraits<void> {
  using Remote = ObjectRef<void>;
  static constexpr std::uint32_t kCount = 1;
  static constexpr bool kStream = false, kValid = true;
};
template <class... T> struct ReturnTraits<std::tuple<T...>> {
  using Remote = std::tuple<ObjectRef<T>...>;
  static constexpr std::uint32_t kCount = sizeof...(T);
  static constexpr bool kStream = false, kValid = (Serializable<T> && ...);
};
template <class T> struct ReturnTraits<Generator<T>> {
  using Remote = RefStream<T>;
  static constexpr std::uint32_t kCount = 0;
  static constexpr bool kStream = true, kValid = Serializable<T>;
};
template <class T> struct ReturnTraits<Result<T>> : ReturnTraits<T> {};
template <class R> using Returns = ReturnTraits<std::remove_cvref_t<R>>;

// ----------------------------------------------------------------------------------------------------------- arguments

/// A ref given for a value parameter: resolved before the call.
template <class A, class P>
inline constexpr bool kIsDependency = kIsRef<A> && !std::convertible_to<A, std::remove_cvref_t<P>>;

template <class A, class P> consteval bool accepts() {
  using To = std::remove_cvref_t<P>;
  if constexpr (kIsDependency<A, P>) {
    using From = typename IsRef<std::remove_cvref_t<A>>::Value;
    if constexpr (std::is_void_v<From>) return false;
    else return std::convertible_to<From, To>;
  } else {
    return std::convertible_to<A, To>;
  }
}

template <class List, class... A> struct AcceptsAll : std::false_type {};
template <class... P, class... A>
  requires(sizeof...(P) == sizeof...(A))
struct AcceptsAll<std::tuple<P...>, A...> : std::bool_constant<(accepts<A, P>() && ...)> {};

template <class List> struct AllSerializable;
template <class... P>
struct AllSerializable<std::tuple<P...>> : std::bool_constant<(Serializable<std::remove_cvref_t<P>> && ...)> {};

/// The function's parameters and result can travel.
template <class S>
concept RemoteSignature = AllSerializable<typename S::Parameters>::value && Returns<typename S::Return>::kValid;
/// These arguments, values or refs, fit the parameters.
template <class S, class... A> concept CallableWith = AcceptsAll<typename S::Parameters, A...>::value;

enum class ArgumentTag : std::uint8_t { kInline = 0, kDependency = 1, kConverted = 2 };

/// Reads a dependency of type From and converts it: registered like a function, so that the executing side finds it.
template <class From, class To> struct Converter {
  static void convert(Invocation& in) {
    To value = decode_value<From>(*in.dependencies[0]);
    *static_cast<To*>(in.instance) = std::move(value);
  }
  static const char* pretty() { return __PRETTY_FUNCTION__; }  // at class scope the macro has no name
  static inline FunctionNode node{FunctionKind::kConverter, &convert, pretty()};
};

/// A call on its way out: what the templates collect and the runtime sends.
struct OutgoingCall {
  const FunctionNode* function = nullptr;
  Value arguments;
  std::vector<ObjectPtr> dependencies;
  std::uint32_t returns = 1;
  bool stream = false;
};

/// A C array or literal travels as a string; everything else as the decayed parameter type.
template <class P, class A> decltype(auto) as_parameter(A&& argument) {
  using To = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<std::remove_cvref_t<A>, To>) return static_cast<const To&>(argument);
  else return static_cast<To>(std::forward<A>(argument));
}

[[noreturn]] void throw_empty_ref();

/// What one argument adds to the body, as an item that both archives understand.
template <class P, class A> struct EncodedArgument {
  const A& argument;  // already as_parameter'd, or a ref
  std::uint32_t dependency;

  template <class Archive> void operator()(Archive& ar) const {
    if constexpr (kIsDependency<A, P>) {
      using From = typename IsRef<std::remove_cvref_t<A>>::Value;
      if constexpr (std::is_same_v<From, std::remove_cvref_t<P>>)
        ar(std::uint8_t(ArgumentTag::kDependency), dependency);
      else ar(std::uint8_t(ArgumentTag::kConverted), dependency, Converter<From, std::remove_cvref_t<P>>::node.index);
    } else {
      ar(std::uint8_t(ArgumentTag::kInline), argument);
    }
  }
};

template <class P, class A> void collect(OutgoingCall& call, const A& argument, std::uint32_t& index) {
  if constexpr (kIsDependency<A, P>) {
    if (!argument) throw_empty_ref();
    index = std::uint32_t(call.dependencies.size());
    call.dependencies.push_back(pointer_of(argument));
  }
}

/// Bytes of a trivially copyable closure.
struct RawBytes {
  const void* data;
  std::size_t size;
};

template <class... P, class... A, std::size_t... I>
void encode_arguments(OutgoingCall& call, RawBytes prefix, std::tuple<P...>*, std::index_sequence<I...>,
                      const A&... arguments) {
  [[maybe_unused]] std::uint32_t indices[sizeof...(P) + 1] = {};
  (collect<P>(call, arguments, indices[I]), ...);
  Sizer sizer;
  sizer.add(prefix.size);
  (EncodedArgument<P, A>{arguments, indices[I]}(sizer), ...);
  Attachments attachments;
  std::byte* at = open_value(call.arguments, sizer.size());
  if (prefix.size) std::memcpy(at, prefix.data, prefix.size);
  Writer writer({at + prefix.size, sizer.size() - prefix.size}, &attachments);
  (EncodedArgument<P, A>{arguments, indices[I]}(writer), ...);
  writer.finish();
  if (!attachments.empty()) call.arguments.attachments = std::make_unique<Attachments>(std::move(attachments));
  seal_value(call.arguments);
}

/// Checks, converts and encodes the arguments of one call.
template <class S, class... A> void prepare(OutgoingCall& call, RawBytes prefix, A&&... arguments) {
  using Parameters = typename S::Parameters;
  call.returns = Returns<typename S::Return>::kCount;
  call.stream = Returns<typename S::Return>::kStream;
  [&]<std::size_t... I>(std::index_sequence<I...> all) {
    [[maybe_unused]] auto encode = [&](const auto&... converted) {
      encode_arguments(call, prefix, static_cast<Parameters*>(nullptr), all, converted...);
    };
    [[maybe_unused]] auto one = []<class P, class X>(std::type_identity<P>, X&& x) -> decltype(auto) {
      if constexpr (kIsDependency<X, P>) return static_cast<const std::remove_cvref_t<X>&>(x);
      else return as_parameter<P>(std::forward<X>(x));
    };
    encode(one(std::type_identity<std::tuple_element_t<I, Parameters>>{}, std::forward<A>(arguments))...);
  }(std::make_index_sequence<S::kArity>{});
}

template <class T> void decode_argument(Reader& ar, Invocation& in, T& out) {
  std::uint8_t tag = 0;
  ar(tag);
  if (tag == std::uint8_t(ArgumentTag::kInline)) return ar(out);
  std::uint32_t index = 0;
  ar(index);
  if (ar.failed() || tag > std::uint8_t(ArgumentTag::kConverted) || index >= in.dependencies.size())
    return ar.fail("a bad argument tag");
  if (tag == std::uint8_t(ArgumentTag::kDependency)) { out = decode_value<T>(*in.dependencies[index]); return; }
  std::uint32_t converter = 0;
  ar(converter);
  const FunctionNode* node = function_at(converter);
  if (!node || node->kind != FunctionKind::kConverter) return ar.fail("an unknown argument conversion");
  Invocation inner;
  inner.dependencies = in.dependencies.subspan(index, 1);
  inner.instance = &out;
  node->invoke(inner);
}

template <class... D> std::tuple<D...> decode_arguments(Invocation& in, std::size_t skip, std::tuple<D...>*) {
  Reader reader(in.body.subspan(skip), const_cast<Attachments*>(in.attachments));
  std::tuple<D...> values;
  std::apply([&](D&... value) { (decode_argument(reader, in, value), ...); }, values);
  reader.finish("the arguments of the call").value();
  return values;
}

// ------------------------------------------------------------------------------------------------------------- results

template <class R> void store_result(Invocation& in, R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (requires { typename T::promise_type; typename T::value_type; }) {
    in.generator = std::make_unique<GeneratorOf<typename T::value_type>>(std::move(result));
  } else if constexpr (requires { result.error_ptr(); result.ok(); }) {
    if (!result.ok()) in.error = result.error_ptr();
    else if constexpr (!std::is_void_v<typename T::value_type>) store_result(in, *std::move(result));
  } else if constexpr (requires { std::tuple_size<T>::value; } && Returns<T>::kCount != 1) {
    std::apply([&](const auto&... item) { (in.results.push_back(encode_value(item)), ...); }, result);
  } else if constexpr (requires(T& t) { []<class... E>(std::tuple<E...>&) {}(t); }) {
    std::apply([&](const auto&... item) { (in.results.push_back(encode_value(item)), ...); }, result);
  } else {
    in.results.push_back(encode_value(result));
  }
}

/// Calls `function` with `values`, moved where the parameter takes them by value or by &&.
template <class S, class Function>
void invoke_with(Invocation& in, typename S::Decayed& values, Function&& function) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    auto call = [&]() -> decltype(auto) {
      return function(static_cast<std::tuple_element_t<I, typename S::Parameters>&&>(std::get<I>(values))...);
    };
    if constexpr (std::is_void_v<typename S::Return>) call();
    else store_result(in, call());
  }(std::make_index_sequence<S::kArity>{});
}

/// Calls `function` with the decoded arguments. A generator reads those that it takes by reference as long as it runs.
template <class S, class Function> void invoke_decoded(Invocation& in, std::size_t skip, Function&& function) {
  using Values = typename S::Decayed;
  if constexpr (Returns<typename S::Return>::kStream) {
    auto values = std::make_shared<Values>(decode_arguments(in, skip, static_cast<Values*>(nullptr)));
    invoke_with<S>(in, *values, function);
    if (in.generator) in.generator->keep(std::move(values));
  } else {
    auto values = decode_arguments(in, skip, static_cast<Values*>(nullptr));
    invoke_with<S>(in, values, function);
  }
}

// --------------------------------------------------------------------------------------------------------- the entries

template <auto F> struct FunctionEntry {
  using S = SignatureOf<decltype(F)>;
  static void invoke(Invocation& in) { invoke_decoded<S>(in, 0, F); }
  static const char* pretty() { return __PRETTY_FUNCTION__; }  // at class scope the macro has no name
  static inline FunctionNode node{FunctionKind::kFunction, &invoke, pretty()};
};

template <class L> struct ClosureEntry {
  using S = SignatureOf<decltype(&L::operator())>;
  static constexpr std::size_t kSize = std::is_empty_v<L> ? 0 : sizeof(L);
  struct Memory { alignas(L) std::byte bytes[sizeof(L)] = {}; };
  static void invoke(Invocation& in) {
    if constexpr (Returns<typename S::Return>::kStream) {  // a generator reads its captures as long as it runs
      auto memory = std::make_shared<Memory>();
      invoke_in(in, *memory);
      if (in.generator) in.generator->keep(std::move(memory));
    } else {
      Memory memory;
      invoke_in(in, memory);
    }
  }
  static void invoke_in(Invocation& in, Memory& memory) {
    if (in.body.size() < kSize) throw SerializationError("a closure that is cut off");
    if constexpr (kSize > 0) std::memcpy(memory.bytes, in.body.data(), kSize);
    invoke_decoded<S>(in, kSize, *std::launder(reinterpret_cast<L*>(memory.bytes)));
  }
  static const char* pretty() { return __PRETTY_FUNCTION__; }  // at class scope the macro has no name
  static inline FunctionNode node{FunctionKind::kClosure, &invoke, pretty()};
};

template <class A, auto M> struct MethodEntry {
  using S = SignatureOf<decltype(M)>;
  static void invoke(Invocation& in) {
    A& self = *static_cast<A*>(in.instance);
    invoke_decoded<S>(in, 0,
                      [&self]<class... X>(X&&... x) -> decltype(auto) { return (self.*M)(std::forward<X>(x)...); });
  }
  static const char* pretty() { return __PRETTY_FUNCTION__; }  // at class scope the macro has no name
  static inline FunctionNode node{FunctionKind::kMethod, &invoke, pretty()};
};

template <class A> struct ClassEntry {
  static void destroy(void* instance) { delete static_cast<A*>(instance); }
  static void checkpoint(const void* instance, Value& out) {
    if constexpr (requires(const A& a) { a.checkpoint(); })
      encode_to(out, static_cast<const A*>(instance)->checkpoint());
  }
  static void restore(void* instance, const Value& state) {
    if constexpr (requires(const A& a) { a.checkpoint(); }) {
      using State = std::remove_cvref_t<decltype(std::declval<const A&>().checkpoint())>;
      if constexpr (requires(A& a, State s) { a.restore(std::move(s)); })
        static_cast<A*>(instance)->restore(decode_value<State>(state));
    }
  }
  static constexpr bool kHasState = requires(const A& a, A& b) { b.restore(a.checkpoint()); };
  static constexpr ClassOperations operations{&destroy, kHasState ? &checkpoint : nullptr,
                                              kHasState ? &restore : nullptr};
};

template <class A, class... D> struct ConstructorEntry {
  using S = Signature<void, D...>;
  static void invoke(Invocation& in) {
    auto values = decode_arguments(in, 0, static_cast<std::tuple<D...>*>(nullptr));
    in.constructed = std::apply([](D&... value) -> void* { return new A(std::move(value)...); }, values);
  }
  static const char* pretty() { return __PRETTY_FUNCTION__; }  // at class scope the macro has no name
  static inline FunctionNode node{FunctionKind::kConstructor, &invoke, pretty(), &ClassEntry<A>::operations};
};

}  // namespace troupe::detail
