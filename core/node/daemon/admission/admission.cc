#include "core/node/daemon/admission/admission.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr Duration kHelloWait = std::chrono::seconds(10), kHeadWait = std::chrono::seconds(10),
                   kAcceptPause = std::chrono::milliseconds(100);

constexpr std::string_view kDeleted = " (deleted)";

std::string short_digest(const std::string& digest) { return digest.empty() ? "(none)" : digest.substr(0, 16); }

ErrorRecord digest_error(const std::string& theirs, const std::string& ours) {
  return make_record(ErrorCode::kUnauthenticated, "this process has other registered functions (digest " +
                                                      short_digest(theirs) + ") than its job (digest " +
                                                      short_digest(ours) +
                                                      "): it was started from another build of the program");
}

ErrorRecord descriptors_error() {
  return make_record(ErrorCode::kRuntimeEnv,
                     "the daemon of this node has no file descriptor left for another process: raise its limit of "
                     "open files (ulimit -n) and start the node anew");
}

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

/// The program that a driver runs, by the kernel's word: the very file, also when its path has another one by now.
struct Program {
  UniqueFd file;
  std::string path;
};

Program program_of(int pid, const std::string& said) {
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  char text[4096];
  const ssize_t length = ::readlink(link.c_str(), text, sizeof(text));
  std::string path(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  if (!said.empty() && said != path) {
    // The kernel runs something that runs the program: valgrind, an emulator. Workers are started from the program
    // itself.
    UniqueFd file(::open(said.c_str(), O_RDONLY | O_CLOEXEC));
    if (file) return {std::move(file), said};
  }
  return {UniqueFd(::open(link.c_str(), O_RDONLY | O_CLOEXEC)), path.empty() ? said : path};
}

/// Whoever sends one and the same descriptor again and again: all or none.
class Copies {
 public:
  void add(int fd) {
    fds_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (fds_.back().get() < 0 && status_.ok()) status_ = Error::make(descriptors_error());
  }
  void add(UniqueFd fd) { fds_.push_back(std::move(fd)); }
  const Status& status() const { return status_; }
  std::vector<UniqueFd> take() { return std::move(fds_); }

 private:
  std::vector<UniqueFd> fds_;
  Status status_;
};

}  // namespace

Admission::Admission(Parts parts, const DaemonConfig& config, std::string node_id, Events events)
    : parts_(parts), config_(config), node_id_(std::move(node_id)), events_(std::move(events)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

Admission::~Admission() {
  if (listener_) parts_.loop.forget(listener_.get());
}

Status Admission::listen(const std::string& socket_path) {
  Result<UniqueFd> listener = listen_boot_socket(socket_path);
  if (!listener.ok()) return listener.error_ptr();
  listener_ = std::move(*listener);
  ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  parts_.loop.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_connection(); });
  return {};
}

// --------------------------------------------------------------------------------------------------------- connections

void Admission::on_connection() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && out_of_descriptors(errno)) return accept_and_refuse();
    if (!fd) return;
    Result<Peer> peer = peer_of(fd.get());
    if (!peer.ok() || peer->uid != ::getuid()) {
      write_log(LogLevel::kWarn, "refused a connection of another user");
      continue;
    }
    const int number = fd.get();
    Connection& connection = connections_[number];
    connection.channel = std::make_unique<PacketChannel>(parts_.loop, std::move(fd));
    connection.peer = *peer;
    connection.timeout = parts_.loop.after(kHelloWait, [this, number] { drop(number); });
    connection.channel->set_handlers({[this, number](BootPacket packet) { on_first_packet(number, std::move(packet)); },
                                      [this, number](const std::string& why) {
                                        if (!why.empty()) write_log(LogLevel::kWarn, "closed a connection: {}", why);
                                        drop(number);
                                      }});
  }
}

/// AD-2. The connection stays in the listener's queue otherwise, and wakes the loop for ever.
void Admission::accept_and_refuse() {
  spare_.reset();
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    write_log(LogLevel::kError, "refused a process: {}", descriptors_error().message);
    (void)send_message(fd.get(), wire::BootKind::kRefused, wire::Refused{descriptors_error()}).ok();
    fd.reset();
  }
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (spare_) return;
  parts_.loop.rearm(listener_.get(), 0);  // not even that: others took it; looks again a little later
  parts_.loop.after(kAcceptPause, [this] {
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    parts_.loop.rearm(listener_.get(), EPOLLIN);
  });
}

