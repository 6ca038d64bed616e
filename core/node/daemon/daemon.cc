#include "core/node/daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/base/log.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"
#include "core/node/session/session.h"

namespace troupe::node {
namespace {
constexpr Duration kSpin = std::chrono::microseconds(20);
constexpr std::chrono::seconds kDriverEndWait{2};
constexpr int kHeadEndWait = 3000;  // milliseconds: it ends its links and writes its last rows
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
  const int code = loop_->run([this] { return parts_ && parts_->drain(); }, kSpin);
  finish();
  return code;
}

// ------------------------------------------------------------------------------------------------------------ starting

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
  watch_lifeline();
  if (config_.head_address.empty())
    if (Status status = start_head(); !status.ok()) return status;
  Result<net::Token> token = net::Token::read_file(config_.token_file);
  if (!token.ok()) return token.error_ptr();
  if (Status status = open_links(*token); !status.ok()) return status;
  make_membership();
  return membership_->join();
}

Status Daemon::start_head() {
  HeadConfig head{config_.session_dir, config_.token_file, config_.bind,     config_.head_port,
                  config_.embedded,    ::getpid(),         config_.log_level};
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

Status Daemon::open_links(const net::Token& token) {
  LinkCallbacks callbacks;
  callbacks.frame = [this](std::uint32_t node, const net::FrameHeader& header, ByteView payload) {
    if (parts_) parts_->on_link_frame(node, header, payload);
  };
  callbacks.head_answer = [this](const net::FrameHeader& header, ByteView payload) {
    (void)membership_->take_answer(header, payload);
  };
  callbacks.head_up = [this] { membership_->link_up(); };
  callbacks.head_down = [this](const std::string& why) {
    if (!stopping_) membership_->link_down(why);
  };
  callbacks.report = [this](std::uint32_t node, wire::LinkState state, const std::string& why) {
    membership_->report(node, state, why);
  };
  callbacks.never_sent = [this](std::uint32_t node, const std::vector<net::FrameHeader>& frames) {
    if (parts_) parts_->never_sent(node, frames);
  };
  callbacks.room = [this](std::uint32_t node) {
    if (parts_) parts_->room(node);
  };
  Result<std::unique_ptr<DaemonLinks>> links = DaemonLinks::open(*loop_, {.token = token}, std::move(callbacks),
                                                                 local_ ? local_->link_opener() : &net::open_links);
  if (!links.ok()) return links.error_ptr();
  links_ = std::move(*links);
  Result<int> port = links_->listen(config_.bind);
  if (!port.ok()) return port.error_ptr();
  link_address_ = config_.bind + ":" + std::to_string(*port);

  data_port_ = std::make_unique<DataPort>(
      *loop_,
      Transfers::Surroundings{.others = [this] { return links_->linked(); },
                              .data_address = [this](std::uint32_t node) { return links_->data_address(node); }});
  if (local_) return {};  // there are no other nodes
  const auto rank_connected = [this](UniqueFd connection, ByteView body) {  // a thread of the data server
    Result<net::Introduction> who = net::decode_introduction(body);
    if (!who.ok()) return write_log(LogLevel::kWarn, "closed a connection to the data port: {}", who.error().message());
    auto held = std::make_shared<UniqueFd>(std::move(connection));  // shared: a Loop::Work can be copied
    loop_->post([this, who = *who, held] {
      if (parts_) parts_->rank_arrived(who, std::move(*held));
    });
  };
  Result<std::string> data = data_port_->open({token, config_.bind, rank_connected});
  if (!data.ok()) return data.error_ptr();
  data_address_ = std::move(*data);
  return {};
}

void Daemon::make_membership() {
  Membership::Self self;
  self.head_address = config_.head_address;
  self.embedded_head = owns_head_ && config_.embedded;
  self.links_in_memory = local_ != nullptr;
  wire::NodeInfo& info = self.registration.info;
  info.state = "ALIVE";
  info.address = link_address_;
  info.data_address = data_address_;
  info.is_head = config_.is_head_node;
  info.resources = config_.resources;
  info.labels = config_.labels;
  info.pid = ::getpid();
  self.registration.session_dir = config_.session_dir;
  Membership::Events events;
  events.registered = [this](const wire::RegisterNodeReply& reply) { return serve(reply); };
  events.registered_again = [this] { parts_->send_load(); };
  events.available = [this] { return parts_ ? parts_->available() : config_.resources; };
  events.node_died = [this](const wire::NodeDied& death) {
    if (parts_) parts_->node_died(death);
  };
  events.head_died = [this](const wire::NodeDied& death) { parts_->head_died(death); };
  events.refused = [this](const std::string& why) { report_ready(why); };
  events.stop = [this](const std::string& why) { stop(why); };
  membership_ = std::make_unique<Membership>(*loop_, *links_, std::move(self), std::move(events));
}

Status Daemon::serve(const wire::RegisterNodeReply& reply) {
  node_ = reply.node;
  node_id_ = reply.node_id;
  NodeParts::Outer outer{*loop_,
                         *links_,
                         *data_port_,
                         *membership_,
                         config_,
                         local_.get(),
                         owns_head_ && config_.embedded,
                         [this](const std::string& why) { stop(why); }};
  Result<std::unique_ptr<NodeParts>> parts = NodeParts::create(std::move(outer), reply, session_name_);
  if (!parts.ok()) return parts.error_ptr();
  parts_ = std::move(*parts);
  socket_path_ = config_.session_dir + "/" + config_.node_name + ".sock";
  if (Status status = parts_->listen(socket_path_); !status.ok()) return status;
  const std::vector<std::pair<std::string, std::string>> info{
      {"address", config_.head_address},
      {"socket", socket_path_},
      {"node_id", node_id_},
      {"pid", std::to_string(::getpid())},
      {"embedded", config_.embedded ? "1" : "0"},
      {"token", config_.token_file},
      {"local", local_ ? "1" : "0"}};  // its head is a thread: no command reaches it
  for (const char* folder : {"/", "/events/"})  // the second stays when the session is over
    if (Status status = write_info(config_.session_dir + folder + config_.node_name + ".info", info); !status.ok())
      return status;
  report_ready("");
  write_log(LogLevel::kInfo, "node {} ({}) serves {}", reply.node, node_id_, socket_path_);
  return {};
}

void Daemon::report_ready(const std::string& error) {
  if (std::exchange(ready_, true)) return;
  ReadyReport report;
  report.address = config_.head_address;
  report.socket_path = socket_path_;
  report.node_id = node_id_;
  report.node = node_;
  report.pid = ::getpid();
  report.error = error;
  if (lifeline_) (void)send_message(lifeline_.get(), wire::BootKind::kWelcome, report).ok();
}

// ------------------------------------------------------------------------------------------------------------ watching

void Daemon::watch_parent() {
  if (!config_.embedded || local_) return;
  parent_pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, config_.parent_pid, 0)));
  if (!parent_pidfd_) return driver_gone();
  loop_->watch(parent_pidfd_.get(), EPOLLIN, [this](std::uint32_t) { driver_gone(); });
}

