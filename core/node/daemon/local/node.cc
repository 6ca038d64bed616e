#include "core/node/daemon/local/node.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "core/base/log.h"
#include "core/head/service/server.h"
#include "core/boot/boot_socket.h"
#include "core/node/session/last_rows.h"

namespace troupe::node {
namespace {

void name_thread(const std::string& name) { ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str()); }

/// Ends of workers, from their threads to their launcher. Shared with threads that may be left behind.
class Ends {
 public:
  Ends() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const { return event_.get(); }
  void put(const wire::Exited& exited) {
    std::lock_guard lock(mutex_);
    ended_.push_back(exited);
    const std::uint64_t one = 1;
    [[maybe_unused]] auto put = ::write(event_.get(), &one, sizeof one);
  }
  std::vector<wire::Exited> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] auto got = ::read(event_.get(), &count, sizeof count);
    std::lock_guard lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::vector<wire::Exited> ended_;
};

/// What a worker's thread does. It owns all that it uses: it may be left behind.
void run_worker(const std::shared_ptr<Ends>& ends, const std::function<int(WorkerBoot)>& worker_main, sigset_t mask,
                WorkerBoot boot) {
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  wire::Exited exited{boot.serial, ::getpid(), W_EXITCODE(1, 0)};
  name_thread("worker-" + std::to_string(boot.serial));
  try {
    exited.wait_status = worker_main(std::move(boot));
  } catch (const std::exception& e) {
    write_log(LogLevel::kError, "a worker ended with an exception: {}", e.what());
  }
  ends->put(exited);
}

std::string problem_of(const wire::ForkRequest& request) {
  if (request.env_vars.empty() && request.working_dir.empty()) return {};
  return "env_vars and working_dir belong to a process, and in local mode (--troupe-local) all workers share one";
}

}  // namespace

struct LocalNode::Launcher {
  Launcher(const RoleHooks& hooks, const sigset_t& mask, UniqueFd socket)
      : hooks_(hooks), mask_(mask), socket_(std::move(socket)) {
    thread_ = std::thread([this] { run(); });
  }
  /// How many workers were left behind.
  int join() {
    thread_.join();
    return left_;
  }

 private:
  void run() {
    name_thread("troupe-launcher");
    if (send_message(socket_.get(), wire::BootKind::kLauncherReady,
                     wire::LauncherReady{::getpid(), 1, hooks_.registry_digest})
            .ok())
      while (step()) {}
    // their sockets are closed: they end, unless user code does not return
    const auto deadline = std::chrono::steady_clock::now() + kEndWait;
    while (!workers_.empty()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0) break;
      pollfd poll{ends_->fd(), POLLIN, 0};
      ::poll(&poll, 1, static_cast<int>(left));
      reap(false);
    }
    left_ = static_cast<int>(workers_.size());
    for (auto& [serial, thread] : workers_) thread.detach();
  }

  bool step() {
    pollfd polls[2] = {{socket_.get(), POLLIN, 0}, {ends_->fd(), POLLIN, 0}};
    ::poll(polls, 2, -1);  // waits for its daemon, with which it ends
    if (polls[1].revents) reap(true);
    if (!polls[0].revents) return true;
    Result<Received> received = receive_packet(socket_.get());
    if (!received.ok() || received->state == Received::State::kClosed) return false;
    if (received->state == Received::State::kPacket && received->packet.kind == wire::BootKind::kFork)
      start_worker(std::move(received->packet));
    return true;
  }

  void start_worker(BootPacket packet) {
    Result<wire::ForkRequest> request = wire::decode_message<wire::ForkRequest>(packet.payload);
    wire::Forked answer;
    if (!request.ok() || packet.fds.empty()) {
      answer.error = "a request that does not decode";
    } else {
      answer.serial = request->serial;
      answer.pid = ::getpid();
      answer.error = problem_of(*request);
      if (answer.error.empty()) answer.error = start_thread({std::move(packet.fds[0]), request->serial, *request});
    }
    (void)send_message(socket_.get(), wire::BootKind::kForked, answer).ok();
  }

  std::string start_thread(WorkerBoot boot) {
    const std::uint32_t serial = boot.serial;
    try {
      workers_[serial] =
          std::thread([ends = ends_, worker_main = hooks_.local_worker_main, mask = mask_,
                       boot = std::move(boot)]() mutable { run_worker(ends, worker_main, mask, std::move(boot)); });
      return {};
    } catch (const std::system_error& e) {
      workers_.erase(serial);
      return std::string("starting a thread: ") + e.what();
    }
  }

  void reap(bool tell) {
    for (const wire::Exited& exited : ends_->take()) {
      auto found = workers_.find(exited.serial);
      if (found == workers_.end()) continue;
      found->second.join();
      workers_.erase(found);
      if (tell) (void)send_message(socket_.get(), wire::BootKind::kExited, exited).ok();
    }
  }

  const RoleHooks& hooks_;
  const sigset_t mask_;
  UniqueFd socket_;
  const std::shared_ptr<Ends> ends_ = std::make_shared<Ends>();
  std::map<std::uint32_t, std::thread> workers_;  // by serial
  int left_ = 0;
  std::thread thread_;
};

