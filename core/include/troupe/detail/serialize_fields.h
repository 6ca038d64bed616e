// How many fields an aggregate has, and a visit to all of them, without macros in user code.
//
// Arity: `T{ {}, {}, ... }` is well formed for exactly as many empty braces as T has elements, whatever their types:
// braces are never elided, so nested aggregates, std::array and C arrays count as one each, and no conversion is
// involved, so std::optional, std::any or a class with a greedy constructor cannot be ambiguous. Only a field that
// cannot be made from `{}` (an explicit default constructor behind a default member initializer) needs the older trick
// with a value that converts to anything.
//
// The local macros below spell 64 specializations; they are undefined at the end.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace troupe::detail {

inline constexpr int kMaxFields = 64;

template <class... Ts> struct TypeList {};

/// Converts to any field of T; to a proper base of T only; never to T itself.
template <class T> struct AnyFieldOf {
  template <class U>
    requires(!std::is_same_v<U, T>)
  operator U() const;
};
template <class T> struct AnyBaseOf {
  template <class U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>)
  operator U() const;
};

/// kInits<T>, kMore<T>: can T be made from N empty braces, from N and one thing more? visit(t, f): f(field, ...) for a
/// T of N fields.
template <int N> struct Fields;

template <> struct Fields<0> {
  template <class T> static constexpr bool kInits = requires { T{}; };
  template <class T> static constexpr bool kMore = requires { T{AnyFieldOf<T>{}}; };
  template <class T, class F> static constexpr decltype(auto) visit(T&, F&& f) { return f(); }
};

