// logs: of a running cluster or of one of the last sessions, read from its folder.
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>

#include "apps/cli/cluster.h"
#include "apps/cli/table.h"
#include "apps/cli/verbs.h"
#include "core/node/roles/roles.h"

namespace troupe::cli {
namespace {

namespace fs = std::filesystem;

struct LogFlags {
  std::string session, root, address, file;
  int tail = 100;
  bool follow = false, list = false, json = false;
};

std::vector<fs::path> log_files(const std::string& dir, const std::string& part) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(dir + "/logs", error))
    if (entry.is_regular_file(error) && entry.path().filename().string().find(part) != std::string::npos)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::deque<std::string> last_lines(std::ifstream& file, int count) {
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::move(line));
    if (count >= 0 && lines.size() > std::size_t(count)) lines.pop_front();
  }
  file.clear();  // at its end, ready for more
  return lines;
}

/// Prints what is added, until the session ends: the kernel tells when a file was written.
void follow(std::vector<std::pair<std::string, std::ifstream>>& files, const SessionRow& session) {
  const int watch = ::inotify_init1(IN_CLOEXEC);
  if (watch < 0) return;
  ::inotify_add_watch(watch, (session.dir + "/logs").c_str(), IN_MODIFY | IN_CREATE);
  ::inotify_add_watch(watch, session.dir.c_str(), IN_DELETE);
  while (fs::exists(session.dir + "/lock")) {
    pollfd ready{watch, POLLIN, 0};
    // waits for the next line, for as long as the session lives; a signal ends it
    if (::poll(&ready, 1, -1) < 0) break;
    char events[4096];
    if (::read(watch, events, sizeof(events)) < 0) break;
    for (auto& [name, file] : files) {
      for (std::string line; std::getline(file, line);) std::printf("%s: %s\n", name.c_str(), line.c_str());
      file.clear();
    }
    std::fflush(stdout);
  }
  ::close(watch);
}

int list_sessions(const std::vector<SessionRow>& all, bool json) {
  Table table{{"session", "state", "address", "folder"}, {}};
  for (const SessionRow& s : all)
    table.rows.push_back({s.name, std::string(!s.started ? "FAILED" : s.alive ? "ALIVE" : "ENDED"), s.address, s.dir});
  std::fputs((json ? to_json(table) : to_text(table, 0)).c_str(), stdout);
  return kDone;
}

int logs(const LogFlags& flags) {
  const std::vector<SessionRow> all = sessions(flags.root);
  if (flags.list) return list_sessions(all, flags.json);
  const std::string address = flags.address.empty() ? std::string() : node::cluster_address(flags.address, flags.root);
  const Result<SessionRow> chosen = choose_session(all, flags.session, address);
  if (!chosen)
    return complain(chosen.error(), chosen.error().code() == ErrorCode::kInvalidArgument ? kUsage : kNoCluster);
  if (!chosen->started) std::fprintf(stderr, "troupe logs: in session %s no node came up\n", chosen->name.c_str());
  else if (flags.session.empty() && address.empty() && !all.front().started)
    std::fprintf(stderr, "troupe logs: in the newer session %s no node came up: --session shows its logs\n",
                 all.front().name.c_str());
  std::vector<std::pair<std::string, std::ifstream>> open;
  Table table{{"file", "line"}, {}};
  for (const fs::path& path : log_files(chosen->dir, flags.file)) {
    auto& [name, file] = open.emplace_back(path.filename().string(), std::ifstream(path));
    for (std::string& line : last_lines(file, flags.tail)) {
      if (flags.json) table.rows.push_back({name, std::move(line)});
      else std::printf("%s: %s\n", name.c_str(), line.c_str());
    }
  }
  if (flags.json) std::fputs(to_json(table).c_str(), stdout);
  else if (open.empty()) std::fprintf(stderr, "troupe logs: no log file in %s/logs\n", chosen->dir.c_str());
  std::fflush(stdout);
  if (flags.follow && !flags.json) follow(open, *chosen);
  return kDone;
}

}  // namespace

void add_logs(CLI::App& app, Context& context) {
  auto flags = std::make_shared<LogFlags>();
  CLI::App* verb = app.add_subcommand("logs", "Logs of a running cluster, or of one of the last ten sessions");
  verb->add_option("--session", flags->session,
                   "The session, or the start of its name (default: the newest in which a node came up)")
      ->type_name("NAME");
  verb->add_option("--address", flags->address, "The newest session of this cluster on this machine")
      ->type_name("HOST:PORT|FILE");
  verb->add_option("--file", flags->file, "Only files whose name has this part, as in worker or daemon")
      ->type_name("PART");
  verb->add_option("--tail", flags->tail, "The last lines of each file; -1: all of them")
      ->check(CLI::Range(-1, 100000000));
  verb->add_option("--session-root", flags->root, "Folder of the session folders")->type_name("DIR");
  verb->add_flag("--follow", flags->follow, "Go on printing what is added");
  verb->add_flag("--list", flags->list, "The sessions instead of their logs");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] { context.code = logs(*flags); });
}

}  // namespace troupe::cli
