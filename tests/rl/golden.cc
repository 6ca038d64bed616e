#include "tests/rl/golden.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <boost/json/basic_parser_impl.hpp>

namespace golden {
namespace {

std::filesystem::path folder() {
  const char* named = std::getenv("TROUPE_GOLDEN_DIR");
  if (named == nullptr || *named == '\0') return std::filesystem::path(TROUPE_DEFAULT_GOLDEN_DIR) / "rl";
  const std::filesystem::path root(named);
  return std::filesystem::is_directory(root / "rl") ? root / "rl" : root;
}

Kind kind_of(const json::object& file) {
  if (file.contains("trajectories")) return Kind::kEnvironment;
  if (file.contains("game")) return Kind::kMinAtar;
  if (file.contains("pictures")) return Kind::kPictures;
  if (file.contains("updates")) return Kind::kUpdates;
  if (file.contains("seeds")) return Kind::kRandom;
  if (file.contains("settings") && file.contains("params")) return Kind::kPpo;
  const json::value* cases = file.if_contains("cases");
  if (cases == nullptr || !cases->is_array() || cases->as_array().empty()) return Kind::kUnknown;
  const json::object& first = cases->as_array().front().as_object();
  if (first.contains("mode")) return Kind::kAutoReset;
  if (first.contains("last_value")) return Kind::kGae;
  if (first.contains("rho_bar")) return Kind::kVtrace;
  if (first.contains("n_step")) return Kind::kDqn;
  if (first.contains("abs_td_error")) return Kind::kReplay;
  if (first.contains("log_std")) return Kind::kSac;
  if (first.contains("run_of")) return Kind::kStatistics;
  return Kind::kUnknown;
}

// Builds the value as boost::json::parse does, but reads floats with from_chars: Boost 1.81's own conversion can be
// off by one unit in the last place, and the recorded floats are to be compared bit for bit.
class ExactHandler {
 public:
  using view = json::string_view;
  using code = json::error_code;
  static constexpr std::size_t max_object_size = -1;
  static constexpr std::size_t max_array_size = -1;
  static constexpr std::size_t max_key_size = -1;
  static constexpr std::size_t max_string_size = -1;

  json::value release() { return stack_.release(); }

  bool on_document_begin(code&) { return stack_.reset(), true; }
  bool on_document_end(code&) { return true; }
  bool on_object_begin(code&) { return true; }
  bool on_object_end(std::size_t n, code&) { return stack_.push_object(n), true; }
  bool on_array_begin(code&) { return true; }
  bool on_array_end(std::size_t n, code&) { return stack_.push_array(n), true; }
  bool on_key_part(view s, std::size_t, code&) { return stack_.push_chars(s), true; }
  bool on_key(view s, std::size_t, code&) { return stack_.push_key(s), true; }
  bool on_string_part(view s, std::size_t, code&) { return stack_.push_chars(s), true; }
  bool on_string(view s, std::size_t, code&) { return stack_.push_string(s), true; }
  bool on_number_part(view s, code&) { return number_.append(s), true; }
  bool on_int64(std::int64_t v, view, code&) { return number_.clear(), stack_.push_int64(v), true; }
  bool on_uint64(std::uint64_t v, view, code&) { return number_.clear(), stack_.push_uint64(v), true; }
  bool on_double(double, view s, code&) {
    number_.append(s);
    double exact = 0;
    std::from_chars(number_.data(), number_.data() + number_.size(), exact);
    number_.clear();
    return stack_.push_double(exact), true;
  }
  bool on_bool(bool v, code&) { return stack_.push_bool(v), true; }
  bool on_null(code&) { return stack_.push_null(), true; }
  bool on_comment_part(view, code&) { return true; }
  bool on_comment(view, code&) { return true; }

 private:
  json::value_stack stack_;
  std::string number_;
};

json::value parse_exactly(const std::string& bytes, json::error_code& error) {
  json::basic_parser<ExactHandler> parser{json::parse_options()};
  parser.write_some(false, bytes.data(), bytes.size(), error);
  return error ? json::value() : parser.handler().release();
}

File read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  if (!in) throw std::runtime_error("cannot read " + path.string());
  json::error_code error;
  json::value parsed = parse_exactly(bytes, error);
  if (error || !parsed.is_object()) throw std::runtime_error(path.string() + " is no JSON object: " + error.message());
  File file{path, std::move(parsed.as_object()), Kind::kUnknown};
  file.kind = kind_of(file.content);
  return file;
}

std::vector<File> read_all() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw std::runtime_error("no recorded cases in " + folder().string());
  std::vector<File> out;
  for (const auto& path : paths) out.push_back(read(path));
  return out;
}

void append(const json::value& v, std::vector<double>& out) {
  if (v.is_array()) {
    for (const json::value& item : v.as_array()) append(item, out);
  } else {
    out.push_back(number(v));
  }
}

}  // namespace

const std::vector<File>& files() {
  static const std::vector<File> all = read_all();
  return all;
}

bool is_default_folder() {
  const char* named = std::getenv("TROUPE_GOLDEN_DIR");
  return named == nullptr || *named == '\0';
}

std::vector<const File*> files_of(Kind kind) {
  std::vector<const File*> out;
  for (const File& file : files()) {
    if (file.kind == kind) out.push_back(&file);
  }
  return out;
}

const json::value& at(const json::value& object, std::string_view key) { return object.as_object().at(key); }

double number(const json::value& v) {
  if (v.is_bool()) return v.as_bool() ? 1 : 0;
  return v.to_number<double>();
}

std::int64_t integer(const json::value& v) { return v.to_number<std::int64_t>(); }
std::string text(const json::value& v) { return std::string(v.as_string()); }
bool flag(const json::value& v) { return v.as_bool(); }

std::vector<double> numbers(const json::value& v) {
  std::vector<double> out;
  append(v, out);
  return out;
}

std::vector<std::uint8_t> flags(const json::value& v) {
  std::vector<std::uint8_t> out;
  for (double x : numbers(v)) out.push_back(x != 0);
  return out;
}

std::vector<float> floats(const json::value& v) {
  std::vector<float> out;
  for (double x : numbers(v)) out.push_back(static_cast<float>(x));
  return out;
}

}  // namespace golden