void Admission::drop(int fd) {
  auto node = connections_.extract(fd);
  if (node) parts_.loop.cancel(node.mapped().timeout);
}

void Admission::refuse(PacketChannel& channel, ErrorRecord error) {
  write_log(LogLevel::kWarn, "refused a process: {}", error.message);
  channel.send(wire::BootKind::kRefused, wire::Refused{std::move(error)});
}

void Admission::on_first_packet(int fd, BootPacket packet) {
  auto node = connections_.extract(fd);
  parts_.loop.cancel(node.mapped().timeout);
  std::unique_ptr<PacketChannel> channel = std::move(node.mapped().channel);
  if (packet.kind != wire::BootKind::kHello) return;
  Result<wire::Hello> hello = wire::decode_message<wire::Hello>(packet.payload);
  if (!hello.ok()) return refuse(*channel, hello.error().record());
  const auto bad = [&](const std::string& why) { refuse(*channel, make_record(ErrorCode::kInvalidArgument, why)); };
  if (hello->protocol != wire::kProtocolVersion)
    return bad("this program speaks protocol " + std::to_string(hello->protocol) + ", the cluster " +
               std::to_string(wire::kProtocolVersion) + ": rebuild it");
  if (hello->role != wire::Role::kDriver && hello->role != wire::Role::kTool)
    return bad("only drivers and tools connect; workers are started by the daemon");
  if (packet.fds.size() != 2) return bad("a Hello needs a doorbell and an event descriptor");
  admit(std::move(channel), node.mapped().peer, std::move(*hello), std::move(packet.fds));
}

// --------------------------------------------------------------------------------------------------- drivers and tools

void Admission::admit(std::unique_ptr<PacketChannel> channel, Peer peer, wire::Hello hello, std::vector<UniqueFd> fds) {
  NodeProcess& process = parts_.table.add(hello.role, 0);
  process.pid = peer.pid;
  process.channel = std::move(channel);
  process.doorbell = std::move(fds[0]);
  process.event = std::move(fds[1]);
  process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  const ProcessId id = process.id;
  watch(process);
  if (hello.role == wire::Role::kTool) {
    if (Status status = welcome(process); !status.ok()) refuse(*process.channel, status.error().record());
    return;
  }
  wire::RegisterJob job{id, peer.pid, hello.name_space, hello.image, hello.registry_digest};
  job.image.environment.clear();  // the head starts nothing: what secrets it holds need not leave this node for it
  auto registered = [this, id, hello = std::move(hello)](Result<Messenger::Bytes> reply) {
    driver_registered(id, hello, std::move(reply));
  };
  parts_.messenger.request(kHead, wire::Method::kRegisterJob, job, kHeadWait, std::move(registered));
}

void Admission::driver_registered(ProcessId id, const wire::Hello& hello, Result<Messenger::Bytes> bytes) {
  Result<wire::RegisterJobReply> reply = bytes.ok() ? wire::decode_message<wire::RegisterJobReply>(*bytes)
                                                    : Result<wire::RegisterJobReply>(bytes.error_ptr());
  NodeProcess* process = parts_.table.find(id);
  if (!process || process->state != NodeProcess::State::kStarting) {  // it went meanwhile
    if (reply.ok())
      parts_.messenger.notice(kHead, wire::Method::kJobFinished,
                              wire::JobFinished{reply->job, id, -1, "the driver ended at its start"});
    return;
  }
  if (!reply.ok()) return refuse(*process->channel, reply.error().record());
  Job& job = parts_.jobs.add(reply->job);
  job.driver = id;
  job.name_space = reply->name_space;
  job.registry_digest = hello.registry_digest;
  job.image = hello.image;
  Program program = program_of(process->pid, hello.image.executable);
  job.executable = std::move(program.file);
  job.image.executable = std::move(program.path);
  process->job = job.id;
  Status status = job.executable ? welcome(*process) : Status(Error::make(descriptors_error()));
  if (!status.ok()) return refuse(*process->channel, status.error().record());
  events_.driver_ready(job);
}

// ------------------------------------------------------------------------------------------------------------- workers

