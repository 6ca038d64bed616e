#include "core/node/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/log.h"
#include "core/node/session.h"
#include "core/node/spawn.h"
#include "core/node/strays.h"

namespace troupe::node {
namespace {

constexpr Duration kSpin = std::chrono::microseconds(20);
constexpr Duration kHeadTimeout = std::chrono::seconds(15);
constexpr int kDrainBudget = 512;
constexpr std::uint64_t kRegisterToken = ~std::uint64_t{0};

}  // namespace

Daemon::Daemon(DaemonConfig config, UniqueFd lifeline, std::shared_ptr<LocalNode> local)
    : local_(std::move(local)), config_(std::move(config)), lifeline_(std::move(lifeline)) {
  session_name_ = std::filesystem::path(config_.session_dir).filename().string();
}

Daemon::~Daemon() = default;

int Daemon::run() {
  if (Status status = begin(); !status.ok()) {
    report_ready(status.error().message());
    write_log(LogLevel::kError, "the daemon did not start: {}", status.error().message());
    if (loop_) stop(status.error().message());
    return 1;
  }
  const int code = loop_->run([this] { return poll(); }, kSpin);
  finish_stop();
  return code;
}

// -------------------------------------------------------------------------------------------------------------- starting

Status Daemon::begin() {
  Result<UniqueFd> lock = lock_session(config_.session_dir);
  if (!lock.ok()) return lock.error_ptr();
  session_lock_ = std::move(*lock);
  Result<std::unique_ptr<Loop>> loop = Loop::create();
  if (!loop.ok()) return loop.error_ptr();
  loop_ = std::move(*loop);

  if (!local_) {
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, s);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    loop_->watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_child_signal(); });
  }
  watch_parent();

  if (config_.head_address.empty())
    if (Status status = start_head(); !status.ok()) return status;
  Result<net::Token> token = net::Token::read_file(config_.token_file);
  if (!token.ok()) return token.error_ptr();
  LinkCallbacks callbacks;
  callbacks.frame = [this](std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
    if (node == 0 && header.token == kRegisterToken && header.kind == static_cast<std::uint8_t>(wire::FrameKind::kResponse)) {
      std::vector<std::byte> bytes(payload.begin(), payload.end());
      if (header.arg0 == 0) return on_registered(std::move(bytes));
      Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
      return on_registered(record.ok() ? Error::make(std::move(*record)) : record.error_ptr());
    }
    on_frame({node, 0}, header, payload);
  };
  callbacks.up = [this](std::uint32_t node) { link_up(node); };
  callbacks.down = [this](std::uint32_t node, const std::string& why) { link_down(node, why); };
  callbacks.undeliverable = [this](const net::FrameHeader& header) {
    if (mail_) mail_->undeliverable(header);
  };
  Result<std::unique_ptr<DaemonLinks>> links = DaemonLinks::open(*loop_, {.token = *token}, std::move(callbacks), local_ ? local_->link_opener() : &net::open_links);
  if (!links.ok()) return links.error_ptr();
  links_ = std::move(*links);
  Result<int> port = links_->listen(config_.bind);
  if (!port.ok()) return port.error_ptr();
  link_address_ = config_.bind + ":" + std::to_string(*port);
  if (Status status = start_data(*token); !status.ok()) return status;
  return links_->dial_head(config_.head_address, kHeadTimeout);
}

Status Daemon::start_head() {
  HeadConfig head{config_.session_dir, config_.token_file, config_.bind, config_.head_port, config_.embedded, ::getpid(), config_.log_level};
  RoleStart start;
  start.role = "head";
  start.config = wire::encode_message(head);
  start.mark = mark_of(session_name_, "head", 0, 0);
  start.log_file = config_.session_dir + "/logs/head.log";
  start.die_with_parent = !config_.embedded;  // an embedded head cleans up after a daemon that was killed (RO-2)
  Result<RoleProcess> process = local_ ? local_->start_head(head) : start_role(start);
  if (!process.ok()) return process.error_ptr();
  head_ = std::move(*process);
  config_.head_address = head_.report.address;
  config_.is_head_node = owns_head_ = true;
  return {};
}

