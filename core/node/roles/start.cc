// Starting and ending clusters from outside: the embedded one of a driver, and the nodes of the troupe command.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/thread.h"
#include "core/net/base/token.h"
#include "core/boot/boot_socket.h"
#include "core/node/daemon/daemon.h"
#include "core/node/daemon/base/config.h"
#include "core/node/roles/roles.h"
#include "core/node/session/session.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace fs = std::filesystem;
namespace {

/// Local mode, where none is asked for: each worker maps the store into the one address space, of which valgrind leaves
/// little.
constexpr std::uint64_t kLocalStoreMemory = std::uint64_t{1} << 30;

/// Waits for the end of a process; false when the time is over first.
bool wait_for_end(int pid, Duration limit) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return true;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll{pidfd.get(), POLLIN, 0};
    const int n = ::poll(&poll, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) return false;
  }
}

RoleStart daemon_start(const DaemonConfig& config, const Session& session, Duration ready_timeout) {
  RoleStart start;
  start.role = "daemon";
  start.config = wire::encode_message(config);
  start.mark = mark_of(session.name, config.node_name, 0, 0);
  start.log_file = session.dir + "/logs/" + config.node_name + "-daemon.log";
  start.ready_timeout = ready_timeout;
  return start;
}

/// Starts the daemon of a session; where it does not come up, nothing of the session is left.
Result<RoleProcess> start_daemon(const DaemonConfig& config, Session& session, Duration ready_timeout) {
  Result<RoleProcess> daemon = start_role(daemon_start(config, session, ready_timeout));
  if (daemon.ok()) return daemon;
  kill_marked(session.name + "/", std::chrono::seconds(2));
  clean_session(session.dir, std::move(session.lock));
  return daemon;
}

Status write_token(const std::string& path) {
  Result<net::Token> token = net::Token::make();
  if (!token.ok()) return token.error_ptr();
  return token->write_file(path);
}

/// A session for a node that lives and ends with this process, and what its daemon is to know.
struct OwnNode {
  DaemonConfig config;
  Session session;
};
Result<OwnNode> make_own_node(const EmbeddedOptions& options) {
  Result<DaemonConfig> config = resolve_node(options.node);
  if (!config.ok()) return config.error_ptr();
  Result<Session> session = create_session(options.session_root);
  if (!session.ok()) return session.error_ptr();
  config->session_dir = session->dir;
  config->token_file = session->dir + "/token";
  config->embedded = true;
  if (Status status = write_token(config->token_file); !status.ok()) return status.error_ptr();
  return OwnNode{std::move(*config), std::move(*session)};
}

struct FoundNode {
  std::string session, socket, address, node_id, token_file;
  int pid = 0;
  bool embedded = false, local = false;
};

/// What the session folders say, the oldest session first; daemons that were killed are still among them.
Result<std::vector<FoundNode>> find_nodes(const std::string& session_root) {
  Result<std::vector<std::string>> sessions = list_sessions(sessions_folder(session_root));
  if (!sessions.ok()) return sessions.error_ptr();
  std::vector<FoundNode> result;
  std::error_code ignored;
  for (const std::string& session : *sessions)
    for (const auto& file : fs::directory_iterator(session, ignored)) {
      if (file.path().extension() != ".info") continue;
      const auto lines = read_info(file.path().string());
      FoundNode node{session,
                     info_value(lines, "socket"),
                     info_value(lines, "address"),
                     info_value(lines, "node_id"),
                     info_value(lines, "token"),
                     std::atoi(info_value(lines, "pid").c_str()),
                     info_value(lines, "embedded") == "1",
                     info_value(lines, "local") == "1"};
      if (node.pid > 0) result.push_back(std::move(node));
    }
  return result;
}

/// Somebody listens there: a daemon that was killed leaves its files, not this.
bool serves(const FoundNode& node) { return connect_boot_socket(node.socket).ok(); }

