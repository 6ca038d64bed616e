// Newcomers: who connects, who is let in, and what they are given. Pairs between local processes.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/node/daemon.h"

namespace troupe::node {
namespace {

constexpr Duration kHelloWait = std::chrono::seconds(10), kHeadWait = std::chrono::seconds(10);

UniqueFd copy_of(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

std::string short_digest(const std::string& digest) { return digest.empty() ? "(none)" : digest.substr(0, 16); }

ErrorRecord digest_error(const std::string& theirs, const std::string& ours) {
  return make_record(ErrorCode::kUnauthenticated, "this process has other registered functions (digest " + short_digest(theirs) +
                                                      ") than its job (digest " + short_digest(ours) +
                                                      "): it was started from another build of the program");
}

}  // namespace

void Daemon::on_connection() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    Result<Peer> peer = peer_of(fd.get());
    if (!peer.ok() || peer->uid != ::getuid()) {
      write_log(LogLevel::kWarn, "refused a connection of another user");
      continue;
    }
    const int number = fd.get();
    Newcomer& newcomer = newcomers_[number];
    newcomer.channel = std::make_unique<BootChannel>(std::move(fd));
    newcomer.peer = *peer;
    newcomer.timeout = loop_->after(kHelloWait, [this, number] {
      loop_->forget(number);
      newcomers_.erase(number);
    });
    loop_->watch(number, EPOLLIN, [this, number](std::uint32_t) { on_newcomer(number); });
  }
}

void Daemon::on_newcomer(int fd) {
  Result<Received> received = newcomers_.at(fd).channel->receive();
  if (received.ok() && received->state == Received::State::kNothing) return;
  if (received.ok() && received->state == Received::State::kPacket && received->packet.kind == wire::BootKind::kHello)
    return on_hello(fd, std::move(received->packet));
  loop_->forget(fd);
  loop_->cancel(newcomers_.at(fd).timeout);
  newcomers_.erase(fd);
}

void Daemon::refuse(BootChannel& channel, ErrorRecord error) {
  write_log(LogLevel::kWarn, "refused a process: {}", error.message);
  channel.send_message(wire::BootKind::kRefused, wire::Refused{std::move(error)});
}

void Daemon::on_hello(int fd, BootPacket packet) {
  auto node = newcomers_.extract(fd);
  loop_->forget(fd);
  loop_->cancel(node.mapped().timeout);
  std::unique_ptr<BootChannel> channel = std::move(node.mapped().channel);
  Result<wire::Hello> hello = wire::decode_message<wire::Hello>(packet.payload);
  if (!hello.ok()) return refuse(*channel, hello.error().record());
  if (hello->protocol != wire::kProtocolVersion)
    return refuse(*channel, make_record(ErrorCode::kInvalidArgument, "this program speaks protocol " + std::to_string(hello->protocol) + ", the cluster " +
                                                                         std::to_string(wire::kProtocolVersion) + ": rebuild it"));
  if (hello->role != wire::Role::kDriver && hello->role != wire::Role::kTool)
    return refuse(*channel, make_record(ErrorCode::kInvalidArgument, "only drivers and tools connect; workers are started by the daemon"));
  if (packet.fds.size() != 2) return refuse(*channel, make_record(ErrorCode::kInvalidArgument, "a Hello needs a doorbell and an event descriptor"));
  admit_driver(std::move(channel), node.mapped().peer, std::move(*hello), std::move(packet.fds));
}

void Daemon::admit_driver(std::unique_ptr<BootChannel> channel, Peer peer, wire::Hello hello, std::vector<UniqueFd> fds) {
  NodeProcess& process = table_->add(hello.role, 0);
  process.pid = peer.pid;
  process.channel = std::move(channel);
  process.doorbell = std::move(fds[0]);
  process.event = std::move(fds[1]);
  process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  const ProcessId id = process.id;
  watch_channel(process);
  if (hello.role == wire::Role::kTool) {
    if (Status status = welcome(process, hello, {}); !status.ok()) refuse(*process.channel, status.error().record());
    return;
  }
  wire::RegisterJob job{id, peer.pid, hello.name_space, hello.image, hello.registry_digest};
  mail_->request(kHead, wire::Method::kRegisterJob, job, kHeadWait, [this, id, hello = std::move(hello)](Result<Mail::Bytes> reply) mutable {
    welcome_driver(id, std::move(hello), std::move(reply));
  });
}

