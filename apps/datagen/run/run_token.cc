#include "apps/datagen/run/run_token.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <troupe/context.h>

#include "apps/common/output_file.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

fs::path path_of(const fs::path& out) { return out / "manifest" / "run.token"; }

std::string fresh_words() {
  std::random_device random;
  std::string out = "datagen run ";
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", random());
  return out;
}

std::string words_in(int fd) {
  std::array<char, 128> buffer{};
  const ssize_t count = ::pread(fd, buffer.data(), buffer.size(), 0);
  return {buffer.data(), static_cast<std::size_t>(count < 0 ? 0 : count)};
}

/// Alone with the file; none: somebody is inside after `patience`. A file that is not there is nobody's: an open
/// descriptor is not needed then.
bool take_alone(const fs::path& path, troupe::Duration patience, apps::Descriptor& held) {
  held = apps::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (held.get() < 0) return true;
  const auto end = std::chrono::steady_clock::now() + patience;
  // flock has no deadline of its own that a waiting driver could be cancelled out of.
  for (auto pause = 1ms; ::flock(held.get(), LOCK_EX | LOCK_NB) != 0; pause = std::min(2 * pause, 50ms)) {
    if (std::chrono::steady_clock::now() >= end) return false;
    troupe::sleep_for(pause);
  }
  return true;
}

}  // namespace

TokenEntry enter_run(const fs::path& out, const std::string& token) {
  TokenEntry entry{.inside = apps::Descriptor(::open(path_of(out).c_str(), O_RDONLY | O_CLOEXEC))};
  if (entry.inside.get() < 0) return {.state = TokenEntry::State::kNone};
  const bool locked = ::flock(entry.inside.get(), LOCK_SH | LOCK_NB) == 0;
  if (words_in(entry.inside.get()) != token) return {.state = TokenEntry::State::kOther};
  // A file system without locks: nothing to hold.
  if (!locked && errno == EWOULDBLOCK) return {.state = TokenEntry::State::kEnding};
  // Between open and lock the driver may have been alone with it and have removed it.
  if (::access(path_of(out).c_str(), F_OK) != 0) return {.state = TokenEntry::State::kNone};
  entry.state = TokenEntry::State::kInside;
  return entry;
}

troupe::Result<RunToken> RunToken::create(const fs::path& out, troupe::Duration patience) {
  const fs::path path = path_of(out);
  apps::Descriptor before;
  take_alone(path, patience, before);  // who is stopped for longer belongs to a run whose epoch is over anyway
  RunToken token(path, fresh_words());
  if (troupe::Status written = apps::write_file(path, token.words_); !written.ok()) return written.error_ptr();
  return token;
}

bool RunToken::close(troupe::Duration patience) {
  {
    // Another run's by now: its tasks must not find it locked.
    const apps::Descriptor there(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (there.get() < 0 || words_in(there.get()) != words_) return true;
  }
  apps::Descriptor held;
  const bool alone = take_alone(path_, patience, held);
  if (held.get() < 0 || words_in(held.get()) != words_) return alone;
  ::unlink(path_.c_str());
  return alone;
}

}  // namespace datagen
