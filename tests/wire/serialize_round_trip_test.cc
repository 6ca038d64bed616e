// Every serializable type comes back as it went.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/wire/samples.h"

namespace troupe {
namespace {

using namespace samples;

template <class T> T round_trip(const T& value) {
  const std::vector<std::byte> bytes = detail::encode(value);
  Result<T> back = detail::decode<T>(bytes);
  if (!back.ok()) {
    ADD_FAILURE() << back.error().what();
    return T{};
  }
  EXPECT_EQ(detail::encode(*back), bytes);
  return std::move(*back);
}
template <class T> void survives(const T& value) { EXPECT_TRUE(round_trip(value) == value) << detail::type_name<T>(); }

template <class T> void survives_at_its_limits() {
  for (const T value : {std::numeric_limits<T>::lowest(), T(0), T(1), std::numeric_limits<T>::max()}) survives(value);
}

TEST(RoundTrip, Scalars) {
  survives_at_its_limits<char>();
  survives_at_its_limits<signed char>();
  survives_at_its_limits<unsigned char>();
  survives_at_its_limits<std::int16_t>();
  survives_at_its_limits<std::uint16_t>();
  survives_at_its_limits<std::int32_t>();
  survives_at_its_limits<std::uint32_t>();
  survives_at_its_limits<std::int64_t>();
  survives_at_its_limits<std::uint64_t>();
  survives_at_its_limits<float>();
  survives_at_its_limits<double>();
  survives_at_its_limits<long double>();
  survives(true);
  survives(false);
  survives(L'x');
  survives(char8_t{'y'});
  survives(std::byte{200});
  survives(Color::kGreen);
  survives(kOldB);
  EXPECT_TRUE(std::isnan(round_trip(std::nan(""))));
  EXPECT_TRUE(std::signbit(round_trip(-0.0)));
}

TEST(RoundTrip, StringsAndDurations) {
  survives(std::string());
  survives(std::string("text\0with a zero", 16));
  survives(std::string(300'000, 'x'));
  survives(std::u16string(u"sixteen"));
  survives(std::chrono::nanoseconds(-5));
  survives(std::chrono::hours(7));
  survives(std::chrono::duration<double>(0.25));
  survives(std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000)));
  survives(std::vector<std::chrono::milliseconds>{std::chrono::milliseconds(1), std::chrono::milliseconds(-1)});
}

TEST(RoundTrip, Sequences) {
  survives(std::vector<int>());
  survives(std::vector<int>{1, -2, 3});
  survives(std::vector<double>(300'000, 0.5));  // above the cut-over of copy_bytes
  survives(std::vector<std::string>{"", "a", "bb"});
  survives(std::vector<std::vector<Inner>>{{}, {{1, "x"}}});
  survives(std::vector<Point>{{1, 2, 3}, {4, 5, 6}});
  survives(std::vector<Gaps>{{'a', 1, true}, {'b', 2, false}});
  survives(std::vector<std::pair<int, char>>{{1, 'a'}, {2, 'b'}});
  survives(std::deque<int>{1, 2, 3});
  survives(std::list<std::string>{"a", "b"});
  survives(std::array<int, 3>{1, 2, 3});
  survives(std::array<std::string, 2>{"a", "b"});
  survives(std::array<bool, 3>{true, false, true});
  survives(std::array<std::string, 0>{});
  survives(std::vector<std::array<int, 0>>(3));
}

TEST(RoundTrip, VectorOfBool) {
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<bool> bits(n);
    for (std::size_t i = 0; i < n; ++i) bits[i] = i * i % 3 == 1;
    survives(bits);
    EXPECT_EQ(detail::encode(bits).size(), 4 + (n + 7) / 8);
  }
}

TEST(RoundTrip, SetsAndMaps) {
  survives(std::set<int>{3, 1, 2});
  survives(std::set<std::string, std::greater<>>{"a", "b"});
  survives(std::multiset<int>{1, 1, 2});
  survives(std::map<std::string, Inner>{{"a", {1, "x"}}, {"", {2, "y"}}});
  survives(std::multimap<int, std::string>{{1, "first"}, {1, "second"}});
  survives(std::map<int, Empty>{{1, {}}, {2, {}}});
  std::unordered_map<std::string, int> map;
  std::unordered_set<int> set;
  for (int i = 0; i < 1000; ++i) map[std::to_string(i)] = i, set.insert(i);
  EXPECT_EQ(*detail::decode<decltype(map)>(detail::encode(map)), map);
  EXPECT_EQ(*detail::decode<decltype(set)>(detail::encode(set)), set);
  const std::unordered_multimap<int, int> multi{{1, 1}, {1, 2}, {2, 3}};
  EXPECT_EQ(*detail::decode<std::remove_const_t<decltype(multi)>>(detail::encode(multi)), multi);
  const std::unordered_multiset<int> bag{1, 1, 2};
  EXPECT_EQ(*detail::decode<std::unordered_multiset<int>>(detail::encode(bag)), bag);
}

TEST(RoundTrip, SumsAndProducts) {
  survives(std::optional<int>());
  survives(std::optional<std::string>("x"));
  survives(std::optional<std::optional<int>>(std::optional<int>()));
  survives(std::variant<int, std::string, Inner>(Inner{3, "z"}));
  survives(std::variant<std::monostate, int>());
  survives(std::pair<int, std::string>(1, "p"));
  survives(std::tuple<>());
  survives(std::tuple<int, std::string, std::vector<bool>>(1, "t", {true}));
  EXPECT_EQ(*round_trip(std::make_unique<std::string>("held")), "held");
  EXPECT_EQ(round_trip(std::unique_ptr<int>()), nullptr);
}

TEST(RoundTrip, Aggregates) {
  survives(Empty{});
  survives(std::vector<Empty>(5));
  survives(Inner{1, "x"});
  survives(Point{1, 2, 3});
  survives(Gaps{'a', -1, true});
  survives(CArrays{{1, 2, 3}, "name", {{1, "a"}, {2, "b"}}, 4});
  survives(deep());
  survives(tree());
}

TEST(RoundTrip, ClassesWithSerialize) {
  survives(Account(250));
  survives(Item(9));
  survives(std::vector<Item>{Item(1), Item(2)});
  survives(std::map<std::string, Account>{{"Ada", Account(1)}});
  survives(HasItem{1, Item(7), "after"});
  EXPECT_EQ(round_trip(List(100)).depth(), 100);
}

TEST(RoundTrip, ErrorRecord) {
  ErrorRecord record;
  record.code = ErrorCode::kActorDied;
  record.message = "died";
  record.context.function = "f";
  record.context.pid = 12;
  record.context.log_tail = {"a", "b"};
  record.type_bases = {"St9exception"};
  record.outcome = Outcome::kNotExecuted;
  const ErrorRecord back = round_trip(record);
  EXPECT_EQ(back.code, ErrorCode::kActorDied);
  EXPECT_EQ(back.context.log_tail, record.context.log_tail);
  EXPECT_EQ(back.type_bases, record.type_bases);
  EXPECT_EQ(back.outcome, Outcome::kNotExecuted);
}

TEST(RoundTrip, DecodingReplacesWhatWasThere) {
  const auto bytes = detail::encode(std::map<int, int>{{1, 1}});
  std::map<int, int> value{{7, 7}};
  detail::Reader reader(bytes);
  reader(value);
  EXPECT_EQ(value, (std::map<int, int>{{1, 1}}));
}

}  // namespace
}  // namespace troupe
