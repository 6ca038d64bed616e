// Codecs of the standard library's types. Layouts:
//   containers       count, then the elements; an element that may be empty takes one zero byte
//                    besides, so that a count can always be held against the bytes left
//   count            u32, or 0xFFFFFFFF and u64 for more
//   vector<bool>     count, then bits, the first in the lowest place, the last byte filled up with zeros
//   optional, unique_ptr   u8 0, or u8 1 and the value;      variant   u8 index (u16 from 256 alternatives on) and the
//                                                                      value
//   pair, tuple, array     their members;                    duration, system time point   their count of ticks
#pragma once
#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/detail/serialize_codec.h>

namespace troupe::detail {

struct VariableCodec {
  static constexpr std::size_t fixed() { return kNotFixed; }
  static constexpr bool bulk() { return false; }
};

/// The elements of a container, each a row of one value, or of key and value.
template <class... Ts> struct Elements {
  using Values = Row<Ts...>;
  static constexpr bool kPad = Values::kMinSum == 0;
  static constexpr std::size_t kMinSize = Values::kMinSum + kPad;
  /// What an element takes besides itself where each has an allocation of its own; a deque's first block (libstdc++).
  static constexpr std::size_t kNode = 48, kBlock = 640;

  template <class C, class Split> static void size(Sizer& sizer, const C& container, Split split) {
    sizer.count(container.size());
    if constexpr (Values::kHasFixed) {
      sizer.add(container.size() * kMinSize);
    } else {
      sizer.enter();
      if (kPad) sizer.add(container.size());
      for (const auto& element : container)
        split(element, [&](const Ts&... values) { Values::size(sizer, values...); });
      sizer.leave();
    }
  }
  template <class C, class Split> static void write(Writer& writer, const C& container, Split split) {
    writer.count(container.size());
    if constexpr (Values::kHasFixed) {
      std::byte* to = writer.take(container.size() * kMinSize);
      for (const auto& element : container) {
        if constexpr (kPad) *to = std::byte{0};
        split(element, [&](const Ts&... values) { Values::store(to, values...); });
        to += kMinSize;
      }
    } else {
      for (const auto& element : container) {
        if constexpr (kPad) writer.byte(0);
        split(element, [&](const Ts&... values) { Values::write(writer, values...); });
      }
    }
  }
  /// add(read): makes room for one element and calls read(values...) on it.
  template <class C, class Add> static void read(Reader& reader, C& container, Add add) {
    container.clear();
    const std::size_t n = reader.count(kMinSize);
    constexpr bool kContiguous = requires { container.data(); };
    constexpr bool kBlocks = !kContiguous && requires { container[0]; container.emplace_front(); };
    if constexpr (kBlocks) reader.template unfold<kBlock>(1);
    if (!reader.template unfold<sizeof(typename C::value_type) + (kContiguous || kBlocks ? 0 : kNode)>(n)) return;
    // A small element may unfold into a large object: reserve no more than the bytes left could hold as they are.
    if constexpr (requires { container.reserve(n); }) {
      const std::size_t most = Values::kHasFixed ? n : reader.left() / sizeof(typename C::value_type) + 1;
      container.reserve(n < most ? n : most);  // std::min would cost <algorithm>, which is a sixth of troupe.h
    }
    reader.enter();
    for (std::size_t i = 0; i < n && !reader.failed(); ++i) {
      if (kPad && reader.byte() != 0) reader.fail("has a filler that is not zero");
      add([&](Ts&... values) { Values::read(reader, values...); });
    }
    reader.leave();
    if (!reader.failed() && container.size() != n) reader.fail("has a key twice");
    if (reader.failed()) container.clear();
  }
};

/// vector, deque, list, string.
template <class C> struct SequenceCodec : VariableCodec {
  using T = typename C::value_type;
  static constexpr bool kCopied = requires(C& c) { c.data(); } && kBulk<T>;
  static constexpr auto kWhole = [](const T& element, auto&& use) { use(element); };

  template <class... Open> static constexpr bool supported() { return kSupported<T, Open...>; }
  static constexpr std::size_t min() { return 4; }
  static void size(Sizer& sizer, const C& value) { Elements<T>::size(sizer, value, kWhole); }
  static void write(Writer& writer, const C& value) {
    if constexpr (kCopied) {
      writer.count(value.size());
      writer.bytes(value.data(), value.size() * sizeof(T));
    } else {
      Elements<T>::write(writer, value, kWhole);
    }
  }
  static void read(Reader& reader, C& value) {
    if constexpr (kCopied) {
      const std::size_t n = reader.count(sizeof(T));
      const std::byte* from = reader.take(n * sizeof(T));
      if (n == 0) return value.clear();
      if (reinterpret_cast<std::uintptr_t>(from) % alignof(T) == 0) {  // one pass: no zeros first
        const T* elements = reinterpret_cast<const T*>(from);
        value.assign(elements, elements + n);
      } else {
        value.resize(n);
        copy_bytes(value.data(), from, n * sizeof(T));
      }
    } else {
      Elements<T>::read(reader, value, [&](auto&& read) {
        value.emplace_back();
        read(value.back());
      });
    }
  }
};
template <class T, class A> struct Codec<std::vector<T, A>> : SequenceCodec<std::vector<T, A>> {};
template <class T, class A> struct Codec<std::deque<T, A>> : SequenceCodec<std::deque<T, A>> {};
template <class T, class A> struct Codec<std::list<T, A>> : SequenceCodec<std::list<T, A>> {};
template <class T, class R, class A>
struct Codec<std::basic_string<T, R, A>> : SequenceCodec<std::basic_string<T, R, A>> {};

template <class A> struct Codec<std::vector<bool, A>> : VariableCodec {
  using C = std::vector<bool, A>;
  template <class...> static constexpr bool supported() { return true; }
  static constexpr std::size_t min() { return 4; }
  static void size(Sizer& sizer, const C& value) {
    sizer.count(value.size());
    sizer.add((value.size() + 7) / 8);
  }
  static void write(Writer& writer, const C& value) {
    writer.count(value.size());
    for (std::size_t i = 0; i < value.size(); i += 8) {
      unsigned bits = 0;
      for (std::size_t j = i; j < i + 8 && j < value.size(); ++j) bits |= unsigned(value[j]) << (j - i);
      writer.byte(static_cast<std::uint8_t>(bits));
    }
  }
  static void read(Reader& reader, C& value) {
    value.clear();
    const std::size_t n = reader.count_of_bits();
    const std::byte* from = reader.take((n + 7) / 8);
    if (!from || n == 0) return;
    value.resize(n);
    for (std::size_t i = 0; i < n; ++i) value[i] = (std::to_integer<unsigned>(from[i / 8]) >> (i % 8) & 1) != 0;
    if (n % 8 != 0 && std::to_integer<unsigned>(from[n / 8]) >> (n % 8) != 0) {
      reader.fail("has a filler that is not zero");
      value.clear();
    }
  }
};

template <class C> struct SetCodec : VariableCodec {
  using T = typename C::value_type;
  static constexpr auto kWhole = [](const T& element, auto&& use) { use(element); };

  template <class... Open> static constexpr bool supported() { return kSupported<T, Open...>; }
  static constexpr std::size_t min() { return 4; }
  static void size(Sizer& sizer, const C& value) { Elements<T>::size(sizer, value, kWhole); }
  static void write(Writer& writer, const C& value) { Elements<T>::write(writer, value, kWhole); }
  static void read(Reader& reader, C& value) {
    Elements<T>::read(reader, value, [&](auto&& read) {
      T element{};
      read(element);
      value.insert(value.end(), std::move(element));
    });
  }
};
template <class T, class C, class A> struct Codec<std::set<T, C, A>> : SetCodec<std::set<T, C, A>> {};
template <class T, class C, class A> struct Codec<std::multiset<T, C, A>> : SetCodec<std::multiset<T, C, A>> {};
template <class T, class H, class E, class A>
struct Codec<std::unordered_set<T, H, E, A>> : SetCodec<std::unordered_set<T, H, E, A>> {};
template <class T, class H, class E, class A>
struct Codec<std::unordered_multiset<T, H, E, A>> : SetCodec<std::unordered_multiset<T, H, E, A>> {};

template <class C> struct MapCodec : VariableCodec {
  using K = typename C::key_type;
  using V = typename C::mapped_type;
  static constexpr auto kParts = [](const auto& element, auto&& use) { use(element.first, element.second); };

  template <class... Open>
  static constexpr bool supported() {
    return kSupported<K, Open...> && kSupported<V, Open...>;
  }
  static constexpr std::size_t min() { return 4; }
  static void size(Sizer& sizer, const C& value) { Elements<K, V>::size(sizer, value, kParts); }
  static void write(Writer& writer, const C& value) { Elements<K, V>::write(writer, value, kParts); }
  static void read(Reader& reader, C& value) {
    Elements<K, V>::read(reader, value, [&](auto&& read) {
      K key{};
      V mapped{};
      read(key, mapped);
      value.emplace_hint(value.end(), std::move(key), std::move(mapped));
    });
  }
};
template <class K, class V, class C, class A> struct Codec<std::map<K, V, C, A>> : MapCodec<std::map<K, V, C, A>> {};
template <class K, class V, class C, class A>
struct Codec<std::multimap<K, V, C, A>> : MapCodec<std::multimap<K, V, C, A>> {};
template <class K, class V, class H, class E, class A>
struct Codec<std::unordered_map<K, V, H, E, A>> : MapCodec<std::unordered_map<K, V, H, E, A>> {};
template <class K, class V, class H, class E, class A>
struct Codec<std::unordered_multimap<K, V, H, E, A>> : MapCodec<std::unordered_multimap<K, V, H, E, A>> {};

/// std::array and C arrays: no count.
template <class C, class T, std::size_t N> struct ArrayCodec {
  template <class... Open> static constexpr bool supported() { return kSupported<T, Open...>; }
  static constexpr std::size_t fixed() { return kFixed<T> == kNotFixed ? kNotFixed : N * kFixed<T>; }
  static constexpr std::size_t min() { return N * kMin<T>; }
  static constexpr bool bulk() { return N > 0 && kBulk<T>; }
  static void size(Sizer& sizer, const C& value) {
    if constexpr (fixed() != kNotFixed) sizer.add(fixed());
    else for (const T& element : value) Codec<T>::size(sizer, element);
  }
  static void write(Writer& writer, const C& value) {
    if constexpr (fixed() != kNotFixed) store(writer.take(fixed()), value);
    else for (const T& element : value) Codec<T>::write(writer, element);
  }
  static void read(Reader& reader, C& value) {
    if constexpr (fixed() != kNotFixed) Row<C>::read(reader, value);
    else for (T& element : value) Codec<T>::read(reader, element);
  }
  static void store(std::byte* to, const C& value) {
    if constexpr (bulk()) copy_bytes(to, &value, sizeof(C));
    else for (const T& element : value) Codec<T>::store(to, element), to += kFixed<T>;
  }
  static bool load(const std::byte* from, C& value) {
    bool good = true;
    if constexpr (bulk()) copy_bytes(&value, from, sizeof(C));
    else for (T& element : value) good &= Codec<T>::load(from, element), from += kFixed<T>;
    return good;
  }
};
template <class T, std::size_t N> struct Codec<std::array<T, N>> : ArrayCodec<std::array<T, N>, T, N> {};
template <class T, std::size_t N> struct Codec<T[N]> : ArrayCodec<T[N], T, N> {};

template <class T, std::size_t... I> struct TupleCodec {
  using Values = Row<std::tuple_element_t<I, T>...>;
  template <class... Open> static constexpr bool supported() {
    return (kSupported<std::tuple_element_t<I, T>, Open...> && ...);
  }
  static constexpr std::size_t fixed() { return Values::kFixedSum; }
  static constexpr std::size_t min() { return Values::kMinSum; }
  static constexpr bool bulk() { return false; }
  static void size(Sizer& sizer, [[maybe_unused]] const T& value) { Values::size(sizer, std::get<I>(value)...); }
  static void write(Writer& writer, [[maybe_unused]] const T& value) { Values::write(writer, std::get<I>(value)...); }
  static void read(Reader& reader, [[maybe_unused]] T& value) { Values::read(reader, std::get<I>(value)...); }
  static void store(std::byte* to, [[maybe_unused]] const T& value) { Values::store(to, std::get<I>(value)...); }
  static bool load(const std::byte* from, [[maybe_unused]] T& value) {
    return Values::load(from, std::get<I>(value)...);
  }
};
template <class T, class Indices> struct TupleCodecOf;
template <class T, std::size_t... I> struct TupleCodecOf<T, std::index_sequence<I...>> : TupleCodec<T, I...> {};
template <class A, class B> struct Codec<std::pair<A, B>> : TupleCodec<std::pair<A, B>, 0, 1> {};
template <class... Ts>
struct Codec<std::tuple<Ts...>> : TupleCodecOf<std::tuple<Ts...>, std::index_sequence_for<Ts...>> {};

template <class T> struct Codec<std::optional<T>> : VariableCodec {
  template <class... Open> static constexpr bool supported() {
    return kSupported<T, Open...> && std::is_default_constructible_v<T>;
  }
  static constexpr std::size_t min() { return 1; }
  static void size(Sizer& sizer, const std::optional<T>& value) {
    sizer.add(1);
    if (value) Codec<T>::size(sizer, *value);
  }
  static void write(Writer& writer, const std::optional<T>& value) {
    writer.byte(value.has_value());
    if (value) Codec<T>::write(writer, *value);
  }
  static void read(Reader& reader, std::optional<T>& value) {
    value.reset();
    if (!reader.flag()) return;
    Codec<T>::read(reader, value.emplace());
    if (reader.failed()) value.reset();
  }
};

template <class T> struct Codec<std::unique_ptr<T>> : VariableCodec {
  template <class... Open> static constexpr bool supported() {
    if constexpr (std::is_array_v<T>) return false;
    else if constexpr ((std::is_same_v<T, Open> || ...)) return true;
    else if constexpr (std::is_polymorphic_v<T> && !std::is_final_v<T>) return false;  // it would be sliced
    else return kSupported<T, Open...>;
  }
  static constexpr std::size_t min() { return 1; }
  static void size(Sizer& sizer, const std::unique_ptr<T>& value) {
    sizer.add(1);
    if (!value) return;
    if constexpr (!kCountsItsDepth<T>) sizer.enter();
    Codec<T>::size(sizer, *value);
    if constexpr (!kCountsItsDepth<T>) sizer.leave();
  }
  static void write(Writer& writer, const std::unique_ptr<T>& value) {
    writer.byte(value != nullptr);
    if (value) Codec<T>::write(writer, *value);
  }
  static void read(Reader& reader, std::unique_ptr<T>& value) {
    value.reset();
    if (!reader.flag()) return;
    if constexpr (!kCountsItsDepth<T>) reader.enter();
    if (reader.template unfold<sizeof(T) + 16>(1)) value = std::make_unique<T>();
    if (!reader.failed()) Codec<T>::read(reader, *value);
    if constexpr (!kCountsItsDepth<T>) reader.leave();
    if (reader.failed()) value.reset();
  }
};

template <class... Ts> struct Codec<std::variant<Ts...>> : VariableCodec {
  using T = std::variant<Ts...>;
  using Index = std::conditional_t<(sizeof...(Ts) < 256), std::uint8_t, std::uint16_t>;

  template <class... Open> static constexpr bool supported() {
    return ((kSupported<Ts, Open...> && std::is_default_constructible_v<Ts>) && ...);
  }
  static constexpr std::size_t min() { return sizeof(Index); }
  // A variant without a value throws std::bad_variant_access, as std::visit does.
  static void size(Sizer& sizer, const T& value) {
    sizer.add(sizeof(Index));
    std::visit([&]<class V>(const V& held) { Codec<V>::size(sizer, held); }, value);
  }
  static void write(Writer& writer, const T& value) {
    Codec<Index>::write(writer, static_cast<Index>(value.index()));
    std::visit([&]<class V>(const V& held) { Codec<V>::write(writer, held); }, value);
  }
  static void read(Reader& reader, T& value) {
    Index index = 0;
    Codec<Index>::read(reader, index);
    if (index >= sizeof...(Ts)) reader.fail("has an alternative that its variant does not have");
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      if (!reader.failed()) ((index == I ? Codec<Ts>::read(reader, value.template emplace<I>()) : void()), ...);
      if (reader.failed()) value.template emplace<0>();
    }(std::index_sequence_for<Ts...>{});
  }
};
template <> struct Codec<std::monostate> : TupleCodec<std::monostate> {};

