// Codec<T>: what a T looks like in bytes. The primary template knows scalars, classes with a serialize function,
// aggregates and attached types; serialize_std.h specializes it for the standard library.
//
// Each Codec has
//   supported<Open...>()   can a T be sent? Open: aggregates whose check is under way, so that recursive types end
//   fixed()                its size when all Ts have one size, else kNotFixed;  min()  the least size
//   kBulk                  its memory is its encoding (on this little-endian machine)
//   size, write, read      for the three archives
//   store, load            only with a fixed size: unchecked access to that many bytes; load says whether they made
//                          sense
#pragma once
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include <troupe/detail/serialize_archive.h>
#include <troupe/detail/serialize_fields.h>

namespace troupe::detail {

static_assert(std::endian::native == std::endian::little,
              "the encoding is little-endian and copied as it lies in memory");

inline constexpr std::size_t kNotFixed = std::numeric_limits<std::size_t>::max();

/// Specialized for types that ride beside the bytes (Array, ObjectRef, ActorHandle):
///   static void size(Sizer&, const T&);  static void write(Writer&, const T&);  static void read(Reader&, T&);
///   static constexpr std::size_t kMinSize = ...;   optional: the least number of bytes that write puts into the body
template <class T> struct Attached;
template <class T> inline constexpr bool kIsAttached = requires { sizeof(Attached<T>); };

enum class Kind { kNone, kScalar, kAttached, kMember, kFree, kAggregate };

template <class T> concept HasMemberSerialize = requires(T& value, Sizer& ar) { value.serialize(ar); };
template <class T> concept HasFreeSerialize = requires(T& value, Sizer& ar) { serialize(ar, value); };

template <class T> constexpr Kind kind_of() {
  if constexpr (!std::is_same_v<T, std::remove_cvref_t<T>>) return Kind::kNone;
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) return Kind::kScalar;
  else if constexpr (!std::is_class_v<T>) return Kind::kNone;
  else if constexpr (kIsAttached<T>) return Kind::kAttached;
  else if constexpr (HasMemberSerialize<T>) return std::is_default_constructible_v<T> ? Kind::kMember : Kind::kNone;
  else if constexpr (HasFreeSerialize<T>) return std::is_default_constructible_v<T> ? Kind::kFree : Kind::kNone;
  else if constexpr (std::is_aggregate_v<T>) return arity<T>() >= 0 ? Kind::kAggregate : Kind::kNone;
  else return Kind::kNone;
}

template <class T> inline constexpr std::size_t kFixed = Codec<T>::fixed();
template <class T> inline constexpr std::size_t kMin = Codec<T>::min();
template <class T> inline constexpr bool kBulk = Codec<T>::bulk();
template <class T, class... Open> inline constexpr bool kSupported = Codec<T>::template supported<Open...>();

/// Scalars of a stale or foreign sender may hold anything; after a failure they hold nothing.
template <class T> void make_empty(T& value) {
  if constexpr (requires { value.begin(); value.size(); } || std::is_array_v<T>) {
    for (auto& element : value) make_empty(element);
  } else {
    value = T();
  }
}

