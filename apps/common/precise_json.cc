#include "apps/common/precise_json.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

namespace apps {
namespace {

namespace json = boost::json;

using Failed = boost::system::error_code;

/// Puts a value together of what the parser finds (the names are the parser's). Its limits are the memory's.
class ValueHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = max_object_size, max_key_size = max_object_size,
                               max_string_size = max_object_size;

  ValueHandler() { stack_.reset(); }
  json::value release() { return stack_.release(); }

  bool on_document_begin(Failed&) { return true; }
  bool on_document_end(Failed&) { return true; }
  bool on_object_begin(Failed&) { return true; }
  bool on_object_end(std::size_t members, Failed&) { return stack_.push_object(members), true; }
  bool on_array_begin(Failed&) { return true; }
  bool on_array_end(std::size_t elements, Failed&) { return stack_.push_array(elements), true; }
  bool on_key_part(json::string_view part, std::size_t, Failed&) { return stack_.push_chars(part), true; }
  bool on_key(json::string_view last, std::size_t, Failed&) { return stack_.push_key(last), true; }
  bool on_string_part(json::string_view part, std::size_t, Failed&) { return stack_.push_chars(part), true; }
  bool on_string(json::string_view last, std::size_t, Failed&) { return stack_.push_string(last), true; }
  bool on_number_part(json::string_view part, Failed&) { return number_.append(part.data(), part.size()), true; }
  bool on_int64(std::int64_t number, json::string_view, Failed&) {
    number_.clear();
    return stack_.push_int64(number), true;
  }
  bool on_uint64(std::uint64_t number, json::string_view, Failed&) {
    number_.clear();
    return stack_.push_uint64(number), true;
  }
  bool on_double(double, json::string_view last, Failed& failed) {
    number_.append(last.data(), last.size());
    const double nearest = std::strtod(number_.c_str(), nullptr);
    number_.clear();
    if (!std::isfinite(nearest)) {  // PJS-2: it could not be written again
      failed = json::error::exponent_overflow;
      return false;
    }
    return stack_.push_double(nearest), true;
  }
  bool on_bool(bool value, Failed&) { return stack_.push_bool(value), true; }
  bool on_null(Failed&) { return stack_.push_null(), true; }
  bool on_comment_part(json::string_view, Failed&) { return true; }
  bool on_comment(json::string_view, Failed&) { return true; }

 private:
  json::value_stack stack_;
  std::string number_;  // its parts so far
};

}  // namespace

json::value parse_json(std::string_view text, Failed& failed) {
  json::basic_parser<ValueHandler> parser{json::parse_options()};
  const std::size_t used = parser.write_some(false, text.data(), text.size(), failed);
  if (!failed && used < text.size()) failed = json::error::extra_data;
  return failed ? json::value() : parser.handler().release();
}

json::value parse_json(std::string_view text) {
  Failed failed;
  json::value out = parse_json(text, failed);
  if (failed) throw boost::system::system_error(failed);
  return out;
}

}  // namespace apps
