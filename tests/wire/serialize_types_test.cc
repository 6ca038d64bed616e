// Which types can be sent, decided at compile time: Serializable is true or false, never a hard error.
#include <any>
#include <functional>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "tests/wire/samples.h"

namespace troupe {
namespace {

using namespace samples;

class Closed {
 public:
  Closed() : fd_(0) {}
  int fd() const { return fd_; }

 private:
  int fd_;
};
class NoDefault {
 public:
  explicit NoDefault(int) {}
  template <class Archive> void serialize(Archive&) {}
};
struct WithPointer { int* p = nullptr; };
struct WithThread { std::thread t; };
struct WithReference { int& r; };
struct WithConst { const int c = 3; };
struct WithAny { std::string s; std::any a; };
struct WithFunction { std::function<void()> f; };
struct WithView { std::string_view v; };
struct DeepPointer { std::map<int, std::vector<std::optional<WithPointer>>> m; };
struct Base { int b = 0; };
struct Derived : Base { int d = 0; };
struct Polymorphic { virtual ~Polymorphic() = default; };
union Either { int i; float f; };
struct Greedy {  // takes anything: must not confuse the count of fields
  Greedy() = default;
  template <class T> Greedy(T&&) {}
  template <class Archive> void serialize(Archive&) {}
};
struct WithGreedy { int a = 0; Greedy g; std::optional<Greedy> o; int z = 0; };
struct Arrays { std::array<std::array<int, 2>, 3> a{}; Point p; int z = 0; };
struct OneOptional { std::optional<std::optional<int>> o; };
struct OneAggregate { Point p; };
struct OneVariant { std::variant<int, std::string> v; };
struct Self { std::vector<Self> selves; };

// clang-format off
struct Fields64 { int a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7,
    d0, d1, d2, d3, d4, d5, d6, d7,
                      e0, e1, e2, e3, e4, e5, e6, e7, f0, f1, f2, f3, f4, f5, f6, f7, g0, g1, g2, g3, g4, g5, g6, g7,
                          h0, h1, h2, h3, h4, h5, h6; std::string h7; };
struct Fields65 { int a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7,
    d0, d1, d2, d3, d4, d5, d6, d7,
                      e0, e1, e2, e3, e4, e5, e6, e7, f0, f1, f2, f3, f4, f5, f6, f7, g0, g1, g2, g3, g4, g5, g6, g7,
                          h0, h1, h2, h3, h4, h5, h6, h7, i0; };
// clang-format on

template <class... Ts> constexpr bool all = (Serializable<Ts> && ...);
template <class... Ts> constexpr bool none = (!Serializable<Ts> && ...);

static_assert(all<bool, char, signed char, std::int8_t, std::uint64_t, wchar_t, char8_t, float, double, long double,
                  Color, Old, std::byte>);
static_assert(all<std::string, std::wstring, std::chrono::nanoseconds, std::chrono::duration<double>,
                  std::chrono::system_clock::time_point>);
static_assert(all<std::array<int, 3>, std::array<std::string, 0>, std::vector<int>, std::vector<bool>,
                  std::deque<std::string>, std::list<Inner>>);
static_assert(all<std::map<int, Inner>, std::multimap<int, int>, std::set<int>, std::multiset<std::string>>);
static_assert(all<std::unordered_map<std::string, int>, std::unordered_multimap<int, int>, std::unordered_set<int>,
                  std::unordered_multiset<int>>);
static_assert(all<std::optional<int>, std::variant<std::monostate, int>, std::pair<int, Inner>, std::tuple<>,
                  std::tuple<int, Inner>, std::unique_ptr<Inner>>);
static_assert(all<Empty, Inner, Point, Gaps, CArrays, Tree, Account, Item, HasItem, List, Deep, WithGreedy, Arrays,
                  OneOptional, OneAggregate, OneVariant, Self, Fields64>);
static_assert(all<ErrorRecord, ErrorContext>);

static_assert(
    none<void, int*, const char*, int&, const int&, int&&, const int, void (*)(), int(), int Inner::*, std::nullptr_t>);
static_assert(none<std::thread, std::mutex, std::any, std::function<void()>, std::string_view, std::span<int>,
                   std::shared_ptr<int>>);
static_assert(none<Closed, NoDefault, WithPointer, WithThread, WithReference, WithConst, WithAny, WithFunction,
                   WithView, DeepPointer>);
static_assert(none<Derived, Either, Polymorphic, Fields65, std::unique_ptr<Polymorphic>, std::unique_ptr<int[]>>);
static_assert(none<std::vector<int*>, std::map<std::string, std::thread>, std::optional<Closed>,
                   std::variant<int, int*>, std::pair<int, Closed>, std::tuple<int&>, std::array<int*, 2>,
                   std::set<const char*>, std::unique_ptr<Closed>>);
static_assert(none<std::chrono::steady_clock::time_point>, "it means nothing on another machine");

TEST(Serializable, CountsTheFieldsOfAggregates) {
  using detail::arity;
  EXPECT_EQ(arity<Empty>(), 0);
  EXPECT_EQ(arity<Inner>(), 2);
  EXPECT_EQ(arity<CArrays>(), 4);
  EXPECT_EQ(arity<Tree>(), 4);
  EXPECT_EQ(arity<HasItem>(), 3);
  EXPECT_EQ(arity<WithGreedy>(), 4);
  EXPECT_EQ(arity<Arrays>(), 3);
  EXPECT_EQ(arity<OneOptional>(), 1);
  EXPECT_EQ(arity<OneAggregate>(), 1);
  EXPECT_EQ(arity<OneVariant>(), 1);
  EXPECT_EQ(arity<Deep>(), 13);
  EXPECT_EQ(arity<Fields64>(), 64);
  EXPECT_EQ(arity<Fields65>(), -1);
  EXPECT_EQ(arity<Derived>(), -1);
}

TEST(Serializable, ConstrainsTemplates) {
  const auto can = []<class T>(const T&) { return requires { requires Serializable<T>; }; };
  EXPECT_TRUE(can(Inner{}));
  EXPECT_FALSE(can(Closed{}));
}

TEST(Serializable, FixedSizesAreKnownWhenCompiled) {
  static_assert(detail::kFixed<int> == 4);
  static_assert(detail::kFixed<std::pair<int, int>> == 8);
  static_assert(detail::kFixed<Gaps> == 10, "no padding is sent");
  static_assert(detail::kFixed<Empty> == 0);
  static_assert(detail::kFixed<std::array<Point, 4>> == 48);
  static_assert(detail::kFixed<Inner> == detail::kNotFixed);
  static_assert(detail::kBulk<Point> && detail::kBulk<std::array<Point, 4>>);
  static_assert(!detail::kBulk<Gaps> && !detail::kBulk<bool> && !detail::kBulk<Empty>);
  EXPECT_EQ(detail::encoded_size(1, std::pair(2, 3)), 12u);
}

TEST(TypeName, IsWhatTheUserWrote) {
  EXPECT_EQ(detail::type_name<int>(), "int");
  EXPECT_EQ(detail::type_name<samples::Inner>(), "troupe::samples::Inner");
}

}  // namespace
}  // namespace troupe
