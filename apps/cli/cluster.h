// Which cluster a command means, and what its folders hold.
//
// Thread rule: any thread; reads files only.
#pragma once
#include <string>
#include <vector>

#include <troupe/result.h>

namespace troupe::cli {

struct SessionRow {
  std::string name, dir;
  std::string address;  ///< of its cluster; empty when unknown
  bool alive = false;
  bool embedded = false;  ///< of one program, with which it ends
};

/// All sessions of this user, the newest first.
std::vector<SessionRow> sessions(const std::string& session_root);

enum class Embedded { kToo, kNot };

/// The address to use: `given`, else TROUPE_ADDRESS, else that of this user's newest running cluster; one of a running program
/// only when asked for. Checked: a daemon of that cluster runs here. NotFoundError says what to do.
Result<std::string> find_cluster(const std::string& given, Embedded embedded, const std::string& session_root = {});

}  // namespace troupe::cli
