// Values of command line flags: sizes and lists of key=value.
//
// Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <troupe/result.h>

namespace troupe::cli {

/// "2GB", "512MiB", "1.5g", "4096": bytes. Units are powers of 1024, with or without "B" or "iB", in either case.
Result<std::uint64_t> parse_size(std::string_view text);

/// "zone=b,disk=ssd". Keys must be there, once each; values may be empty.
Result<std::map<std::string, std::string>> parse_pairs(std::string_view text);

/// The same with non-negative numbers.
Result<std::map<std::string, double>> parse_amounts(std::string_view text);

/// 1536 -> "1.5 KiB".
std::string size_text(std::uint64_t bytes);

}  // namespace troupe::cli
