#include "core/node/roles/test_cluster.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "core/net/base/token.h"
#include "core/boot/boot_socket.h"
#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace {

constexpr Duration kReadyTimeout = std::chrono::seconds(30), kGrace = std::chrono::seconds(3);
constexpr std::uint64_t kStoreMemory = 256 << 20;

int port_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  return colon == std::string::npos ? 0 : std::atoi(address.c_str() + colon + 1);
}

}  // namespace

Result<std::unique_ptr<TestCluster>> TestCluster::start(const std::vector<NodeOptions>& nodes,
                                                        const std::string& session_root) {
  if (nodes.empty()) return make_error<InvalidArgumentError>("a cluster needs at least one node");
  std::unique_ptr<TestCluster> cluster(new TestCluster);
  Result<Session> session = create_session(session_root);
  if (!session.ok()) return session.error_ptr();
  cluster->session_ = std::move(*session);
  Result<net::Token> token = net::Token::make();
  if (!token.ok()) return token.error_ptr();
  if (Status status = token->write_file(cluster->session_.dir + "/token"); !status.ok()) return status.error_ptr();
  if (Status status = cluster->start_head(0); !status.ok()) return status.error_ptr();
  for (const NodeOptions& options : nodes)
    if (Result<std::size_t> added = cluster->add_node(options); !added.ok()) return added.error_ptr();
  return cluster;
}

TestCluster::~TestCluster() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].gone) continue;
    signal_node(i, SIGCONT);
    (void)send_message(nodes_[i].process.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
  }
  for (Node& node : nodes_) if (!node.gone) end_process(node.process, kGrace);
  if (head_.pid > 0) {
    (void)send_message(head_.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
    end_process(head_, kGrace);
  }
  kill_marked(session_.name + "/", std::chrono::seconds(2));
  clean_session(session_.dir, std::move(session_.lock));
}

void TestCluster::end_process(RoleProcess& process, Duration grace) {
  if (process.pid <= 0) return;
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  pollfd poll{pidfd.get(), POLLIN, 0};
  const auto ms = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  if (pidfd && ::poll(&poll, 1, ms) <= 0) ::kill(process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
  process.pid = 0;
  process.lifeline.reset();
}

Status TestCluster::start_head(int port) {
  HeadConfig config;
  config.session_dir = session_.dir;
  config.token_file = session_.dir + "/token";
  config.port = port;
  config.embedded = true;
  config.parent_pid = ::getpid();
  config.journal = session_.dir + "/head.journal";
  config.recover = port != 0;
  RoleStart start;
  start.role = "head";
  start.config = wire::encode_message(config);
  start.mark = mark_of(session_.name, "head", 0, 0);
  start.log_file = session_.dir + "/logs/head.log";
  start.ready_timeout = kReadyTimeout;
  Result<RoleProcess> head = start_role(start);
  if (!head.ok()) return head.error_ptr();
  head_ = std::move(*head);
  address_ = head_.report.address;
  return {};
}

Result<TestCluster::Node> TestCluster::start_daemon(const NodeOptions& options) {
  NodeOptions chosen = options;
  if (chosen.cpus == kUnset) chosen.cpus = 1;
  if (chosen.gpus == kUnset) chosen.gpus = 0;
  if (chosen.object_store_memory == 0) chosen.object_store_memory = kStoreMemory;
  Result<DaemonConfig> config = resolve_node(chosen);
  if (!config.ok()) return config.error_ptr();
  config->session_dir = session_.dir;
  config->node_name = "node" + std::to_string(nodes_.size());
  config->head_address = address_;
  config->token_file = session_.dir + "/token";
  config->embedded = true;
  config->parent_pid = ::getpid();
  config->is_head_node = nodes_.empty();
  RoleStart start;
  start.role = "daemon";
  start.config = wire::encode_message(*config);
  start.mark = mark_of(session_.name, config->node_name, 0, 0);
  start.log_file = session_.dir + "/logs/" + config->node_name + "-daemon.log";
  start.ready_timeout = kReadyTimeout;
  Result<RoleProcess> process = start_role(start);
  if (!process.ok()) return process.error_ptr();
  return Node{std::move(*process), session_.name + "/" + config->node_name + "/", false};
}

Result<std::size_t> TestCluster::add_node(const NodeOptions& options) {
  Result<Node> node = start_daemon(options);
  if (!node.ok()) return node.error_ptr();
  nodes_.push_back(std::move(*node));
  return nodes_.size() - 1;
}

std::vector<int> TestCluster::pids(std::size_t index) const {
  std::vector<int> result;
  for (const Marked& marked : find_marked(nodes_.at(index).mark)) result.push_back(marked.pid);
  const int daemon = nodes_.at(index).process.pid;
  std::stable_partition(result.begin(), result.end(), [daemon](int pid) { return pid == daemon; });
  return result;
}

void TestCluster::kill_node(std::size_t index) {
  Node& node = nodes_.at(index);
  if (std::exchange(node.gone, true)) return;
  signal_node(index, SIGSTOP);  // TC-4
  ::kill(node.process.pid, SIGKILL);
  kill_marked(node.mark, std::chrono::seconds(5));
  end_process(node.process, Duration::zero());
}

void TestCluster::stop_node(std::size_t index) {
  Node& node = nodes_.at(index);
  if (std::exchange(node.gone, true)) return;
  (void)send_message(node.process.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
  end_process(node.process, kGrace);
  kill_marked(node.mark, std::chrono::seconds(2));
}

void TestCluster::signal_node(std::size_t index, int signal) {
  std::set<int> done;
  for (bool any = true; any;) {  // a process that forked meanwhile is found by the next pass
    any = false;
    for (int pid : pids(index))
      if (done.insert(pid).second) any |= ::kill(pid, signal) == 0;
  }
}

void TestCluster::kill_head() {
  if (head_.pid <= 0) return;
  ::kill(head_.pid, SIGKILL);
  end_process(head_, Duration::zero());
}

Status TestCluster::restart_head() {
  kill_head();
  return start_head(port_of(address_));
}

}  // namespace troupe::node