// clang-format off
#define TROUPE_B1 {}
#define TROUPE_N1 f1
#define TROUPE_B2 TROUPE_B1, {}
#define TROUPE_N2 TROUPE_N1, f2
#define TROUPE_B3 TROUPE_B2, {}
#define TROUPE_N3 TROUPE_N2, f3
#define TROUPE_B4 TROUPE_B3, {}
#define TROUPE_N4 TROUPE_N3, f4
#define TROUPE_B5 TROUPE_B4, {}
#define TROUPE_N5 TROUPE_N4, f5
#define TROUPE_B6 TROUPE_B5, {}
#define TROUPE_N6 TROUPE_N5, f6
#define TROUPE_B7 TROUPE_B6, {}
#define TROUPE_N7 TROUPE_N6, f7
#define TROUPE_B8 TROUPE_B7, {}
#define TROUPE_N8 TROUPE_N7, f8
#define TROUPE_B9 TROUPE_B8, {}
#define TROUPE_N9 TROUPE_N8, f9
#define TROUPE_B10 TROUPE_B9, {}
#define TROUPE_N10 TROUPE_N9, f10
#define TROUPE_B11 TROUPE_B10, {}
#define TROUPE_N11 TROUPE_N10, f11
#define TROUPE_B12 TROUPE_B11, {}
#define TROUPE_N12 TROUPE_N11, f12
#define TROUPE_B13 TROUPE_B12, {}
#define TROUPE_N13 TROUPE_N12, f13
#define TROUPE_B14 TROUPE_B13, {}
#define TROUPE_N14 TROUPE_N13, f14
#define TROUPE_B15 TROUPE_B14, {}
#define TROUPE_N15 TROUPE_N14, f15
#define TROUPE_B16 TROUPE_B15, {}
#define TROUPE_N16 TROUPE_N15, f16
#define TROUPE_B17 TROUPE_B16, {}
#define TROUPE_N17 TROUPE_N16, f17
#define TROUPE_B18 TROUPE_B17, {}
#define TROUPE_N18 TROUPE_N17, f18
#define TROUPE_B19 TROUPE_B18, {}
#define TROUPE_N19 TROUPE_N18, f19
#define TROUPE_B20 TROUPE_B19, {}
#define TROUPE_N20 TROUPE_N19, f20
#define TROUPE_B21 TROUPE_B20, {}
#define TROUPE_N21 TROUPE_N20, f21
#define TROUPE_B22 TROUPE_B21, {}
#define TROUPE_N22 TROUPE_N21, f22
#define TROUPE_B23 TROUPE_B22, {}
#define TROUPE_N23 TROUPE_N22, f23
#define TROUPE_B24 TROUPE_B23, {}
#define TROUPE_N24 TROUPE_N23, f24
#define TROUPE_B25 TROUPE_B24, {}
#define TROUPE_N25 TROUPE_N24, f25
#define TROUPE_B26 TROUPE_B25, {}
#define TROUPE_N26 TROUPE_N25, f26
#define TROUPE_B27 TROUPE_B26, {}
#define TROUPE_N27 TROUPE_N26, f27
#define TROUPE_B28 TROUPE_B27, {}
#define TROUPE_N28 TROUPE_N27, f28
#define TROUPE_B29 TROUPE_B28, {}
#define TROUPE_N29 TROUPE_N28, f29
#define TROUPE_B30 TROUPE_B29, {}
#define TROUPE_N30 TROUPE_N29, f30
#define TROUPE_B31 TROUPE_B30, {}
#define TROUPE_N31 TROUPE_N30, f31
#define TROUPE_B32 TROUPE_B31, {}
#define TROUPE_N32 TROUPE_N31, f32
#define TROUPE_B33 TROUPE_B32, {}
#define TROUPE_N33 TROUPE_N32, f33
#define TROUPE_B34 TROUPE_B33, {}
#define TROUPE_N34 TROUPE_N33, f34
#define TROUPE_B35 TROUPE_B34, {}
#define TROUPE_N35 TROUPE_N34, f35
#define TROUPE_B36 TROUPE_B35, {}
#define TROUPE_N36 TROUPE_N35, f36
#define TROUPE_B37 TROUPE_B36, {}
#define TROUPE_N37 TROUPE_N36, f37
#define TROUPE_B38 TROUPE_B37, {}
#define TROUPE_N38 TROUPE_N37, f38
#define TROUPE_B39 TROUPE_B38, {}
#define TROUPE_N39 TROUPE_N38, f39
#define TROUPE_B40 TROUPE_B39, {}
#define TROUPE_N40 TROUPE_N39, f40
#define TROUPE_B41 TROUPE_B40, {}
#define TROUPE_N41 TROUPE_N40, f41
#define TROUPE_B42 TROUPE_B41, {}
#define TROUPE_N42 TROUPE_N41, f42
#define TROUPE_B43 TROUPE_B42, {}
#define TROUPE_N43 TROUPE_N42, f43
#define TROUPE_B44 TROUPE_B43, {}
#define TROUPE_N44 TROUPE_N43, f44
#define TROUPE_B45 TROUPE_B44, {}
#define TROUPE_N45 TROUPE_N44, f45
#define TROUPE_B46 TROUPE_B45, {}
#define TROUPE_N46 TROUPE_N45, f46
#define TROUPE_B47 TROUPE_B46, {}
#define TROUPE_N47 TROUPE_N46, f47
#define TROUPE_B48 TROUPE_B47, {}
#define TROUPE_N48 TROUPE_N47, f48
#define TROUPE_B49 TROUPE_B48, {}
#define TROUPE_N49 TROUPE_N48, f49
#define TROUPE_B50 TROUPE_B49, {}
#define TROUPE_N50 TROUPE_N49, f50
#define TROUPE_B51 TROUPE_B50, {}
#define TROUPE_N51 TROUPE_N50, f51
#define TROUPE_B52 TROUPE_B51, {}
#define TROUPE_N52 TROUPE_N51, f52
#define TROUPE_B53 TROUPE_B52, {}
#define TROUPE_N53 TROUPE_N52, f53
#define TROUPE_B54 TROUPE_B53, {}
#define TROUPE_N54 TROUPE_N53, f54
#define TROUPE_B55 TROUPE_B54, {}
#define TROUPE_N55 TROUPE_N54, f55
#define TROUPE_B56 TROUPE_B55, {}
#define TROUPE_N56 TROUPE_N55, f56
#define TROUPE_B57 TROUPE_B56, {}
#define TROUPE_N57 TROUPE_N56, f57
#define TROUPE_B58 TROUPE_B57, {}
#define TROUPE_N58 TROUPE_N57, f58
#define TROUPE_B59 TROUPE_B58, {}
#define TROUPE_N59 TROUPE_N58, f59
#define TROUPE_B60 TROUPE_B59, {}
#define TROUPE_N60 TROUPE_N59, f60
#define TROUPE_B61 TROUPE_B60, {}
#define TROUPE_N61 TROUPE_N60, f61
#define TROUPE_B62 TROUPE_B61, {}
#define TROUPE_N62 TROUPE_N61, f62
#define TROUPE_B63 TROUPE_B62, {}
#define TROUPE_N63 TROUPE_N62, f63
#define TROUPE_B64 TROUPE_B63, {}
#define TROUPE_N64 TROUPE_N63, f64

