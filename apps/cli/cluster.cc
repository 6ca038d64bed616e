#include "apps/cli/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/node/roles/roles.h"
#include "core/node/session/session.h"

namespace troupe::cli {

namespace fs = std::filesystem;

namespace {

std::string named_address(const ClusterFlags& flags) {
  if (!flags.address.empty()) return flags.address;
  const char* set = std::getenv("TROUPE_ADDRESS");
  return set ? set : "";
}

}  // namespace

bool names_cluster(const ClusterFlags& flags) { return !named_address(flags).empty(); }

Result<std::string> find_address(const ClusterFlags& flags, Embedded embedded) {
  if (const std::string named = named_address(flags); !named.empty())
    return node::cluster_address(named, flags.session_root);
  Result<std::vector<node::LocalCluster>> clusters = node::local_clusters(flags.session_root);
  if (!clusters) return clusters.error_ptr();
  for (const node::LocalCluster& cluster : *clusters)
    if (!cluster.embedded || embedded == Embedded::kToo) return cluster.address;
  return make_error<NotFoundError>(
      "no cluster of yours runs on this machine: start one with 'troupe start --head', or give --address");
}

Result<std::unique_ptr<node::HeadClient>> ask_cluster(const ClusterFlags& flags) {
  Result<std::string> address = find_address(flags, Embedded::kToo);
  if (!address) return address.error_ptr();
  std::string token = flags.token_file;
  if (token.empty()) {
    Result<std::string> found = node::find_token(*address, flags.session_root);
    if (!found) return found.error_ptr();
    token = *std::move(found);
  }
  return node::HeadClient::connect({*std::move(address), std::move(token)});
}

std::vector<SessionRow> sessions(const std::string& session_root) {
  std::vector<SessionRow> rows;
  std::error_code error;
  // SE-1: of a folder that is not ours nothing is read
  Result<std::vector<std::string>> ours = node::list_sessions(node::sessions_folder(session_root));
  if (!ours) return rows;
  for (const std::string& dir : *ours) {
    const fs::path path(dir);
    SessionRow row{path.filename().string(), dir, {}, fs::exists(path / "lock", error)};
    for (const fs::path& folder :
         {path, path / "events"})  // the second is there when the session is over
      for (const auto& file : fs::directory_iterator(folder, error)) {
        if (file.path().extension() != ".info") continue;
        const auto info = node::read_info(file.path().string());
        if (std::string address = node::info_value(info, "address"); !address.empty()) row.address = address;
        row.embedded = node::info_value(info, "embedded") == "1";
        row.started = true;
      }
    rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const SessionRow& a, const SessionRow& b) { return a.name > b.name; });
  return rows;
}

Result<SessionRow> choose_session(const std::vector<SessionRow>& all, const std::string& name,
                                  const std::string& address) {
  if (all.empty()) return make_error<NotFoundError>("there is no session of yours on this machine");
  const SessionRow* chosen = nullptr;
  for (const SessionRow& row : all) {
    const bool named = row.name.starts_with(name) && (address.empty() || row.address == address);
    if (named && (!chosen || (!chosen->started && row.started && name.empty()))) chosen = &row;
  }
  if (chosen) return *chosen;
  if (!name.empty())
    return make_error<InvalidArgumentError>("no session " + name + "; 'troupe logs --list' shows them");
  return make_error<NotFoundError>("no node of the cluster at " + address +
                                   " ran on this machine; logs are on the machines of its nodes");
}

}  // namespace troupe::cli