void Daemon::watch_parent() {
  if (config_.embedded && !local_) {
    parent_pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, config_.parent_pid, 0)));
    if (!parent_pidfd_) return stop("the driver is gone");
    loop_->watch(parent_pidfd_.get(), EPOLLIN, [this](std::uint32_t) { stop("the driver is gone"); });
  }
  ::fcntl(lifeline_.get(), F_SETFL, ::fcntl(lifeline_.get(), F_GETFL) | O_NONBLOCK);
  loop_->watch(lifeline_.get(), EPOLLIN, [this](std::uint32_t) {
    Result<Received> received = receive_packet(lifeline_.get());
    if (received.ok() && received->state == Received::State::kNothing) return;
    const bool closed = !received.ok() || received->state == Received::State::kClosed;
    if (closed) loop_->forget(lifeline_.get());
    if (!closed || config_.embedded) stop(closed ? "the driver is gone" : "stopped by request");
  });
}

void Daemon::link_up(std::uint32_t node) {
  if (node != 0) return;
  wire::RegisterNode request;
  request.info.node = table_ ? table_->node() : 0;
  request.info.node_id = node_id_;
  request.info.state = "ALIVE";
  request.info.address = link_address_;
  request.info.data_address = data_address_;
  request.info.is_head = config_.is_head_node;
  request.info.resources = config_.resources;
  request.info.available = leases_ ? leases_->account().available().to_map() : config_.resources;
  request.info.labels = config_.labels;
  request.info.pid = ::getpid();
  request.session_dir = config_.session_dir;
  request.cluster_id = cluster_id_;
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kRequest);
  header.source = {request.info.node, 0};
  header.destination = kHead;
  header.token = kRegisterToken;
  header.arg0 = static_cast<std::uint64_t>(wire::Method::kRegisterNode);
  (void)links_->send(0, header, wire::encode_message(request));
}

void Daemon::on_registered(Result<std::vector<std::byte>> bytes) {
  Result<wire::RegisterNodeReply> reply = bytes.ok() ? wire::decode_message<wire::RegisterNodeReply>(*bytes) : Result<wire::RegisterNodeReply>(bytes.error_ptr());
  if (!reply.ok()) {
    report_ready(reply.error().message());
    return stop("the head refused this node: " + reply.error().message());
  }
  head_lost_ = false;
  if (table_) return send_load();  // we are back after a lost link
  if (Status status = serve(*reply); !status.ok()) {
    report_ready(status.error().message());
    stop(status.error().message());
  }
}

Status Daemon::serve(const wire::RegisterNodeReply& reply) {
  node_id_ = reply.node_id;
  cluster_id_ = reply.cluster_id;
  links_->set_self(reply.node, reply.cluster_id);
  table_ = std::make_unique<ProcessTable>(reply.node);
  Result<std::unique_ptr<net::Endpoint>> endpoint = net::Endpoint::create({.self = daemon_of(reply.node), .grace = std::chrono::nanoseconds(0)});
  if (!endpoint.ok()) return endpoint.error_ptr();
  endpoint_ = std::move(*endpoint);
  loop_->watch(endpoint_->service_fd(), EPOLLIN, [this](std::uint32_t) { endpoint_->service(*this); });
  mail_ = std::make_unique<Mail>(*loop_, *endpoint_, *table_, *links_);
  sched::LeaseQueueOptions lease_options;
  lease_options.node = reply.node;
  lease_options.total = sched::ResourceSet::from_map(config_.resources);
  lease_options.labels = config_.labels;
  lease_options.max_suspended_workers = config_.max_suspended_workers;
  leases_ = std::make_unique<sched::LeaseQueue>(std::move(lease_options));
  Result<std::unique_ptr<StoreService>> store = StoreService::create(*loop_, *mail_, {reply.node, config_.object_store_memory});
  if (!store.ok()) return store.error_ptr();
  store_ = std::move(*store);
  store_->set_neighbours([this] { return links_->linked(); });
  wire_data();
  logs_ = std::make_unique<LogPumps>(*loop_, config_.session_dir + "/logs", [this](ProcessId id, wire::LogLines lines) {
    NodeProcess* process = table_->find(id);
    auto job = process ? jobs_.find(process->job) : jobs_.end();
    if (job != jobs_.end() && !job->second.ended) mail_->notice(job->second.driver, wire::Method::kLogLines, lines);
  });

  socket_path_ = config_.session_dir + "/" + config_.node_name + ".sock";
  Result<UniqueFd> listener = listen_boot_socket(socket_path_);
  if (!listener.ok()) return listener.error_ptr();
  listener_ = std::move(*listener);
  ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  loop_->watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_connection(); });
  if (Status status = write_info(config_.session_dir + "/" + config_.node_name + ".info",
                                 {{"address", config_.head_address}, {"socket", socket_path_}, {"node_id", node_id_},
                                  {"pid", std::to_string(::getpid())}, {"embedded", config_.embedded ? "1" : "0"}});
      !status.ok())
    return status;
  report_ready("");
  trim_idle();
  write_log(LogLevel::kInfo, "node {} ({}) serves {}", reply.node, node_id_, socket_path_);
  return {};
}

