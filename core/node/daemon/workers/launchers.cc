#include "core/node/daemon/workers/launchers.h"

#include <fcntl.h>
#include <signal.h>

#include "core/base/log.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"
#include "core/node/session/session.h"

namespace troupe::node {
namespace {
std::string digest_start(const std::string& digest) { return digest.substr(0, 16); }
}  // namespace

std::uint32_t Launchers::of(Job& job) {
  if (auto it = by_job_.find(job.id); it != by_job_.end()) return it->second;
  if (!job.executable || given_up(job.id)) return 0;
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) {
    write_log(LogLevel::kError, "starting a launcher of job {}: {}", job.id, sockets.error().message());
    return 0;
  }
  const std::uint32_t id = next_++;
  Launcher launcher;
  launcher.job = job.id;
  if (local_) local_->start_launcher(std::move(sockets->second));
  else if (!start_process(job, id, launcher, sockets->second)) return 0;
  launcher.channel = std::make_unique<PacketChannel>(loop_, std::move(sockets->first));
  launcher.channel->set_handlers(
      {[this, id](BootPacket packet) { on_packet(id, packet); }, [this, id](const std::string&) { on_closed(id); }});
  launchers_[id] = std::move(launcher);
  by_job_[job.id] = id;
  return id;
}

bool Launchers::start_process(Job& job, std::uint32_t id, Launcher& launcher, const UniqueFd& socket) {
  launcher.log_file =
      node_.session_dir + "/logs/launcher-" + std::to_string(node_.node) + "-" + std::to_string(id) + ".log";
  const UniqueFd log(::open(launcher.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));

  SpawnOptions options;
  options.executable = job.executable.get();
  options.argv = job.image.argv;
  options.environment = job.image.environment;
  std::erase_if(options.environment, [](const std::string& e) { return e.starts_with("TROUPE_INTERNAL_"); });
  options.environment.push_back(std::string(kRoleVariable) + "=launcher");
  options.environment.push_back(std::string(kMarkVariable) + "=" +
                                mark_of(node_.session_name, node_.node_name, job.id, 0));
  options.working_dir = job.image.working_dir;
  options.out = options.err = log.get();
  options.fds = {{socket.get(), kRoleFd}};
  Result<int> pid = spawn(options);
  if (!pid.ok()) {
    write_log(LogLevel::kError, "starting a launcher of job {}: {}", job.id, pid.error().message());
    // Elsewhere than where the driver runs from it, it may be half copied: it is tried again (NJ-4).
    if (job.driver.node == node_.node) failures_[job.id] = kLauncherFailuresMax;
    else job.executable.reset();
    return false;
  }
  launcher.pid = *pid;
  return true;
}

void Launchers::fork(std::uint32_t launcher, const wire::ForkRequest& request, std::vector<UniqueFd> fds) {
  launchers_.at(launcher).channel->send(wire::BootKind::kFork, request, std::move(fds));
}

void Launchers::on_packet(std::uint32_t id, const BootPacket& packet) {
  switch (packet.kind) {
    case wire::BootKind::kLauncherReady:
      if (Result<wire::LauncherReady> ready = wire::decode_message<wire::LauncherReady>(packet.payload); ready.ok())
        on_ready(launchers_.at(id), *ready);
      break;
    case wire::BootKind::kForked:
      if (Result<wire::Forked> forked = wire::decode_message<wire::Forked>(packet.payload); forked.ok())
        events_.forked(*forked);
      break;
    case wire::BootKind::kExited:
      if (Result<wire::Exited> exited = wire::decode_message<wire::Exited>(packet.payload); exited.ok())
        events_.exited(*exited);
      break;
    default: write_log(LogLevel::kWarn, "a packet of kind {} from a launcher", static_cast<std::uint32_t>(packet.kind));
  }
}

void Launchers::on_ready(Launcher& launcher, const wire::LauncherReady& ready) {
  launcher.ready = true;
  const Job* job = jobs_.find(launcher.job);
  if (!job || ready.registry_digest == job->registry_digest) return;
  std::string& problem = problems_[job->id];
  problem = job->image.executable + " on node " + node_.node_id + " has other registered functions (digest " +
            digest_start(ready.registry_digest) + ") than the driver (digest " + digest_start(job->registry_digest) +
            "): the file was changed, or is of another build; start the driver anew";
  write_log(LogLevel::kError, "job {}: {}", job->id, problem);
}

void Launchers::on_closed(std::uint32_t id) {
  auto node = launchers_.extract(id);
  const Launcher& launcher = node.mapped();
  if (launcher.pid > 0) ::kill(launcher.pid, SIGKILL);
  by_job_.erase(launcher.job);
  const std::string tail = file_tail(launcher.log_file, 5);
  if (const Job* job = jobs_.find(launcher.job); job && !job->ended) {
    write_log(LogLevel::kWarn, "the launcher of job {} ended:{}", job->id, tail);
    if (launcher.ready) failures_.erase(job->id);
    else ++failures_[job->id];
  }
  events_.gone(id, launcher.job, tail);
}

bool Launchers::given_up(JobId job) const {
  if (problems_.contains(job)) return true;
  auto it = failures_.find(job);
  return it != failures_.end() && it->second >= kLauncherFailuresMax;
}

std::string Launchers::problem(JobId job) const {
  auto it = problems_.find(job);
  return it == problems_.end() ? "" : it->second;
}

void Launchers::forget_job(JobId job) {
  failures_.erase(job);
  problems_.erase(job);
}

void Launchers::kill_all() {
  for (auto& [id, launcher] : launchers_)
    if (launcher.pid > 0) ::kill(launcher.pid, SIGKILL);
  if (local_) launchers_.clear();  // a closed socket ends one that is a thread
}

}  // namespace troupe::node
