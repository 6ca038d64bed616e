// The session folder: <root>/troupe-<uid>/<session>/, with sockets, token, logs and event history of one cluster on
// this machine.
//
//   lock        flock'd (shared) by every process that keeps the session alive; gone once the session was cleaned
//   NAME.sock   the daemon NAME; NAME.info what commands need to find it
//   token       the cluster's token, 0600
//   logs/ events/   what stays after the end (the last ten sessions)
//
// Thread rule: any thread; operations on one root exclude each other between processes by an flock'd file.
//
// Invariants
//   SE-1  The user's folder and the session are 0700 and ours; a symlink or a foreign owner is refused, and nothing
//         below it is read, killed for or removed.
//   SE-2  A session whose lock is held is never cleaned by others.
//   SE-3  A cleaned session holds logs and events only; at most kSessionsKept dead sessions are left after a sweep.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::node {

inline constexpr std::size_t kSessionsKept = 10;

/// A variable of the environment; empty when it is not set.
std::string setting(const char* name);
/// Where sessions of this user live. `root` empty: TROUPE_SESSION_ROOT, else the temporary directory.
std::string sessions_folder(const std::string& root);

struct Session {
  std::string dir, name;
  UniqueFd lock;  ///< shared; inherited by daemon and head
};

/// Sweeps dead sessions (kills what they left, SE-3), then makes a new one.
Result<Session> create_session(const std::string& root);
/// The same session, locked by this process too. NotFoundError when it is over.
Result<UniqueFd> lock_session(const std::string& dir);
/// Waits until nobody holds the session's lock: a killed process holds it until its last thread has ended, which is
/// after its sockets have hung up. False: somebody still does.
bool await_release(const std::string& dir, Duration limit);
/// Removes everything but logs and events. `mine`: our own hold on the lock, given up first; nothing is done when
/// others hold it.
void clean_session(const std::string& dir, UniqueFd mine);
/// InvalidArgumentError when the folder is not ours (SE-1); nothing is touched then. One that is not there is swept
/// already.
Status sweep_sessions(const std::string& folder);
/// The sessions of this user, the oldest first: only folders that are ours in a folder that is ours (SE-1).
Result<std::vector<std::string>> list_sessions(const std::string& folder);

/// A file that is there whole or as it was before (0600, renamed into place).
Status write_whole(const std::string& path, std::string_view text);
/// A text file of small "key value" lines, written whole.
Status write_info(const std::string& path, const std::vector<std::pair<std::string, std::string>>& lines);
std::vector<std::pair<std::string, std::string>> read_info(const std::string& path);
std::string info_value(const std::vector<std::pair<std::string, std::string>>& lines, const std::string& key);

/// The last lines of a file, for messages.
std::string file_tail(const std::string& path, std::size_t lines);

}  // namespace troupe::node
