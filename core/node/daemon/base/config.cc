#include "core/node/daemon/base/config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/boot/boot_socket.h"
#include "core/node/session/session.h"
#include "core/node/launcher/spawn.h"
#include "core/node/launcher/strays.h"
#include "core/wire/codec_define.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(node::DaemonConfig)
TROUPE_WIRE_MESSAGE(node::HeadConfig)
TROUPE_WIRE_MESSAGE(node::ReadyReport)

}  // namespace troupe::wire

namespace troupe::node {
namespace {

constexpr std::size_t kConfigMax = 1 << 20;
constexpr double kStoreFraction = 0.3;
constexpr double kCallFraction = 0.25;
constexpr std::uint64_t kRingMemory = 64 << 20;  // 960 pairs: 44 processes that all talk to each other

int count_gpus() {
  std::error_code ignored;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    (void)entry;
    ++count;
  }
  return count;
}

int count_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Status check_amount(const std::string& name, double amount) {
  if (!std::isfinite(amount) || amount < 0)
    return InvalidArgumentError("the amount of " + name + " must be a number of at least 0");
  return {};
}

/// Only what never leaves the machine.
bool is_loopback(const std::string& address) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (::inet_pton(AF_INET6, address.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return address == "localhost";
}

/// What a small node needs: about eight descriptors a process, and those of links, store and head.
constexpr rlim_t kOpenFilesMin = 256;

Status check_limits(std::uint64_t store_bytes) {
  rlimit files{}, space{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kOpenFilesMin)
    return InvalidArgumentError("this process may open " + std::to_string(files.rlim_max) +
                                " files (ulimit -n); a node needs at least " + std::to_string(kOpenFilesMin) +
                                ": raise the limit");
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && store_bytes > space.rlim_cur / 2)
    return InvalidArgumentError("this process may map " + std::to_string(space.rlim_cur) +
                                " bytes of memory (ulimit -v), half of which an object store of " +
                                std::to_string(store_bytes) +
                                " bytes exceeds: ask for a smaller one (--object-store-memory, "
                                "--troupe-object-store-memory), or raise the limit");
  return {};
}

Status check_bind(const NodeOptions& options) {
  if (is_loopback(options.bind) || options.plaintext_network) return {};
  return InvalidArgumentError(
      "listening at " + options.bind +
      " sends arguments, results and objects over the network unencrypted: whoever "
      "is on the path can read and change them; on a network that you trust say so with --plaintext-network");
}

}  // namespace

Result<UniqueFd> write_config(const std::vector<std::byte>& bytes) {
  UniqueFd fd(::memfd_create("troupe-config", MFD_CLOEXEC));
  if (fd.get() < 0 || ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return make_error<Error>(std::string("writing a configuration: ") + std::strerror(errno));
  return fd;
}

Result<std::vector<std::byte>> read_config(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size < 0 || static_cast<std::size_t>(info.st_size) > kConfigMax)
    return make_error<InvalidArgumentError>("this process was started without its configuration");
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  if (::pread(fd, bytes.data(), bytes.size(), 0) != info.st_size)
    return make_error<Error>("reading the configuration failed");
  return bytes;
}

