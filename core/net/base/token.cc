#include "core/net/base/token.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "core/base/fd.h"

namespace troupe::net {
namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}
std::string name_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// The folder as a descriptor, so that what was checked is what is used. The error says what is wrong with it.
template <class Failure>
Result<UniqueFd> open_private_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (folder.get() < 0) return NotFoundError("cannot open the token's folder " + path + ": " + std::strerror(errno));
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0)
    return Failure("cannot check the folder " + path + ": " + std::strerror(errno));
  if (status.st_uid != ::geteuid())
    return Failure("the folder " + path + " belongs to another user; it must not hold a token");
  if ((status.st_mode & 077) != 0)
    return Failure("the folder " + path + " is open to others; make it 0700 (chmod 700)");
  return folder;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(std::array<std::uint32_t, 8>& state, const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t(block[4 * i]) << 24 | std::uint32_t(block[4 * i + 1]) << 16 |
           std::uint32_t(block[4 * i + 2]) << 8 | block[4 * i + 3];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/// TK-5: slots for secrets, in pages that nothing else uses. They stay mapped: a process has few.
class SecretPages {
 public:
  using Slot = std::array<std::uint8_t, Token::kBytes>;

  static SecretPages& instance() {
    static SecretPages& pages = *new SecretPages;  // a Token may be static
    return pages;
  }
  Slot* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) add_page();
    Slot* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(Slot* slot) {
    ::explicit_bzero(slot->data(), slot->size());
    std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  void add_page() {
    const std::size_t size = std::size_t(::sysconf(_SC_PAGESIZE));
    void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    (void)::madvise(page, size, MADV_DONTDUMP);
    (void)::mlock(page, size);  // the limit may be zero; then it may be swapped
    for (std::size_t at = 0; at + sizeof(Slot) <= size; at += sizeof(Slot))
      free_.push_back(new (static_cast<std::byte*>(page) + at) Slot{});
  }

  std::mutex mutex_;
  std::vector<Slot*> free_;
};

}  // namespace

Token::Digest sha256(std::string_view message) {
  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(message.data());
  std::size_t left = message.size();
  for (; left >= 64; left -= 64, bytes += 64) compress(state, bytes);
  std::array<std::uint8_t, 128> tail{};
  if (left != 0) std::memcpy(tail.data(), bytes, left);
  tail[left] = 0x80;
  const std::size_t blocks = left >= 56 ? 2 : 1;
  const std::uint64_t bits = std::uint64_t(message.size()) * 8;
  for (std::size_t i = 0; i < 8; ++i) tail[blocks * 64 - 1 - i] = std::uint8_t(bits >> (8 * i));
  for (std::size_t i = 0; i < blocks; ++i) compress(state, tail.data() + 64 * i);
  Token::Digest digest;
  for (std::size_t i = 0; i < 32; ++i) digest[i] = std::uint8_t(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Status fill_random(std::span<std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Error(std::string("the kernel gives no random numbers: ") + std::strerror(errno));
    done += std::size_t(got);
  }
  return {};
}

std::shared_ptr<Token::Bytes> Token::slot() {
  return {SecretPages::instance().take(), [](Bytes* slot) { SecretPages::instance().give_back(slot); }};
}

Result<Token> Token::make() {
  const auto bytes = slot();
  if (auto filled = fill_random(*bytes); !filled.ok()) return filled.error_ptr();
  Token token;
  token.bytes_ = bytes;
  return token;
}

Result<Token> Token::parse(std::string_view hex) {
  const auto bad = [] { return InvalidArgumentError("not a cluster token: expected 64 hexadecimal digits"); };
  if (hex.size() != 2 * kBytes) return bad();
  const auto bytes = slot();
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return bad();
    (*bytes)[i] = std::uint8_t(high << 4 | low);
  }
  Token token;
  token.bytes_ = bytes;
  return token;
}

std::string Token::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  if (!is_set()) return text;
  text.reserve(2 * kBytes);
  for (auto byte : *bytes_) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool Token::equals(const Token& other) const noexcept {
  if (!is_set() || !other.is_set()) return false;
  const std::string_view a(reinterpret_cast<const char*>(bytes_->data()), kBytes);
  const std::string_view b(reinterpret_cast<const char*>(other.bytes_->data()), kBytes);
  return constant_time_equal(a, b);
}

Token::Digest Token::sign(std::string_view message) const {
  return hmac_sha256(is_set() ? *bytes_ : Bytes{}, message);
}

Token::Digest hmac_sha256(const std::array<std::uint8_t, Token::kBytes>& key, std::string_view message) {
  std::string inner, outer;
  inner.reserve(64 + message.size());  // a string that grows leaves its old memory unwiped. TK-5
  outer.reserve(64 + sizeof(Token::Digest));
  inner.assign(64, '\x36');
  outer.assign(64, '\x5c');
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] = char(inner[i] ^ char(key[i]));
    outer[i] = char(outer[i] ^ char(key[i]));
  }
  inner += message;
  const Token::Digest first = sha256(inner);
  outer.append(reinterpret_cast<const char*>(first.data()), first.size());
  const Token::Digest result = sha256(outer);
  ::explicit_bzero(inner.data(), inner.size());
  ::explicit_bzero(outer.data(), outer.size());
  return result;
}

Status Token::write_file(const std::string& path) const {
  if (!is_set()) return InvalidArgumentError("no token to write to " + path);
  auto folder = open_private_folder<InvalidArgumentError>(folder_of(path));
  if (!folder.ok()) return InvalidArgumentError(folder.error().message());
  const std::string name = name_of(path);
  UniqueFd file(::openat(folder->get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return InvalidArgumentError("cannot make the token file " + path + ": " + std::strerror(errno));
  std::string text = hex() + "\n";
  const bool written =
      ::fchmod(file.get(), 0600) == 0 && ::write(file.get(), text.data(), text.size()) == ssize_t(text.size());
  const int number = errno;
  ::explicit_bzero(text.data(), text.size());
  if (written) return {};
  ::unlinkat(folder->get(), name.c_str(), 0);  // no half token is left
  return InvalidArgumentError("cannot write the token file " + path + ": " + std::strerror(number));
}

Result<Token> Token::read_file(const std::string& path) {
  auto folder = open_private_folder<UnauthenticatedError>(folder_of(path));
  if (!folder.ok()) return folder.error_ptr();
  UniqueFd file(::openat(folder->get(), name_of(path).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT)
    return NotFoundError("no token file at " + path + "; is a cluster running, and is it yours?");
  if (file.get() < 0) return UnauthenticatedError("cannot read the token file " + path + ": " + std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return UnauthenticatedError("the token file " + path + " is no regular file");
  if (status.st_uid != ::geteuid()) return UnauthenticatedError("the token file " + path + " belongs to another user");
  if ((status.st_mode & 077) != 0)
    return UnauthenticatedError("the token file " + path + " can be read by others; make it 0600 (chmod 600)");
  std::array<char, 2 * kBytes + 2> text;
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  std::string_view content(text.data(), size > 0 ? std::size_t(size) : 0);
  if (content.ends_with('\n')) content.remove_suffix(1);
  auto token = parse(content);
  ::explicit_bzero(text.data(), text.size());
  if (!token.ok()) return UnauthenticatedError("the token file " + path + " does not hold a token");
  return token;
}

}  // namespace troupe::net
