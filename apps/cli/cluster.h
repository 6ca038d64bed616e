// Which cluster a command means, and how it is asked: as a tool of its head, from any machine that has address and
// token.
//
// Thread rule: any thread; one thread at a time for a HeadClient.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/node/roles/head_client.h"
#include <troupe/result.h>

namespace troupe::cli {

/// What the user said of it.
struct ClusterFlags {
  /// HOST:PORT, a file that holds it, or a daemon's socket; empty: TROUPE_ADDRESS, else one that runs here
  std::string address;
  std::string token_file;    ///< empty: TROUPE_TOKEN_FILE, else that of a node of it here
  std::string session_root;  ///< empty: TROUPE_SESSION_ROOT, else the temporary folder
};

enum class Embedded { kToo, kNot };

/// HOST:PORT of the cluster that is meant: the one named, else the newest of this user that runs here; one of a running
/// program only when asked for. Nobody was asked whether it is there. NotFoundError says what to do.
Result<std::string> find_address(const ClusterFlags& flags, Embedded embedded);
/// Is it named, by flag or environment?
bool names_cluster(const ClusterFlags& flags);

/// Links to the head of the cluster that is meant. NotFoundError, UnauthenticatedError.
Result<std::unique_ptr<node::HeadClient>> ask_cluster(const ClusterFlags& flags);

// ------------------------------------------------------------------------------------------- what ended clusters leave
// behind

struct SessionRow {
  std::string name, dir;
  std::string address;  ///< of its cluster; empty when unknown
  bool alive = false;
  bool started = false;   ///< a node came up in it: one that failed to start leaves a session too
  bool embedded = false;  ///< of one program, with which it ends
};

/// All sessions of this user, the newest first.
std::vector<SessionRow> sessions(const std::string& session_root);

/// The session whose logs are meant: the one whose name begins with `name`, that of the named cluster, else the newest
/// in which a node came up, else the newest. NotFoundError says what there is.
Result<SessionRow> choose_session(const std::vector<SessionRow>& newest_first, const std::string& name,
                                  const std::string& address);

}  // namespace troupe::cli