/// A row of values one after the other: the fields of an aggregate, the members of a pair, one element of a container.
template <class... Ts> struct Row {
  static constexpr bool kHasFixed = ((kFixed<Ts> != kNotFixed) && ...);
  static constexpr std::size_t kFixedSum = kHasFixed ? (kFixed<Ts> + ... + 0) : kNotFixed;
  static constexpr std::size_t kMinSum = (kMin<Ts> + ... + 0);

  static void size(Sizer& sizer, const Ts&... values) {
    if constexpr (kHasFixed) sizer.add(kFixedSum);
    else (Codec<Ts>::size(sizer, values), ...);
  }
  static void write(Writer& writer, const Ts&... values) {
    if constexpr (kHasFixed) store(writer.take(kFixedSum), values...);
    else (Codec<Ts>::write(writer, values), ...);
  }
  static void read(Reader& reader, Ts&... values) {
    if constexpr (kHasFixed) {
      if constexpr (kFixedSum > 0) {
        const std::byte* from = reader.take(kFixedSum);
        if (from && load(from, values...)) return;
        reader.fail("has a flag that is neither 0 nor 1");
        (make_empty(values), ...);
      }
    } else {
      (Codec<Ts>::read(reader, values), ...);
    }
  }
  static void store([[maybe_unused]] std::byte* to, const Ts&... values) {
    ((Codec<Ts>::store(to, values), to += kFixed<Ts>), ...);
  }
  static bool load([[maybe_unused]] const std::byte* from, Ts&... values) {
    bool good = true;
    ((good &= Codec<Ts>::load(from, values), from += kFixed<Ts>), ...);
    return good;
  }
};

template <class List> struct RowOf;
template <class... Ts> struct RowOf<TypeList<Ts...>> {
  using type = Row<Ts...>;
  template <class... Open> static constexpr bool supported() { return (kSupported<Ts, Open...> && ...); }
  static constexpr bool bulk() { return (kBulk<Ts> && ...); }
  static constexpr std::size_t kSizeOf = (sizeof(Ts) + ... + 0);
};

template <class T, Kind kKind = kind_of<T>()> struct PlainCodec;

/// Everything that is not of the standard library.
template <class T> struct Codec : PlainCodec<T> {};

template <class T> struct PlainCodec<T, Kind::kNone> {
  template <class...> static constexpr bool supported() { return false; }
  static constexpr std::size_t fixed() { return kNotFixed; }
  static constexpr std::size_t min() { return 0; }
  static constexpr bool bulk() { return false; }
  // Nothing follows the one error message of require_serializable.
  template <class U> static void size(Sizer&, const U&) {}
  template <class U> static void write(Writer&, const U&) {}
  template <class U> static void read(Reader&, U&) {}
};

template <class T> constexpr void require_serializable() {
  static_assert(
      kSupported<T>,
      "troupe cannot serialize this type: it must be a scalar, enum, string, standard container, optional, variant, "
      "pair, tuple, unique_ptr or chrono duration of serializable types; an aggregate (no constructors, bases or "
      "private members, at most 64 serializable fields); or a default constructible class with "
      "`template <class Archive> void serialize(Archive& ar)`. Pointers, references, views and threads mean nothing in "
      "another process.");
}

template <class T> constexpr bool is_flag() {
  if constexpr (std::is_enum_v<T>) return std::is_same_v<std::underlying_type_t<T>, bool>;
  else return std::is_same_v<T, bool>;
}

template <class T> struct PlainCodec<T, Kind::kScalar> {
  // x87 long double: ten bytes of value and six of padding, which must not leak memory.
  static constexpr bool kPadded = std::is_same_v<T, long double> && std::numeric_limits<T>::digits == 64;

  template <class...> static constexpr bool supported() { return true; }
  static constexpr std::size_t fixed() { return sizeof(T); }
  static constexpr std::size_t min() { return sizeof(T); }
  static constexpr bool bulk() { return !is_flag<T>() && !kPadded; }
  static void size(Sizer& sizer, const T&) { sizer.add(sizeof(T)); }
  static void write(Writer& writer, const T& value) { store(writer.take(sizeof(T)), value); }
  static void read(Reader& reader, T& value) { Row<T>::read(reader, value); }
  static void store(std::byte* to, const T& value) {
    std::memcpy(to, &value, kPadded ? 10 : sizeof(T));
    if constexpr (kPadded) std::memset(to + 10, 0, sizeof(T) - 10);
  }
  static bool load(const std::byte* from, T& value) {
    if constexpr (is_flag<T>()) {
      value = static_cast<T>(*from == std::byte{1});
      return *from <= std::byte{1};
    } else {
      std::memcpy(&value, from, sizeof(T));
      return true;
    }
  }
};

