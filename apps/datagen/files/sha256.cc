#include "apps/datagen/files/sha256.h"

#include <openssl/evp.h>

namespace datagen {
namespace {

/// Found once: each implicit look-up by EVP_sha256() costs as much as hashing a small shard.
const EVP_MD* algorithm() {
  static const EVP_MD* const kFound = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  if (kFound == nullptr) throw troupe::RuntimeEnvError("OpenSSL has no SHA-256 here: look at its configuration");
  return kFound;
}

void check(int result) {
  if (result != 1) throw troupe::RuntimeEnvError("OpenSSL could not compute a SHA-256");
}

}  // namespace

struct Sha256::Context {
  Context() : md(EVP_MD_CTX_new()) {
    if (md == nullptr) throw troupe::RuntimeEnvError("OpenSSL could not begin a SHA-256");
    begin();
  }
  ~Context() { EVP_MD_CTX_free(md); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void begin() const { check(EVP_DigestInit_ex2(md, algorithm(), nullptr)); }

  EVP_MD_CTX* md;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) check(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()));
}

Digest Sha256::finish() {
  Digest out{};
  unsigned size = 0;
  check(EVP_DigestFinal_ex(context_->md, reinterpret_cast<unsigned char*>(out.data()), &size));
  context_->begin();
  return out;
}

std::string hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * digest.size());
  for (const std::byte byte : digest) {
    out += kDigits[std::to_integer<unsigned>(byte) >> 4];
    out += kDigits[std::to_integer<unsigned>(byte) & 15u];
  }
  return out;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Digest sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace datagen