void Daemon::report_ready(const std::string& error) {
  if (std::exchange(ready_, true)) return;
  ReadyReport report;
  report.address = config_.head_address;
  report.socket_path = socket_path_;
  report.node_id = node_id_;
  report.node = table_ ? table_->node() : 0;
  report.pid = ::getpid();
  report.error = error;
  if (lifeline_) (void)send_message(lifeline_.get(), wire::BootKind::kWelcome, report).ok();
}

// --------------------------------------------------------------------------------------------------------------- serving

bool Daemon::poll() {
  return endpoint_ && endpoint_->try_drain(*this, kDrainBudget) > 0;
}

void Daemon::on_child_signal() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo != SIGCHLD) stop("ended by " + std::string(::strsignal(static_cast<int>(info.ssi_signo))));
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid == head_.pid) {
      head_.pid = 0;
      if (!stopping_) link_down(0, "the head " + describe_wait_status(status));
      continue;
    }
    if (!table_) continue;
    if (NodeProcess* process = table_->find_pid(pid)) process_exited(*process, status);  // its launcher died before it
  }
}

// -------------------------------------------------------------------------------------------------------------- stopping

void Daemon::stop(const std::string& reason) {
  if (std::exchange(stopping_, true)) return;
  write_log(LogLevel::kInfo, "the daemon ends: {}", reason);
  if (loop_) loop_->quit(0);
}

void Daemon::finish_stop() {
  if (local_) return finish_local();
  // DA-3: no courtesy is left at this point. Launchers and workers also die with us.
  for (auto& [id, launcher] : launchers_) if (launcher.pid > 0) ::kill(launcher.pid, SIGKILL);
  if (table_)
    for (auto& [serial, process] : table_->all())
      if (process->role == wire::Role::kWorker && process->pid > 0) {
        ::kill(-process->pid, SIGKILL);
        ::kill(process->pid, SIGKILL);
      }
  kill_marked(session_name_ + "/" + config_.node_name + "/", std::chrono::seconds(2));
  if (links_) links_->shutdown();
  if (head_.pid > 0) {
    (void)send_message(head_.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, head_.pid, 0)));
    pollfd poll{pidfd.get(), POLLIN, 0};
    if (::poll(&poll, 1, 1000) <= 0) ::kill(head_.pid, SIGKILL);
  }
  end_children(signals_.get(), std::chrono::seconds(2));
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  ::unlink((config_.session_dir + "/" + config_.node_name + ".info").c_str());
  flush_log();
  clean_session(config_.session_dir, std::move(session_lock_));
}

void Daemon::finish_local() {
  if (table_)
    for (auto& [serial, process] : table_->all()) strike(*process);
  launchers_.clear();
  local_->warn_of_left_behind(local_->join_launchers());
  if (links_) links_->shutdown();
  (void)send_message(head_.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
  local_->join_head();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  ::unlink((config_.session_dir + "/" + config_.node_name + ".info").c_str());
  clean_session(config_.session_dir, std::move(session_lock_));
}

int daemon_main(const RoleHooks&) {
  ::unsetenv(kRoleVariable);
  ::prctl(PR_SET_NAME, "troupe-daemon");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is met by the store's memory too: an error that says so, not a death
  keep_heap_small();
  raise_file_limit();
  for (int fd : {kRoleFd, kLifelineFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const UniqueFd config_fd(kRoleFd);
  UniqueFd lifeline(kLifelineFd);
  Result<std::vector<std::byte>> bytes = read_config(config_fd.get());
  Result<DaemonConfig> config = bytes.ok() ? wire::decode_message<DaemonConfig>(*bytes) : Result<DaemonConfig>(bytes.error_ptr());
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", config.error().what());
    return 1;
  }
  open_log({.file = config->session_dir + "/logs/" + config->node_name + "-daemon.log", .label = config->node_name,
            .level = log_level_of(config->log_level, LogLevel::kInfo)});
  Daemon daemon(std::move(*config), std::move(lifeline));
  return daemon.run();
}

}  // namespace troupe::node
