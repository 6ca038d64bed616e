// The name of a type as the compiler spells it, for messages only: names collide, so nothing is ever looked up by one.
#pragma once
#include <string_view>

namespace troupe::detail {

template <class T>
constexpr std::string_view type_name() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr std::size_t from = whole.find("T = ") + 4;
  constexpr std::size_t semicolon = whole.find(';', from);  // g++ lists further aliases after one
  constexpr std::size_t to = semicolon == std::string_view::npos ? whole.rfind(']') : semicolon;
  return whole.substr(from, to - from);
}

}  // namespace troupe::detail