template <class T, class Rep> struct TicksCodec {
  template <class... Open> static constexpr bool supported() { return kSupported<Rep, Open...>; }
  static constexpr std::size_t fixed() { return kFixed<Rep>; }
  static constexpr std::size_t min() { return kMin<Rep>; }
  static constexpr bool bulk() { return sizeof(T) == sizeof(Rep) && kBulk<Rep>; }
  static void size(Sizer& sizer, const T&) { sizer.add(kFixed<Rep>); }
  static void write(Writer& writer, const T& value) { store(writer.take(kFixed<Rep>), value); }
  static void read(Reader& reader, T& value) { Row<T>::read(reader, value); }
  static void store(std::byte* to, const T& value) { Codec<Rep>::store(to, ticks(value)); }
  static bool load(const std::byte* from, T& value) {
    Rep rep{};
    Codec<Rep>::load(from, rep);
    if constexpr (requires { value.count(); }) value = T(rep);
    else value = T(typename T::duration(rep));
    return true;
  }

 private:
  static Rep ticks(const T& value) {
    if constexpr (requires { value.count(); }) return value.count();
    else return value.time_since_epoch().count();
  }
};
template <class Rep, class Period>
  requires std::is_arithmetic_v<Rep>
struct Codec<std::chrono::duration<Rep, Period>> : TicksCodec<std::chrono::duration<Rep, Period>, Rep> {};
template <class D>
struct Codec<std::chrono::time_point<std::chrono::system_clock, D>>
    : TicksCodec<std::chrono::time_point<std::chrono::system_clock, D>, typename D::rep> {};

}  // namespace troupe::detail
