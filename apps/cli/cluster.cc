#include "apps/cli/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/node/roles/roles.h"
#include "core/node/session/session.h"

namespace troupe::cli {

namespace fs = std::filesystem;

std::vector<SessionRow> sessions(const std::string& session_root) {
  std::vector<SessionRow> rows;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(node::sessions_folder(session_root), error)) {
    if (!entry.is_directory(error)) continue;
    SessionRow row{entry.path().filename().string(), entry.path().string(), {}, fs::exists(entry.path() / "lock", error), false};
    for (const auto& file : fs::directory_iterator(entry.path(), error))
      if (file.path().extension() == ".info") {
        const auto info = node::read_info(file.path().string());
        if (std::string address = node::info_value(info, "address"); !address.empty()) row.address = address;
        row.embedded = node::info_value(info, "embedded") == "1";
      }
    rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const SessionRow& a, const SessionRow& b) { return a.name > b.name; });
  return rows;
}

Result<std::string> find_cluster(const std::string& given, Embedded embedded, const std::string& session_root) {
  std::string address = given;
  if (const char* set = std::getenv("TROUPE_ADDRESS"); address.empty() && set) address = set;
  if (!address.empty()) {
    Result<std::string> socket = node::find_local_daemon(address, session_root);
    if (!socket) return socket.error_ptr();
    return address;
  }
  for (const SessionRow& session : sessions(session_root))
    if (session.alive && (!session.embedded || embedded == Embedded::kToo) && !session.address.empty() && node::find_local_daemon(session.address, session_root).ok()) return session.address;
  return make_error<NotFoundError>("no cluster of yours runs on this machine: start one with 'troupe start --head', or give --address");
}

}  // namespace troupe::cli
