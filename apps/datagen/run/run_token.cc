#include "apps/datagen/run/run_token.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <troupe/context.h>

#include "apps/common/output_file.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/manifest/journal_format.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::string_view kEnd = ".token";

fs::path folder_of(const fs::path& out) { return out / "manifest"; }
fs::path path_of(const fs::path& out, std::uint64_t epoch) {
  return folder_of(out) / fmt::format("{:06}{}", epoch, kEnd);
}

/// Of "000007.token" 7, and of what a writer of it left that was killed, "000007.token.tmp.4711"; 0: another name.
std::uint64_t epoch_of(std::string_view name) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out);
  if (error != std::errc()) return 0;
  const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
  return out <= kEpochMax && (rest == kEnd || rest.starts_with(fmt::format("{}.tmp.", kEnd))) ? out : 0;
}

struct Token {
  std::uint64_t epoch = 0;
  fs::path path;
};

/// In any order. A missing folder has none.
troupe::Result<std::vector<Token>> tokens_in(const fs::path& folder) {
  std::vector<Token> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::uint64_t epoch = epoch_of(at->path().filename().string()); epoch != 0)
      out.push_back({epoch, at->path()});
  if (error && error != std::errc::no_such_file_or_directory)
    return file_error(error.value(), "cannot look into the folder", folder);
  return out;
}

bool newer_in(const std::vector<Token>& tokens, std::uint64_t epoch) {
  return std::ranges::any_of(tokens, [&](const Token& token) { return token.epoch > epoch; });
}

/// Who can read it can lock it, and keep the tasks of this run out.
constexpr unsigned kOwnerOnly = 0600;

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

/// Removes it, so that nobody enters any more, then waits for those who are inside; false: at `deadline` there was
/// still somebody. One that is not there is nobody's.
bool remove_and_wait(const fs::path& path, Clock::time_point deadline) {
  const apps::Descriptor held(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::unlink(path.c_str());
  if (held.get() < 0) return true;
  // flock has no deadline of its own that a waiting driver could be cancelled out of.
  for (auto pause = 1ms; ::flock(held.get(), LOCK_EX | LOCK_NB) != 0; pause = std::min(2 * pause, 50ms)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // a file system without locks: nobody holds any
    if (Clock::now() >= deadline) return false;
    troupe::sleep_for(pause);
  }
  return true;
}

bool is_at(const apps::Descriptor& file, const fs::path& path) {
  struct stat opened {}, named {};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

TokenEntry enter_run(const fs::path& out, std::uint64_t epoch, const std::string& token) {
  const fs::path path = path_of(out, epoch);
  TokenEntry entry{.inside = apps::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  if (entry.inside.get() >= 0) {
    // Where it fails, the file system has no locks, or the driver has removed the file and is alone with it now.
    ::flock(entry.inside.get(), LOCK_SH | LOCK_NB);
    if (words_in(entry.inside.get()) == token && is_at(entry.inside, path)) {
      entry.state = TokenEntry::State::kInside;
      return entry;
    }
  }
  const auto tokens = tokens_in(folder_of(out));
  return {.state = tokens.ok() && newer_in(*tokens, epoch) ? TokenEntry::State::kOther : TokenEntry::State::kNone};
}

troupe::Result<RunToken> RunToken::create(const fs::path& out, std::uint64_t epoch, troupe::Duration patience) {
  RunToken token(path_of(out, epoch), fresh_words());
  if (troupe::Status written = apps::write_file(token.path_, token.words_, kOwnerOnly); !written.ok()) {
    ::unlink(token.path_.c_str());  // it may be there, and not be synced
    return written.error_ptr();
  }
  const auto tokens = tokens_in(folder_of(out));
  if (!tokens.ok()) return tokens.error_ptr();
  if (newer_in(*tokens, epoch)) {
    ::unlink(token.path_.c_str());
    return troupe::RuntimeEnvError(fmt::format("another run has taken over {}", out.string()));
  }
  const auto deadline = Clock::now() + patience;
  for (const Token& older : *tokens)
    if (older.epoch < epoch) remove_and_wait(older.path, deadline);  // who is stopped for longer: its epoch is over
  return token;
}

bool RunToken::close(troupe::Duration patience) { return remove_and_wait(path_, Clock::now() + patience); }

}  // namespace datagen