LocalNode::LocalNode(RoleHooks hooks, const sigset_t& workers_mask)
    : hooks_(std::move(hooks)), workers_mask_(workers_mask) {}

LocalNode::~LocalNode() {
  (void)join_launchers();
  join_head();
}

void LocalNode::enter_thread(const std::string& name, const std::string& log_level) {
  name_thread(name);
  if (log_level.empty()) set_thread_log_floor(LogLevel::kWarn);
}

LinkOpener LocalNode::link_opener() const {
  return [shared = switch_](net::LinkEvents& events, const net::LinksOptions& options) {
    return shared->open(events, options);
  };
}

Result<RoleProcess> LocalNode::start_head(const HeadConfig& config, Duration ready_timeout) {
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) return sockets.error_ptr();
  head_ = std::thread([config, opener = link_opener(), lifeline = std::move(sockets->second)] {
    enter_thread("troupe-head", config.log_level);
    head::ServerOptions options;
    options.bind = config.bind;
    options.token_file = config.token_file;
    options.stop_fd = lifeline.get();
    options.own_process = false;
    options.membership.served_pid = ::getpid();  // the daemon ends with it, which is nobody's death
    options.open_links = opener;
    options.on_end = [&](wire::StateKind kind, const wire::StateReply& rows) {
      keep_last_rows(config.session_dir, kind, rows);
    };
    options.on_ready = [&](const Result<std::string>& address) { report_head(lifeline.get(), address); };
    head::head_main(options);
  });
  RoleProcess process{0, std::move(sockets->first), {}};
  Result<ReadyReport> report =
      await_ready(process, {.role = "head", .config = {}, .mark = {}, .log_file = {}, .ready_timeout = ready_timeout});
  if (!report.ok()) {
    process.lifeline.reset();
    join_head();
    return report.error_ptr();
  }
  process.report = std::move(*report);
  return process;
}

void LocalNode::start_launcher(UniqueFd socket) {
  launchers_.push_back(std::make_unique<Launcher>(hooks_, workers_mask_, std::move(socket)));
}

int LocalNode::join_launchers() {
  int left = 0;
  for (auto& launcher : launchers_) left += launcher->join();
  launchers_.clear();
  return left;
}

void LocalNode::join_head() {
  if (head_.joinable()) head_.join();
}

void LocalNode::warn_of_left_behind(int count) {
  if (count == 0 || std::exchange(warned_, true)) return;
  write_log(
      LogLevel::kWarn,
      "local mode: {} worker(s) that should have ended still run user code that neither returns nor waits; a thread "
      "cannot be killed: it is cut off from the cluster and left to itself",
      count);
}

}  // namespace troupe::node