/// HOST:PORT from an address or from a file that holds one.
std::string read_address(const std::string& given) {
  std::error_code ignored;
  if (!fs::is_regular_file(given, ignored)) return given;
  std::ifstream file(given);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ embedded

struct Embedded::Impl {
  Session session;
  RoleProcess daemon;
  std::thread local;  // the daemon's, where it is one
  bool stopped = false;

  void stop(Duration grace) {
    if (std::exchange(stopped, true)) return;
    (void)send_message(daemon.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
    if (local.joinable()) {
      local.join();  // LN-3: ends within kEndWait and what the head takes
      return clean_session(session.dir, std::move(session.lock));
    }
    if (!wait_for_end(daemon.pid, grace)) ::kill(daemon.pid, SIGKILL);
    ::waitpid(daemon.pid, nullptr, 0);
    daemon.lifeline.reset();
    kill_marked(session.name + "/", std::chrono::seconds(2));  // RO-1, also when the daemon was killed
    clean_session(session.dir, std::move(session.lock));
  }
};

Embedded::Embedded(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Embedded::Embedded(Embedded&&) noexcept = default;
Embedded& Embedded::operator=(Embedded&& other) noexcept {
  if (this != &other) {
    if (impl_) impl_->stop(std::chrono::seconds(2));
    impl_ = std::move(other.impl_);
  }
  return *this;
}
Embedded::~Embedded() { if (impl_) impl_->stop(std::chrono::seconds(2)); }
const std::string& Embedded::socket_path() const { return impl_->daemon.report.socket_path; }
const std::string& Embedded::session_dir() const { return impl_->session.dir; }
const std::string& Embedded::address() const { return impl_->daemon.report.address; }
int Embedded::daemon_pid() const { return impl_->daemon.pid; }
void Embedded::stop(Duration grace) { impl_->stop(grace); }

Result<Embedded> start_embedded(const EmbeddedOptions& options) {
  Result<OwnNode> own = make_own_node(options);
  if (!own.ok()) return own.error_ptr();
  own->config.parent_pid = ::getpid();
  Result<RoleProcess> daemon = start_daemon(own->config, own->session, options.ready_timeout);
  if (!daemon.ok()) return daemon.error_ptr();
  auto impl = std::make_unique<Embedded::Impl>();
  impl->session = std::move(own->session);
  impl->daemon = std::move(*daemon);
  return Embedded(std::move(impl));
}

Result<Embedded> start_local(const EmbeddedOptions& options, const RoleHooks& hooks) {
  Result<OwnNode> own = make_own_node(options);
  if (!own.ok()) return own.error_ptr();
  if (options.node.object_store_memory == 0)
    own->config.object_store_memory = std::min(own->config.object_store_memory, kLocalStoreMemory);
  const DaemonConfig& config = own->config;
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) return sockets.error_ptr();
  raise_file_limit();  // the descriptors of all workers are here
  auto impl = std::make_unique<Embedded::Impl>();
  impl->session = std::move(own->session);
  impl->daemon.lifeline = std::move(sockets->first);
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  auto daemon = std::make_shared<Daemon>(config, std::move(sockets->second), std::make_shared<LocalNode>(hooks, mask));
  impl->local = start_thread([daemon = std::move(daemon), level = config.log_level]() mutable {
    LocalNode::enter_thread("troupe-daemon", level);
    daemon->run();
    daemon.reset();
  });
  Result<ReadyReport> report = await_ready(impl->daemon, daemon_start(config, impl->session, options.ready_timeout));
  if (!report.ok()) {
    impl->stop({});
    return report.error_ptr();
  }
  impl->daemon.report = std::move(*report);
  return Embedded(std::move(impl));
}

// -------------------------------------------------------------------------------------------------- the troupe command

Result<std::string> find_local_daemon(const std::string& address, const std::string& session_root) {
  std::error_code ignored;
  if (fs::is_socket(address, ignored)) return address;
  const std::string wanted = read_address(address);
  Result<std::vector<FoundNode>> nodes = find_nodes(session_root);
  if (!nodes.ok()) return nodes.error_ptr();
  for (const FoundNode& node : *nodes)
    if (node.address == wanted && serves(node)) return node.socket;
  return make_error<NotFoundError>("no node of the cluster at " + wanted +
                                   " runs on this machine for this user: start one with `troupe start --address " +
                                   wanted + "`");
}

Result<std::vector<LocalCluster>> local_clusters(const std::string& session_root) {
  Result<std::vector<FoundNode>> nodes = find_nodes(session_root);
  if (!nodes.ok()) return nodes.error_ptr();
  std::vector<LocalCluster> clusters;
  for (auto node = nodes->rbegin(); node != nodes->rend(); ++node) {
    if (node->address.empty() || node->local || !serves(*node)) continue;
    auto same = std::find_if(clusters.begin(), clusters.end(),
                             [&](const LocalCluster& one) { return one.address == node->address; });
    if (same == clusters.end()) clusters.push_back({node->address, 1, node->embedded});
    else ++same->nodes;
  }
  return clusters;
}

std::string cluster_address(const std::string& given, const std::string& session_root) {
  std::error_code ignored;
  if (!fs::is_socket(given, ignored)) return read_address(given);
  if (Result<std::vector<FoundNode>> nodes = find_nodes(session_root); nodes.ok())
    for (const FoundNode& node : *nodes)
      if (fs::equivalent(node.socket, given, ignored)) return node.address;
  return given;
}

Result<std::string> find_token(const std::string& address, const std::string& session_root) {
  if (std::string set = setting("TROUPE_TOKEN_FILE"); !set.empty()) return set;
  Result<std::vector<FoundNode>> nodes = find_nodes(session_root);
  if (!nodes.ok()) return nodes.error_ptr();
  for (const FoundNode& node : *nodes)
    if (node.address == address && fs::exists(node.token_file)) return node.token_file;
  return make_error<UnauthenticatedError>(
      "the token of the cluster at " + address +
      " is not known on this machine: copy it from the session folder of the cluster's first node, and set "
      "TROUPE_TOKEN_FILE (or --token-file) to its path");
}

Result<StartedNode> start_node(const StartOptions& options) {
  Result<DaemonConfig> config = resolve_node(options.node);
  if (!config.ok()) return config.error_ptr();
  if (options.head == !options.address.empty())
    return make_error<InvalidArgumentError>("either start a head, or give the address of one");
  std::string token_file;
  if (!options.head) {
    config->head_address = read_address(options.address);
    Result<std::string> found = options.token_file.empty() ? find_token(config->head_address, options.session_root)
                                                           : Result<std::string>(options.token_file);
    if (!found.ok()) return found.error_ptr();
    token_file = std::move(*found);
  }
  Result<Session> session = create_session(options.session_root);
  if (!session.ok()) return session.error_ptr();
  config->session_dir = session->dir;
  config->head_port = options.port;
  config->token_file = options.head ? session->dir + "/token" : token_file;
  if (options.head)
    if (Status status = write_token(config->token_file); !status.ok()) return status.error_ptr();
  Result<RoleProcess> daemon = start_daemon(*config, *session, options.ready_timeout);
  if (!daemon.ok()) return daemon.error_ptr();
  StartedNode started{daemon->report.address, session->dir, daemon->report.socket_path, daemon->report.node_id,
                      daemon->pid};
  if (!options.address_file.empty()) {
    const std::string draft = options.address_file + ".new";
    std::ofstream(draft) << started.address << "\n";
    if (::rename(draft.c_str(), options.address_file.c_str()) != 0) {
      ::kill(daemon->pid, SIGTERM);
      return make_error<InvalidArgumentError>("cannot write " + options.address_file);
    }
  }
  if (!options.block) return started;
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, s);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  for (int s = 0; ::sigwait(&set, &s) == 0;) {  // waits for the user, or for the daemon's end
    if (s != SIGCHLD) ::kill(daemon->pid, SIGTERM);
    if (::waitpid(daemon->pid, nullptr, s == SIGCHLD ? WNOHANG : 0) != 0) break;
  }
  clean_session(session->dir, std::move(session->lock));
  return started;
}

Result<StopReport> stop_nodes(const StopOptions& options) {
  StopReport report;
  Result<std::vector<FoundNode>> nodes = find_nodes(options.session_root);
  if (!nodes.ok()) return nodes.error_ptr();
  for (const FoundNode& node : *nodes) {
    if (node.embedded || (!options.address.empty() && node.address != options.address)) continue;
    const std::string prefix = fs::path(node.session).filename().string() + "/";
    bool ours = false;
    for (const Marked& marked : find_marked(prefix)) ours |= marked.pid == node.pid;
    if (!ours) continue;
    ++report.daemons;
    report.sessions.push_back(node.session);
    ::kill(node.pid, SIGTERM);
    if (!wait_for_end(node.pid, options.grace)) ::kill(node.pid, SIGKILL);
    kill_marked(prefix, std::chrono::seconds(2));
  }
  if (Status status = sweep_sessions(sessions_folder(options.session_root)); !status.ok()) return status.error_ptr();
  return report;
}

}  // namespace troupe::node
