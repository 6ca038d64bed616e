// SHA-256 of bytes as they pass, by OpenSSL.
//
// One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/result.h>

namespace datagen {

using Digest = std::array<std::byte, 32>;

/// 64 digits, small letters.
[[nodiscard]] std::string hex(const Digest& digest);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Of all bytes so far; then it begins anew.
  [[nodiscard]] Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] Digest sha256(std::span<const std::byte> bytes);
[[nodiscard]] Digest sha256(std::string_view text);

}  // namespace datagen
