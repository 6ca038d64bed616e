// Types and values that the tests of the codec share.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
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

#include <troupe/serialize.h>

namespace troupe::samples {

enum class Color : std::uint8_t { kRed, kGreen };
enum Old { kOldA, kOldB = 1000 };

struct Empty {
  bool operator==(const Empty&) const = default;
};
struct Inner {
  int n = 0;
  std::string s;
  bool operator==(const Inner&) const = default;
};
struct Point {  // trivially copyable, no padding: copied as it lies
  float x = 0, y = 0;
  std::int32_t tag = 0;
  bool operator==(const Point&) const = default;
};
struct Gaps {  // padding, a bool: field by field
  char c = 0;
  std::int64_t wide = 0;
  bool b = false;
  bool operator==(const Gaps&) const = default;
};
struct CArrays {
  int numbers[3] = {};
  char name[8] = {};
  Inner inners[2];
  int last = 0;
  bool operator==(const CArrays&) const = default;
};
struct Tree {
  int value = 0;
  std::vector<Tree> children;
  std::unique_ptr<Tree> left;
  std::map<std::string, Tree> named;
  bool operator==(const Tree& o) const {
    return value == o.value && children == o.children && named == o.named &&
           (left ? o.left && *left == *o.left : o.left == nullptr);
  }
};
class Account {
 public:
  Account() = default;
  explicit Account(int cents) : cents_(cents), owner_("owner of " + std::to_string(cents)) {}
  template <class Archive> void serialize(Archive& ar) {
    ar(cents_, owner_);
    if constexpr (Archive::kReading) {
      if (cents_ < 0) ar.fail("has a negative balance");
    }
  }
  bool operator==(const Account&) const = default;

 private:
  int cents_ = 0;
  std::string owner_;
};
class Item {
 public:
  explicit Item(int price = 0) : price_(price) {}
  bool operator==(const Item&) const = default;

 private:
  int price_ = 0;
  template <class Archive> friend void serialize(Archive& ar, Item& item) { ar(item.price_); }
};
struct HasItem {  // Item's default constructor is explicit: no `{}` for it
  int before = 0;
  Item item{5};
  std::optional<std::string> after;
  bool operator==(const HasItem&) const = default;
};
class List {  // recursive through its own serialize
 public:
  List() = default;
  explicit List(int depth) {
    if (depth > 1) next_ = std::make_unique<List>(depth - 1);
  }
  int depth() const { return 1 + (next_ ? next_->depth() : 0); }
  template <class Archive> void serialize(Archive& ar) { ar(next_); }

 private:
  std::unique_ptr<List> next_;
};

struct Deep {
  std::map<std::string, std::vector<std::optional<int>>> table;
  std::unordered_map<int, std::string> names;
  std::deque<std::pair<int, double>> pairs;
  std::list<std::variant<int, std::string, Inner>> mixed;
  std::set<std::string> keys;
  std::array<std::int16_t, 3> small{};
  std::tuple<char, bool, float> three;
  Color color = Color::kRed;
  std::chrono::milliseconds span{};
  std::vector<Inner> inner;
  std::vector<bool> bits;
  std::vector<double> numbers;
  Gaps gaps;
  bool operator==(const Deep&) const = default;
};

inline Deep deep() {
  return {{{"a", {1, std::nullopt, 3}}, {"", {}}},
          {{1, "one"}},
          {{1, 0.5}, {2, -0.0}},
          {4, "text", Inner{5, "in"}},
          {"k", "l"},
          {1, -2, 3},
          {'c', true, 2.5f},
          Color::kGreen,
          std::chrono::milliseconds(250),
          {{1, "x"}, {2, "y"}},
          {true, false, true, true, false, false, false, false, true},
          {0.1, 1e300, -1},
          {'g', -7, true}};
}

inline Tree tree() {
  Tree t;
  t.value = 4;
  t.children.resize(2);
  t.children[1].value = 9;
  t.left = std::make_unique<Tree>();
  t.named["x"].value = 11;
  return t;
}

}  // namespace troupe::samples
