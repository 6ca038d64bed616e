#include "core/node/session/last_rows.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "core/base/log.h"
#include "core/node/session/session.h"
#include "core/wire/codec.h"
#include "core/wire/rows.h"

namespace troupe::node {
namespace {

constexpr std::string_view kMagic = "TRPROWS1";

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
  (void)::mkdir((session_dir + "/events").c_str(), 0700);  // it is there, or the file cannot be written either
  std::string text(kMagic);
  wire::StateReply first = rows;
  first.rows.resize(std::min(first.rows.size(), wire::kRowsMax));
  const std::vector<std::byte> bytes = wire::encode_message(first);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (Status written = write_whole(file_of(session_dir, kind), text); !written.ok())
    write_log(LogLevel::kWarn, "the last rows are not kept: {}", written.error().message());
}

Result<wire::StateReply> read_last_rows(const std::string& session_dir, wire::StateKind kind) {
  if (!last_rows_name(kind))
    return NotFoundError("tasks, objects, workers and stores are not kept when their cluster ends");
  std::ifstream file(file_of(session_dir, kind), std::ios::binary);
  if (!file)
    return NotFoundError("nothing is kept in " + session_dir +
                         ": its cluster runs, it did not end in order, or its head was on another machine");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.starts_with(kMagic)) return SerializationError(file_of(session_dir, kind) + " is of another version");
  return wire::decode_message<wire::StateReply>(std::as_bytes(std::span(text)).subspan(kMagic.size()));
}

}  // namespace troupe::node