Result<DaemonConfig> resolve_node(const NodeOptions& options) {
  if (Status status = check_bind(options); !status.ok()) return status.error_ptr();
  DaemonConfig config;
  config.resources["CPU"] = options.cpus == kUnset ? count_cpus() : options.cpus;
  config.resources["GPU"] = options.gpus == kUnset ? count_gpus() : options.gpus;
  config.resources["memory"] = static_cast<double>(options.memory ? options.memory : machine_memory());
  for (const auto& [name, amount] : options.resources) {
    if (name.empty() || name == "CPU" || name == "GPU" || name == "memory")
      return make_error<InvalidArgumentError>("a custom resource cannot be named \"" + name + "\"");
    config.resources[name] = amount;
  }
  for (const auto& [name, amount] : config.resources)
    if (Status status = check_amount(name, amount); !status.ok()) return status.error_ptr();
  if (config.resources["GPU"] != std::floor(config.resources["GPU"]))
    return make_error<InvalidArgumentError>("a node has a whole number of GPUs");
  if (config.resources["GPU"] == 0) config.resources.erase("GPU");
  if (options.max_suspended_workers < 1)
    return make_error<InvalidArgumentError>("max_suspended_workers must be at least 1");
  config.object_store_memory = options.object_store_memory
                                   ? options.object_store_memory
                                   : static_cast<std::uint64_t>(kStoreFraction * static_cast<double>(machine_memory()));
  if (config.object_store_memory > machine_memory())
    return make_error<InvalidArgumentError>(
        "an object store of " + std::to_string(config.object_store_memory) +
        " bytes does not fit this machine, which has " + std::to_string(machine_memory()) +
        " bytes of memory: ask for less (--object-store-memory, --troupe-object-store-memory)");
  if (Status status = check_limits(config.object_store_memory); !status.ok()) return status.error_ptr();
  config.labels = options.labels;
  config.log_level = options.log_level;
  config.bind = options.bind;
  config.max_suspended_workers = options.max_suspended_workers;
  config.stack_size = options.stack_size;
  config.ring_memory = options.ring_memory ? options.ring_memory : kRingMemory;
  config.call_memory = options.call_memory
                           ? options.call_memory
                           : static_cast<std::uint64_t>(kCallFraction * static_cast<double>(machine_memory()));
  return config;
}

Result<RoleProcess> begin_role(const RoleStart& start) {
  Result<UniqueFd> config = write_config(start.config);
  if (!config.ok()) return config.error_ptr();
  Result<std::pair<UniqueFd, UniqueFd>> sockets = boot_socket_pair();
  if (!sockets.ok()) return sockets.error_ptr();
  Result<UniqueFd> executable = open_own_executable();
  if (!executable.ok()) return executable.error_ptr();
  const UniqueFd log(::open(start.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (log.get() < 0)
    return make_error<InvalidArgumentError>("cannot write " + start.log_file + ": " + std::strerror(errno));

  SpawnOptions options;
  options.executable = executable->get();
  options.argv = own_argv();
  options.environment = clean_environment();
  options.environment.push_back(std::string(kRoleVariable) + "=" + start.role);
  options.environment.push_back(std::string(kMarkVariable) + "=" + start.mark);
  options.out = options.err = log.get();
  options.fds = {{config->get(), kRoleFd}, {sockets->second.get(), kLifelineFd}};
  options.die_with_parent = start.die_with_parent;
  Result<int> pid = spawn(options);
  if (!pid.ok()) return pid.error_ptr();
  return RoleProcess{*pid, std::move(sockets->first), {}};
}

Result<ReadyReport> await_ready(const RoleProcess& process, const RoleStart& start) {
  Result<BootPacket> packet = wait_packet(process.lifeline.get(), start.ready_timeout);
  std::string problem;
  if (packet.ok()) {
    Result<ReadyReport> report = wire::decode_message<ReadyReport>(packet->payload);
    if (report.ok() && report->error.empty()) return report;
    problem = report.ok() ? report->error : report.error().message();
    if (report.ok()) return make_error<RuntimeEnvError>("the " + start.role + " did not start: " + problem);
  } else {
    problem = packet.error().code() == ErrorCode::kGetTimeout ? "it did not answer in time" : "it ended";
  }
  const std::string tail = file_tail(start.log_file, 10);
  return make_error<RuntimeEnvError>("the " + start.role + " did not start: " + problem +
                                     (tail.empty() ? "" : "; its last lines (" + start.log_file + "):" + tail));
}

Result<RoleProcess> start_role(const RoleStart& start) {
  Result<RoleProcess> process = begin_role(start);
  if (!process.ok()) return process;
  Result<ReadyReport> report = await_ready(*process, start);
  if (!report.ok()) {
    ::kill(process->pid, SIGKILL);
    ::waitpid(process->pid, nullptr, 0);
    return report.error_ptr();
  }
  process->report = std::move(*report);
  return process;
}

void report_head(int lifeline, const Result<std::string>& address) {
  ReadyReport report;
  report.pid = ::getpid();
  if (address.ok()) report.address = *address;
  else report.error = address.error().message();
  (void)send_message(lifeline, wire::BootKind::kWelcome, report).ok();
}

}  // namespace troupe::node