template <class T> struct PlainCodec<T, Kind::kAttached> {
  template <class...> static constexpr bool supported() { return true; }
  static constexpr std::size_t fixed() { return kNotFixed; }  // it must be seen by every archive
  static constexpr std::size_t min() {
    if constexpr (requires { Attached<T>::kMinSize; }) return Attached<T>::kMinSize;
    else return 0;
  }
  static constexpr bool bulk() { return false; }
  static void size(Sizer& sizer, const T& value) { Attached<T>::size(sizer, value); }
  static void write(Writer& writer, const T& value) { Attached<T>::write(writer, value); }
  static void read(Reader& reader, T& value) { Attached<T>::read(reader, value); }
};

/// Classes with invariants say themselves what they consist of. One function serves reading and writing, hence the
/// cast: with a Sizer or Writer it cannot change the value through the archive, which takes const references.
template <class T> struct UserCodec {
  template <class...> static constexpr bool supported() { return true; }
  static constexpr std::size_t fixed() { return kNotFixed; }
  static constexpr std::size_t min() { return 0; }
  static constexpr bool bulk() { return false; }
  static void size(Sizer& sizer, const T& value) {
    sizer.enter();
    call(sizer, const_cast<T&>(value));
    sizer.leave();
  }
  static void write(Writer& writer, const T& value) { call(writer, const_cast<T&>(value)); }
  static void read(Reader& reader, T& value) {
    reader.enter();
    if (!reader.failed()) call(reader, value);
    reader.leave();
  }

 private:
  template <class Archive> static void call(Archive& ar, T& value) {
    if constexpr (HasMemberSerialize<T>) value.serialize(ar);
    else serialize(ar, value);
  }
};
template <class T> inline constexpr bool kCountsItsDepth = std::is_base_of_v<UserCodec<T>, Codec<T>>;
template <class T> struct PlainCodec<T, Kind::kMember> : UserCodec<T> {};
template <class T> struct PlainCodec<T, Kind::kFree> : UserCodec<T> {};

template <class T> struct PlainCodec<T, Kind::kAggregate> {
  using Visit = Fields<arity<T>()>;
  using Types = RowOf<FieldsOf<T>>;
  using Values = typename Types::type;

  template <class... Open> static constexpr bool supported() {
    if constexpr ((std::is_same_v<T, Open> || ...)) return true;
    else return Types::template supported<T, Open...>();
  }
  static constexpr std::size_t fixed() { return Values::kFixedSum; }
  static constexpr std::size_t min() { return Values::kMinSum; }
  static constexpr bool bulk() {
    if constexpr (std::is_trivially_copyable_v<T> && Types::kSizeOf == sizeof(T)) return Types::bulk();
    else return false;
  }
  static void size(Sizer& sizer, const T& value) {
    if constexpr (Values::kHasFixed) sizer.add(Values::kFixedSum);
    else Visit::visit(value, [&](const auto&... fields) { Values::size(sizer, fields...); });
  }
  static void write(Writer& writer, const T& value) {
    if constexpr (Values::kHasFixed) store(writer.take(Values::kFixedSum), value);
    else Visit::visit(value, [&](const auto&... fields) { Values::write(writer, fields...); });
  }
  static void read(Reader& reader, T& value) {
    Visit::visit(value, [&](auto&... fields) { Values::read(reader, fields...); });
  }
  static void store(std::byte* to, const T& value) {
    if constexpr (bulk()) std::memcpy(to, &value, sizeof(T));
    else Visit::visit(value, [&](const auto&... fields) { Values::store(to, fields...); });
  }
  static bool load(const std::byte* from, T& value) {
    if constexpr (bulk()) {
      std::memcpy(&value, from, sizeof(T));
      return true;
    } else {
      return Visit::visit(value, [&](auto&... fields) { return Values::load(from, fields...); });
    }
  }
};

}  // namespace troupe::detail