void Daemon::welcome_driver(ProcessId id, wire::Hello hello, Result<Mail::Bytes> bytes) {
  Result<wire::RegisterJobReply> reply = bytes.ok() ? wire::decode_message<wire::RegisterJobReply>(*bytes) : Result<wire::RegisterJobReply>(bytes.error_ptr());
  NodeProcess* process = table_->find(id);
  if (!process || process->state != NodeProcess::State::kStarting) {  // it went meanwhile
    if (reply.ok()) mail_->notice(kHead, wire::Method::kJobFinished, wire::JobFinished{reply->job, id, -1, "the driver ended at its start"});
    return;
  }
  if (!reply.ok()) return refuse(*process->channel, reply.error().record());
  Job& job = jobs_[reply->job];
  job.id = reply->job;
  job.driver = id;
  job.name_space = reply->name_space;
  job.registry_digest = hello.registry_digest;
  job.image = hello.image;
  // The file that runs now, whatever becomes of its path.
  job.executable.reset(::open(("/proc/" + std::to_string(process->pid) + "/exe").c_str(), O_RDONLY | O_CLOEXEC));
  char path[4096];
  const ssize_t length = ::readlink(("/proc/" + std::to_string(process->pid) + "/exe").c_str(), path, sizeof(path));
  if (length > 0) job.image.executable.assign(path, static_cast<std::size_t>(length));
  process->job = job.id;
  if (Status status = welcome(*process, hello, {}); !status.ok()) return refuse(*process->channel, status.error().record());
  refill_stock(job);
}

void Daemon::on_worker_hello(NodeProcess& process, BootPacket packet) {
  Result<wire::Hello> hello = wire::decode_message<wire::Hello>(packet.payload);
  Job* job = job_of(process.job);
  std::optional<ErrorRecord> problem;
  if (!hello.ok()) problem = hello.error().record();
  else if (packet.fds.size() != 2 || hello->serial != process.id.serial) problem = make_record(ErrorCode::kInvalidArgument, "a Hello that does not fit its fork");
  else if (job && hello->registry_digest != job->registry_digest) problem = digest_error(hello->registry_digest, job->registry_digest);
  if (problem) {
    refuse(*process.channel, *problem);
    return fork_failed(process.id, problem->message, problem->code == ErrorCode::kUnauthenticated);
  }
  process.doorbell = std::move(packet.fds[0]);
  process.event = std::move(packet.fds[1]);
  if (process.pid == 0) process.pid = hello->pid;  // its Forked comes by another socket
  if (Status status = welcome(process, *hello, {}); !status.ok()) {
    refuse(*process.channel, status.error().record());
    return fork_failed(process.id, status.error().message(), false);
  }
  worker_is_ready(process);
}

Status Daemon::welcome(NodeProcess& process, const wire::Hello&, std::vector<UniqueFd>) {
  Result<UniqueFd> pair = net::Endpoint::create_pair({});
  if (!pair.ok()) return pair.error_ptr();
  Result<store::StoreHandles> store = store_->server().add_client(process.id);
  if (!store.ok()) return store.error_ptr();
  net::Attachment attachment{process.id, copy_of(pair->get()), 0, copy_of(process.doorbell.get()), copy_of(process.event.get())};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok()) {
    store_->client_died(process.id);
    return status;
  }
  process.state = NodeProcess::State::kAlive;

  wire::Welcome message;
  message.self = process.id;
  message.node_id = node_id_;
  message.worker_id = to_string(process.id);
  message.session_dir = config_.session_dir;
  message.job = process.job;
  if (Job* job = job_of(process.job)) {
    message.name_space = job->name_space;
    message.driver = job->driver;
    message.registry_digest = job->registry_digest;
  }
  message.store_capacity = store->layout.capacity;
  message.store_slots = store->layout.slots;
  message.store_large_from = store->layout.large_from;
  for (const auto& [name, amount] : config_.resources) {
    if (name == "CPU") message.node_resources.cpus = amount;
    else if (name == "GPU") message.node_resources.gpus = amount;
    else if (name == "memory") message.node_resources.memory = static_cast<std::uint64_t>(amount);
    else message.node_resources.custom[name] = amount;
  }
  message.stack_size = config_.stack_size;
  message.call_memory = config_.call_memory;
  message.log_level = config_.log_level;
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(*pair));
  fds.push_back(copy_of(endpoint_->doorbell_fd()));
  fds.push_back(copy_of(endpoint_->event_fd()));
  fds.push_back(std::move(store->arena_read));
  fds.push_back(std::move(store->arena_write));
  fds.push_back(std::move(store->index));
  fds.push_back(std::move(store->pins));
  process.channel->send_message(wire::BootKind::kWelcome, message, std::move(fds));
  return {};
}

