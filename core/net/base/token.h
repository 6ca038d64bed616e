// The cluster token: 256 random bits that every TCP connection of a cluster proves to know. It lives in a file of mode
// 0600 in a folder of mode 0700 and in the memory of head and daemons; never in argv, in the environment, or in a log.
//
// Thread rule: a Token is a value; everything here may be called from any thread.
//
// Invariants
//   TK-1  Comparing takes the same time wherever two values differ.
//   TK-2  A file is read only when it is a regular file of this user, not reached through a link, without any right for
//         group and others, in a folder of this user that nobody else may enter or write; anything else is refused.
//   TK-3  Writing never follows a link and never overwrites.
//   TK-4  There is no way to format a Token into a stream or log by accident: only hex() gives its text.
//   TK-5  Its bytes lie in a page of their own kind, which the kernel leaves out of core dumps and, where the limit on
//         locked memory allows, never swaps; copies of a Token share them, the last one wipes them. What parse, files
//         and proofs make of them elsewhere is wiped before the function returns. (The text that hex() gives is its
//         caller's; a debugger of the same user sees everything.)
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/result.h>

namespace troupe::net {

/// Are the bytes equal? The time depends on the sizes alone. TK-1.
inline bool constant_time_equal(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<unsigned char>(a[i]), y = static_cast<unsigned char>(b[i]);
    difference = static_cast<unsigned char>(difference | (x ^ y));
    asm volatile("" : "+r"(difference));  // keeps the compiler from leaving the loop early
  }
  return difference == 0;
}

class Token {
 public:
  static constexpr std::size_t kBytes = 32;
  using Digest = std::array<std::uint8_t, 32>;

  /// From the kernel's random numbers.
  static Result<Token> make();
  /// 64 hexadecimal digits; InvalidArgumentError (which does not repeat the text) otherwise.
  static Result<Token> parse(std::string_view hex);
  /// Makes the file, mode 0600. The folder must exist, be this user's and 0700. InvalidArgumentError otherwise, or when
  /// the file exists. TK-3.
  Status write_file(const std::string& path) const;
  /// NotFoundError when there is none, UnauthenticatedError when TK-2 does not hold or the content is no token.
  static Result<Token> read_file(const std::string& path);

  Token() = default;                                    ///< no token: equals nothing, not even itself
  bool is_set() const noexcept { return bytes_ != nullptr; }
  bool equals(const Token& other) const noexcept;
  std::string hex() const;                              ///< for metadata of a connection; never for a log

  /// HMAC-SHA256 of the message under this token: proves knowledge of it without sending it.
  Digest sign(std::string_view message) const;

 private:
  using Bytes = std::array<std::uint8_t, kBytes>;
  static std::shared_ptr<Bytes> slot();

  std::shared_ptr<const Bytes> bytes_;  ///< shared: there is one slot for each secret. TK-5
};

/// SHA-256, for HMAC.
Token::Digest sha256(std::string_view message);
/// HMAC-SHA256 under any key of 32 bytes.
Token::Digest hmac_sha256(const std::array<std::uint8_t, Token::kBytes>& key, std::string_view message);
/// Fills with the kernel's random bytes.
Status fill_random(std::span<std::uint8_t> bytes);

}  // namespace troupe::net
