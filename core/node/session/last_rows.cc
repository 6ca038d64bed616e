#include "core/node/session/last_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/node/session/session.h"
#include "core/wire/codec.h"
#include "core/wire/rows.h"

namespace troupe::node {
namespace {

constexpr std::string_view kMagic = "TRPROWS1";
constexpr off_t kBytesMax = off_t{64} << 20;

std::string file_of(const std::string& session_dir, wire::StateKind kind) {
  return session_dir + "/events/" + last_rows_name(kind) + ".rows";
}

}  // namespace

const char* last_rows_name(wire::StateKind kind) {
  switch (kind) {
    case wire::StateKind::kNodes: return "nodes";
    case wire::StateKind::kJobs: return "jobs";
    case wire::StateKind::kActors: return "actors";
    case wire::StateKind::kMetrics: return "metrics";
    default: return nullptr;
  }
}

void keep_last_rows(const std::string& session_dir, wire::StateKind kind, const wire::StateReply& rows) {
  if (!last_rows_name(kind)) return;
  wire::StateReply first{.rows = {}, .warnings = rows.warnings, .total = rows.total};
  first.rows.assign(rows.rows.begin(), rows.rows.begin() + std::ptrdiff_t(std::min(rows.rows.size(), wire::kRowsMax)));
  std::string text(kMagic);
  const std::vector<std::byte> bytes = wire::encode_message(first);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  (void)::mkdir((session_dir + "/events").c_str(), 0700);  // it is there, or the file cannot be written either
  if (Status written = write_whole(file_of(session_dir, kind), text); !written.ok())
    write_log(LogLevel::kWarn, "the last rows are not kept: {}", written.error().message());
}

Result<wire::StateReply> read_last_rows(const std::string& session_dir, wire::StateKind kind) {
  if (!last_rows_name(kind))
    return NotFoundError("tasks, objects, workers and stores are not kept when their cluster ends");
  // no link is followed, nothing but a file is read, and no more than was ever written
  const std::string path = file_of(session_dir, kind);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > kBytesMax)
    return NotFoundError("nothing is kept in " + session_dir +
                         ": its cluster runs, it did not end in order, or its head was on another machine");
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (!text.starts_with(kMagic)) return SerializationError(path + " is of another version");
  return wire::decode_message<wire::StateReply>(std::as_bytes(std::span(text)).subspan(kMagic.size()));
}

}  // namespace troupe::node
