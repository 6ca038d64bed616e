// JBC-2 and PJS-1: whatever stands where a configuration is wanted, it is one that comes back as it was, or a typed
// error; and JSON is what Boost takes for it, with the same values but for the last bits of doubles.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "apps/common/precise_json.h"
#include "apps/datagen/config/job_config.h"
#include "core/base/check.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using fuzz::Input;
namespace json = boost::json;

constexpr std::string_view kValid =
    R"({"format":{"libraries":{"zstd":"1.5"},"name":"jsonl","settings":{"level":3},"version":1},"generator":)"
    R"({"identity":{"policy_sha256":"00ff"},"name":"numbers","settings":{"scale":9.406938033585421E-1,)"
    R"("word":"x\u00e9"},"version":1},"glibc":"2.36","isa":"reference","plan":{"samples":95,)"
    R"("samples_per_shard":10},"seed":18446744073709551615,"version":1})";

bool same(const json::value& a, const json::value& b) {
  if (a.is_double() && b.is_double()) {
    const double x = a.get_double(), y = b.get_double();
    return x == y || std::abs(x - y) <= 1e-12 * std::abs(x) || !std::isfinite(x) || !std::isfinite(y) ||
           std::abs(x) < 1e-290 || std::abs(x) > 1e290;
  }
  if (a.is_array() && b.is_array()) {
    bool all = a.get_array().size() == b.get_array().size();
    for (std::size_t i = 0; all && i < a.get_array().size(); ++i) all = same(a.get_array()[i], b.get_array()[i]);
    return all;
  }
  if (a.is_object() && b.is_object()) {
    bool all = a.get_object().size() == b.get_object().size();
    for (const auto& [key, value] : a.get_object())
      all = all && b.get_object().contains(key) && same(value, b.get_object().at(key));
    return all;
  }
  return a == b;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::vector<std::byte> bytes;
  const bool raw = input.byte() % 4 == 0;
  if (raw) bytes = input.rest();
  else for (const char c : kValid) bytes.push_back(std::byte(c));
  const bool untouched = !raw && fuzz::edit_all(bytes, input);
  const fuzz::Exact exact(bytes);
  const std::string_view text(reinterpret_cast<const char*>(exact.view().data()), bytes.size());

  boost::system::error_code ours_failed, boosts_failed;
  const json::value ours = apps::parse_json(text, ours_failed), boosts = json::parse({text.data(), text.size()},
                                                                                   boosts_failed);
  const bool beyond = ours_failed == json::error::exponent_overflow;  // PJS-2
  TROUPE_CHECK(beyond || ours_failed == boosts_failed, "the same is JSON");
  TROUPE_CHECK(beyond || same(ours, boosts), "and says the same");
  if (!ours_failed) TROUPE_CHECK(apps::parse_json(json::serialize(ours)) == ours, "PJS-1");

  const fuzz::MemoryWatch memory;
  const auto config = datagen::job_from(text);
  memory.require(256 * bytes.size() + (256 << 10), "a configuration");
  TROUPE_CHECK(!untouched || config.ok(), "what was written is read");
  if (!config.ok()) {
    TROUPE_CHECK(config.error().code() == ErrorCode::kInvalidArgument, "JBC-2: a typed error");
    return 0;
  }
  const auto again = datagen::job_from(config->canonical());
  TROUPE_CHECK(again.ok() && again->canonical() == config->canonical(), "JBC-2: it comes back as it was");
  TROUPE_CHECK(datagen::differences(*config, *again).empty(), "JBC-3");
  return 0;
}