// -------------------------------------------------------------------------------------------------------------- channels

void Daemon::watch_channel(NodeProcess& process) {
  const ProcessId id = process.id;
  loop_->watch(process.channel->fd(), EPOLLIN, [this, id](std::uint32_t events) { on_process_channel(id, events); });
  if (process.pidfd)
    loop_->watch(process.pidfd.get(), EPOLLIN, [this, id](std::uint32_t) {
      NodeProcess* dead = table_->find(id);
      if (!dead) return;
      loop_->forget(dead->pidfd.get());
      process_closing(*dead);
    });
}

void Daemon::on_process_channel(ProcessId id, std::uint32_t events) {
  NodeProcess* process = table_->find(id);
  if (!process) return;
  if (events & EPOLLOUT) {
    process->channel->flush();
    if (!process->channel->wants_write()) loop_->rearm(process->channel->fd(), EPOLLIN);
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  Result<Received> received = process->channel->receive();
  if (received.ok() && received->state == Received::State::kNothing) return;
  if (received.ok() && received->state == Received::State::kPacket) {
    if (received->packet.kind == wire::BootKind::kHello && process->state == NodeProcess::State::kStarting && process->role == wire::Role::kWorker)
      on_worker_hello(*process, std::move(received->packet));
    return;
  }
  loop_->forget(process->channel->fd());
  process_closing(*process);
}

void Daemon::connect_pair(const net::FrameHeader& request, const wire::ConnectRequest& wanted) {
  NodeProcess* from = table_->find_alive(request.source);
  if (!from) return;
  if (wanted.peer.node != table_->node() || wanted.peer.serial == 0 || wanted.peer == from->id)
    return mail_->fail(request, make_record(ErrorCode::kInvalidArgument, to_string(wanted.peer) + " is not another process of this node"));
  NodeProcess* peer = table_->find_alive(wanted.peer);
  if (!peer) {
    if (const wire::ProcessDied* death = table_->death(wanted.peer)) {
      mail_->notice(from->id, wire::Method::kProcessDied, *death);
      return mail_->fail(request, death_error(*death));
    }
    return mail_->fail(request, make_record(ErrorCode::kWorkerCrashed, "there is no process " + to_string(wanted.peer)));
  }
  if (from->paired.contains(peer->id)) return mail_->respond(request, wire::ConnectReply{});
  if ((table_->pairs() + 1) * net::Endpoint::pair_bytes({}) > config_.ring_memory) return mail_->respond(request, wire::ConnectReply{.through_daemon = true});
  Result<UniqueFd> pair = net::Endpoint::create_pair({});
  if (!pair.ok()) return mail_->fail(request, pair.error().record());
  from->paired.insert(peer->id);
  peer->paired.insert(from->id);
  for (auto [to, other, side] : {std::tuple{peer, from, 1}, std::tuple{from, peer, 0}}) {
    std::vector<UniqueFd> fds;
    fds.push_back(copy_of(pair->get()));
    fds.push_back(copy_of(other->doorbell.get()));
    fds.push_back(copy_of(other->event.get()));
    to->channel->send_message(wire::BootKind::kPair, wire::PairOffer{other->id, static_cast<std::uint8_t>(side)}, std::move(fds));
    if (to->channel->wants_write()) loop_->rearm(to->channel->fd(), EPOLLIN | EPOLLOUT);
  }
  mail_->respond(request, wire::ConnectReply{});
}

}  // namespace troupe::node