void Admission::on_worker_hello(NodeProcess& process, BootPacket packet) {
  Result<wire::Hello> hello = wire::decode_message<wire::Hello>(packet.payload);
  const Job* job = parts_.jobs.find(process.job);
  std::optional<ErrorRecord> problem;
  if (!hello.ok()) problem = hello.error().record();
  else if (packet.fds.size() != 2 || hello->serial != process.id.serial)
    problem = make_record(ErrorCode::kInvalidArgument, "a Hello that does not fit its fork");
  else if (job && hello->registry_digest != job->registry_digest)
    problem = digest_error(hello->registry_digest, job->registry_digest);
  const bool environment = problem && problem->code == ErrorCode::kUnauthenticated;
  if (!problem) {
    process.doorbell = std::move(packet.fds[0]);
    process.event = std::move(packet.fds[1]);
    if (process.pid == 0) process.pid = hello->pid;  // its Forked comes by another socket
    if (Status status = welcome(process); !status.ok()) problem = status.error().record();
  }
  if (!problem) return events_.worker_ready(process);
  refuse(*process.channel, *problem);
  events_.worker_refused(process.id, problem->message, environment);
}

// ------------------------------------------------------------------------------------------------------------- welcome

Status Admission::welcome(NodeProcess& process) {
  Result<UniqueFd> pair = net::Endpoint::create_pair({});
  if (!pair.ok()) return pair.error_ptr();
  Copies ours, theirs;
  for (int fd : {pair->get(), process.doorbell.get(), process.event.get()}) ours.add(fd);
  theirs.add(std::move(*pair));
  for (int fd : {parts_.endpoint.doorbell_fd(), parts_.endpoint.event_fd()}) theirs.add(fd);
  for (const Copies* copies : {&ours, &theirs})
    if (!copies->status().ok()) return copies->status();

  Result<store::StoreHandles> store = parts_.store.server().add_client(process.id);
  if (!store.ok()) return store.error_ptr();
  for (UniqueFd* fd : {&store->arena_read, &store->arena_write, &store->index, &store->pins})
    theirs.add(std::move(*fd));
  std::vector<UniqueFd> mine = ours.take();
  net::Attachment attachment{process.id, std::move(mine[0]), 0, std::move(mine[1]), std::move(mine[2])};
  if (Status status = parts_.endpoint.attach(std::move(attachment)); !status.ok()) {
    parts_.store.client_died(process.id);
    return status;
  }
  process.state = NodeProcess::State::kAlive;

  wire::Welcome message;
  message.self = process.id;
  message.worker_id = to_string(process.id);
  message.job = process.job;
  if (const Job* job = parts_.jobs.find(process.job)) {
    message.name_space = job->name_space;
    message.driver = job->driver;
    message.registry_digest = job->registry_digest;
  }
  message.store_capacity = store->layout.capacity;
  message.store_slots = store->layout.slots;
  message.store_large_from = store->layout.large_from;
  describe_node(message);
  process.channel->send(wire::BootKind::kWelcome, message, theirs.take());
  return {};
}

void Admission::describe_node(wire::Welcome& welcome) const {
  welcome.node_id = node_id_;
  welcome.session_dir = config_.session_dir;
  for (const auto& [name, amount] : config_.resources) {
    if (name == "CPU") welcome.node_resources.cpus = amount;
    else if (name == "GPU") welcome.node_resources.gpus = amount;
    else if (name == "memory") welcome.node_resources.memory = static_cast<std::uint64_t>(amount);
    else welcome.node_resources.custom[name] = amount;
  }
  welcome.stack_size = config_.stack_size;
  welcome.call_memory = config_.call_memory;
  welcome.log_level = config_.log_level;
}

// ------------------------------------------------------------------------------------------------------------ channels

void Admission::watch(NodeProcess& process) {
  const ProcessId id = process.id;
  const auto ending = [this, id] {
    if (NodeProcess* gone = parts_.table.find(id)) events_.closing(*gone);
  };
  process.channel->set_handlers({[this, id](BootPacket packet) { on_packet(id, std::move(packet)); },
                                 [ending](const std::string&) { ending(); }});
  if (!process.pidfd) return;
  parts_.loop.watch(process.pidfd.get(), EPOLLIN, [this, id, ending](std::uint32_t) {
    if (NodeProcess* gone = parts_.table.find(id)) parts_.loop.forget(gone->pidfd.get());
    ending();
  });
}

void Admission::forget(NodeProcess& process) {
  if (process.channel) process.channel->close();
  if (process.pidfd) parts_.loop.forget(process.pidfd.get());
}

void Admission::on_packet(ProcessId id, BootPacket packet) {
  NodeProcess* process = parts_.table.find(id);
  if (!process || packet.kind != wire::BootKind::kHello) return;
  if (process->state == NodeProcess::State::kStarting && process->role == wire::Role::kWorker)
    on_worker_hello(*process, std::move(packet));
}

}  // namespace troupe::node