void Daemon::watch_lifeline() {
  ::fcntl(lifeline_.get(), F_SETFL, ::fcntl(lifeline_.get(), F_GETFL) | O_NONBLOCK);
  loop_->watch(lifeline_.get(), EPOLLIN, [this](std::uint32_t) {
    Result<Received> received = receive_packet(lifeline_.get());
    if (received.ok() && received->state == Received::State::kNothing) return;
    const bool closed = !received.ok() || received->state == Received::State::kClosed;
    if (closed) loop_->forget(lifeline_.get());
    if (!closed) return stop("stopped by request");
    if (config_.embedded) driver_gone();
  });
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
      if (!stopping_ && membership_) membership_->head_ended("the head " + describe_wait_status(status));
    } else if (parts_) {
      parts_->child_ended(pid, status);
    }
  }
}

// ------------------------------------------------------------------------------------------------------------ stopping

void Daemon::stop(const std::string& reason) {
  if (std::exchange(stopping_, true)) return;
  write_log(LogLevel::kInfo, "the daemon ends: {}", reason);
  if (loop_) loop_->quit(0);
}

void Daemon::driver_gone() {
  driver_gone_ = true;
  stop("the driver is gone");
}

void Daemon::finish() {
  if (parts_) parts_->kill_all();  // DA-3
  if (local_) end_threads();
  else end_processes();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  ::unlink((config_.session_dir + "/" + config_.node_name + ".info").c_str());
  if (!local_) flush_log();
  clean_session(config_.session_dir, std::move(session_lock_));
}

void Daemon::end_processes() {
  kill_marked(session_name_ + "/" + config_.node_name + "/", std::chrono::seconds(2));
  if (links_) links_->shutdown();
  if (driver_gone_) {
    // While the head runs: should this process be killed from here on, either the head sees that or nothing is left to
    // clean (RO-2).
    session_lock_.reset();
    (void)await_release(config_.session_dir, kDriverEndWait);
    clean_session(config_.session_dir, {});
  }
  if (head_.pid > 0) {
    (void)send_message(head_.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, head_.pid, 0)));
    pollfd poll{pidfd.get(), POLLIN, 0};
    if (::poll(&poll, 1, kHeadEndWait) <= 0) ::kill(head_.pid, SIGKILL);
  }
  end_children(signals_.get(), std::chrono::seconds(2));
}

void Daemon::end_threads() {
  local_->warn_of_left_behind(local_->join_launchers());
  if (links_) links_->shutdown();
  (void)send_message(head_.lifeline.get(), wire::BootKind::kWelcome, wire::Empty{}).ok();
  local_->join_head();
}

int daemon_main(const RoleHooks&) {
  ::unsetenv(kRoleVariable);
  ::prctl(PR_SET_NAME, "troupe-daemon");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  // a limit on the size of files is met by the store's memory too: an error that says so, not a death
  ::signal(SIGXFSZ, SIG_IGN);
  keep_heap_small();
  raise_file_limit();
  for (int fd : {kRoleFd, kLifelineFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const UniqueFd config_fd(kRoleFd);
  UniqueFd lifeline(kLifelineFd);
  Result<std::vector<std::byte>> bytes = read_config(config_fd.get());
  Result<DaemonConfig> config =
      bytes.ok() ? wire::decode_message<DaemonConfig>(*bytes) : Result<DaemonConfig>(bytes.error_ptr());
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