#define TROUPE_FIELDS(n)                                                       \
  template <> struct Fields<n> {                                               \
    template <class T> static constexpr bool kInits = requires { T{TROUPE_B##n}; };  \
    template <class T> static constexpr bool kMore = requires { T{TROUPE_B##n, AnyFieldOf<T>{}}; }; \
    template <class T, class F> static constexpr decltype(auto) visit(T& t, F&& f) { \
      auto& [TROUPE_N##n] = t;                                                 \
      return f(TROUPE_N##n);                                                   \
    }                                                                          \
  };
TROUPE_FIELDS(1) TROUPE_FIELDS(2) TROUPE_FIELDS(3) TROUPE_FIELDS(4) TROUPE_FIELDS(5) TROUPE_FIELDS(6)
TROUPE_FIELDS(7) TROUPE_FIELDS(8) TROUPE_FIELDS(9) TROUPE_FIELDS(10) TROUPE_FIELDS(11) TROUPE_FIELDS(12)
TROUPE_FIELDS(13) TROUPE_FIELDS(14) TROUPE_FIELDS(15) TROUPE_FIELDS(16) TROUPE_FIELDS(17) TROUPE_FIELDS(18)
TROUPE_FIELDS(19) TROUPE_FIELDS(20) TROUPE_FIELDS(21) TROUPE_FIELDS(22) TROUPE_FIELDS(23) TROUPE_FIELDS(24)
TROUPE_FIELDS(25) TROUPE_FIELDS(26) TROUPE_FIELDS(27) TROUPE_FIELDS(28) TROUPE_FIELDS(29) TROUPE_FIELDS(30)
TROUPE_FIELDS(31) TROUPE_FIELDS(32) TROUPE_FIELDS(33) TROUPE_FIELDS(34) TROUPE_FIELDS(35) TROUPE_FIELDS(36)
TROUPE_FIELDS(37) TROUPE_FIELDS(38) TROUPE_FIELDS(39) TROUPE_FIELDS(40) TROUPE_FIELDS(41) TROUPE_FIELDS(42)
TROUPE_FIELDS(43) TROUPE_FIELDS(44) TROUPE_FIELDS(45) TROUPE_FIELDS(46) TROUPE_FIELDS(47) TROUPE_FIELDS(48)
TROUPE_FIELDS(49) TROUPE_FIELDS(50) TROUPE_FIELDS(51) TROUPE_FIELDS(52) TROUPE_FIELDS(53) TROUPE_FIELDS(54)
TROUPE_FIELDS(55) TROUPE_FIELDS(56) TROUPE_FIELDS(57) TROUPE_FIELDS(58) TROUPE_FIELDS(59) TROUPE_FIELDS(60)
TROUPE_FIELDS(61) TROUPE_FIELDS(62) TROUPE_FIELDS(63) TROUPE_FIELDS(64)
#undef TROUPE_FIELDS
#undef TROUPE_B1
#undef TROUPE_N1
#undef TROUPE_B2
#undef TROUPE_N2
#undef TROUPE_B3
#undef TROUPE_N3
#undef TROUPE_B4
#undef TROUPE_N4
#undef TROUPE_B5
#undef TROUPE_N5
#undef TROUPE_B6
#undef TROUPE_N6
#undef TROUPE_B7
#undef TROUPE_N7
#undef TROUPE_B8
#undef TROUPE_N8
#undef TROUPE_B9
#undef TROUPE_N9
#undef TROUPE_B10
#undef TROUPE_N10
#undef TROUPE_B11
#undef TROUPE_N11
#undef TROUPE_B12
#undef TROUPE_N12
#undef TROUPE_B13
#undef TROUPE_N13
#undef TROUPE_B14
#undef TROUPE_N14
#undef TROUPE_B15
#undef TROUPE_N15
#undef TROUPE_B16
#undef TROUPE_N16
#undef TROUPE_B17
#undef TROUPE_N17
#undef TROUPE_B18
#undef TROUPE_N18
#undef TROUPE_B19
#undef TROUPE_N19
#undef TROUPE_B20
#undef TROUPE_N20
#undef TROUPE_B21
#undef TROUPE_N21
#undef TROUPE_B22
#undef TROUPE_N22
#undef TROUPE_B23
#undef TROUPE_N23
#undef TROUPE_B24
#undef TROUPE_N24
#undef TROUPE_B25
#undef TROUPE_N25
#undef TROUPE_B26
#undef TROUPE_N26
#undef TROUPE_B27
#undef TROUPE_N27
#undef TROUPE_B28
#undef TROUPE_N28
#undef TROUPE_B29
#undef TROUPE_N29
#undef TROUPE_B30
#undef TROUPE_N30
#undef TROUPE_B31
#undef TROUPE_N31
#undef TROUPE_B32
#undef TROUPE_N32
#undef TROUPE_B33
#undef TROUPE_N33
#undef TROUPE_B34
#undef TROUPE_N34
#undef TROUPE_B35
#undef TROUPE_N35
#undef TROUPE_B36
#undef TROUPE_N36
#undef TROUPE_B37
#undef TROUPE_N37
#undef TROUPE_B38
#undef TROUPE_N38
#undef TROUPE_B39
#undef TROUPE_N39
#undef TROUPE_B40
#undef TROUPE_N40
#undef TROUPE_B41
#undef TROUPE_N41
#undef TROUPE_B42
#undef TROUPE_N42
#undef TROUPE_B43
#undef TROUPE_N43
#undef TROUPE_B44
#undef TROUPE_N44
#undef TROUPE_B45
#undef TROUPE_N45
#undef TROUPE_B46
#undef TROUPE_N46
#undef TROUPE_B47
#undef TROUPE_N47
#undef TROUPE_B48
#undef TROUPE_N48
#undef TROUPE_B49
#undef TROUPE_N49
#undef TROUPE_B50
#undef TROUPE_N50
#undef TROUPE_B51
#undef TROUPE_N51
#undef TROUPE_B52
#undef TROUPE_N52
#undef TROUPE_B53
#undef TROUPE_N53
#undef TROUPE_B54
#undef TROUPE_N54
#undef TROUPE_B55
#undef TROUPE_N55
#undef TROUPE_B56
#undef TROUPE_N56
#undef TROUPE_B57
#undef TROUPE_N57
#undef TROUPE_B58
#undef TROUPE_N58
#undef TROUPE_B59
#undef TROUPE_N59
#undef TROUPE_B60
#undef TROUPE_N60
#undef TROUPE_B61
#undef TROUPE_N61
#undef TROUPE_B62
#undef TROUPE_N62
#undef TROUPE_B63
#undef TROUPE_N63
#undef TROUPE_B64
#undef TROUPE_N64
// clang-format on

template <class T, int N> constexpr bool inits_from_braces() {
  if constexpr (N > kMaxFields) return false;
  else return Fields<N>::template kInits<T>;
}

/// The largest N in [low, high) that T can be made from, where low is one and high is none.
template <class T, int kLow, int kHigh> constexpr int most_braces() {
  if constexpr (kLow + 1 >= kHigh) return kLow;
  else if constexpr (inits_from_braces<T, (kLow + kHigh) / 2>()) return most_braces<T, (kLow + kHigh) / 2, kHigh>();
  else return most_braces<T, kLow, (kLow + kHigh) / 2>();
}

template <class T, std::size_t... I> constexpr bool inits_from_any(std::index_sequence<I...>) {
  return requires { T{(void(I), AnyFieldOf<T>{})...}; };
}

template <class T, int N> constexpr int count_by_any() {
  if constexpr (!inits_from_any<T>(std::make_index_sequence<N + 1>{})) return N;
  else if constexpr (N == kMaxFields) return -1;
  else return count_by_any<T, N + 1>();
}

/// The number of fields of aggregate T, or -1: it has a base, cannot be made from nothing, or has more than 64.
template <class T> constexpr int arity() {
  if constexpr (!requires { T{}; } || requires { T{AnyBaseOf<T>{}}; }) {
    return -1;
  } else {
    constexpr int braces = inits_from_braces<T, 8>() ? most_braces<T, 8, kMaxFields + 1>() : most_braces<T, 0, 8>();
    if constexpr (!Fields<braces>::template kMore<T>) {
      return braces;
    } else if constexpr (braces < kMaxFields && inits_from_any<T>(std::make_index_sequence<braces + 1>{})) {
      return count_by_any<T, braces + 1>();
    } else {
      return -1;
    }
  }
}

struct ListFields {
  template <class... Fs> constexpr TypeList<Fs...> operator()(Fs&...) const { return {}; }
};
/// The field types of aggregate T, const ones as const.
template <class T> using FieldsOf = decltype(Fields<arity<T>()>::visit(std::declval<T&>(), ListFields{}));

}  // namespace troupe::detail
