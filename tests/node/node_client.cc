#include "tests/node/node_client.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

extern char** environ;

namespace troupe::node::test {

using namespace std::chrono_literals;
const char kDigest[] = "digest of the test's functions";

Client::Client(UniqueFd socket, wire::Hello hello) : socket_(std::move(socket)) {
  endpoint_ = net::Endpoint::create({.grace = 0ns}).value();
  send_message(socket_.get(), wire::BootKind::kHello, hello, {endpoint_->doorbell_fd(), endpoint_->event_fd()}).value();
  BootPacket packet = wait_packet(socket_.get(), 20s).value();
  if (packet.kind == wire::BootKind::kRefused)
    Error::make(wire::decode_message<wire::Refused>(packet.payload).value().error)->raise();
  welcome_ = wire::decode_message<wire::Welcome>(packet.payload).value();
  if (packet.fds.size() != 7) throw Error("the Welcome has " + std::to_string(packet.fds.size()) + " descriptors");
  endpoint_->attach({daemon(), std::move(packet.fds[0]), 1, std::move(packet.fds[1]), std::move(packet.fds[2])})
      .value();
  for (std::size_t i = 3; i < 7; ++i) store_fds_.push_back(std::move(packet.fds[i]));
}

std::unique_ptr<Client> Client::driver(const std::string& socket_path) {
  wire::Hello hello;
  hello.role = wire::Role::kDriver;
  hello.pid = ::getpid();
  hello.registry_digest = kDigest;
  hello.image.argv = {"node-test-program", "an argument"};
  hello.image.working_dir = "/";
  for (char** e = environ; *e; ++e) hello.image.environment.emplace_back(*e);
  return std::make_unique<Client>(connect_boot_socket(socket_path).value(), std::move(hello));
}

void Client::on_message(ProcessId, const net::FrameHeader& header, ByteView payload) {
  Frame frame{header, {payload.begin(), payload.end()}};
  if (on_frame && on_frame(frame)) return;
  inbox_.push_back(std::move(frame));
}

void Client::take_packet() {
  Result<Received> received = receive_packet(socket_.get());
  if (!received.ok() || received->state == Received::State::kClosed) {
    daemon_gone_ = true;
    return;
  }
  if (received->packet.kind != wire::BootKind::kPair) return;
  const wire::PairOffer offer = wire::decode_message<wire::PairOffer>(received->packet.payload).value();
  auto& fds = received->packet.fds;
  (void)endpoint_->attach({offer.peer, std::move(fds[0]), offer.side, std::move(fds[1]), std::move(fds[2])}).ok();
}

bool Client::until(const std::function<bool()>& done, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (daemon_gone_ || std::chrono::steady_clock::now() > deadline) return done();
    pollfd polls[2] = {{socket_.get(), POLLIN, 0}, {endpoint_->service_fd(), POLLIN, 0}};
    ::poll(polls, 2, 20);
    if (polls[0].revents) take_packet();
    endpoint_->service(*this);
    endpoint_->try_drain(*this, 1000);
  }
  return true;
}

net::FrameHeader Client::header_of(wire::FrameKind kind, std::uint64_t token, std::uint64_t arg0) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.token = token;
  header.arg0 = arg0;
  return header;
}

void Client::send(ProcessId to, net::FrameHeader header, ByteView payload) {
  header.source = self();
  header.destination = to;
  endpoint_->send(endpoint_->attached(to) ? to : daemon(), header, payload);
}

bool Client::take(const std::function<bool(const Frame&)>& which, Frame& frame, Duration limit) {
  return until([&] {
    for (auto it = inbox_.begin(); it != inbox_.end(); ++it) {
      if (!which(*it)) continue;
      frame = std::move(*it);
      inbox_.erase(it);
      return true;
    }
    return false;
  }, limit);
}

Status Client::connect(ProcessId peer) {
  Result<wire::ConnectReply> reply =
      request<wire::ConnectReply>(daemon(), wire::Method::kConnect, wire::ConnectRequest{peer});
  if (!reply.ok()) return reply.error_ptr();
  return until([&] { return endpoint_->attached(peer); }) ? Status() : Status(GetTimeoutError("no pair came"));
}

Result<std::string> Client::call(ProcessId worker, const std::string& command) {
  const std::uint64_t token = next_token_++;
  send(worker, header_of(wire::FrameKind::kCall, token, 0), std::as_bytes(std::span(command)));
  Frame answer;
  if (!take([&](const Frame& f) { return f.is(wire::FrameKind::kReply) && f.header.token == token; }, answer))
    return make_error<GetTimeoutError>("no reply");
  return answer.text();
}

wire::LeaseGranted Client::lease(std::uint64_t request_id, RuntimeEnv env) {
  wire::LeaseWanted wanted;
  wanted.requester = self();
  wanted.request_id = request_id;
  wanted.wanted = 1;
  wanted.lease_class.job = welcome_.job;
  wanted.lease_class.env = std::move(env);
  notice(daemon(), wire::Method::kLeaseWanted, wanted);
  Frame frame;
  const bool came = take(
      [&](const Frame& f) {
        return f.is_notice(wire::Method::kLeaseGranted) || f.is_notice(wire::Method::kLeaseRefused);
      },
      frame);
  if (!came) throw GetTimeoutError("no lease came");
  if (frame.is_notice(wire::Method::kLeaseRefused)) Error::make(frame.as<wire::LeaseRefused>().error)->raise();
  return frame.as<wire::LeaseGranted>();
}

namespace {

std::string leave_stray() {
  int ends[2];
  if (::pipe(ends) != 0) return "";
  if (::fork() == 0) {
    ::setsid();
    if (::fork() == 0) {
      const pid_t pid = ::getpid();
      if (::write(ends[1], &pid, sizeof(pid)) != sizeof(pid)) ::_exit(1);
      for (;;) ::pause();
    }
    ::_exit(0);
  }
  pid_t pid = 0;
  if (::read(ends[0], &pid, sizeof(pid)) != sizeof(pid)) return "";
  return std::to_string(pid);
}

std::string run_command(const std::string& command) {
  const std::string rest = command.find(' ') == std::string::npos ? "" : command.substr(command.find(' ') + 1);
  if (command.starts_with("echo")) return rest;
  if (command == "pid") return std::to_string(::getpid());
  if (command.starts_with("env")) return ::getenv(rest.c_str()) ? ::getenv(rest.c_str()) : "(unset)";
  if (command == "cwd") return std::string(::getcwd(nullptr, 0));
  if (command.starts_with("print")) {
    std::printf("%s\n", rest.c_str());
    std::fflush(stdout);
    return "";
  }
  if (command.starts_with("exit")) ::_exit(std::atoi(rest.c_str()));
  if (command == "abort") ::abort();
  if (command == "stray") return leave_stray();
  if (command.starts_with("sleep")) {
    if (!rest.empty()) std::ofstream{rest};
    for (;;) ::pause();
  }
  return "unknown command";
}

}  // namespace

int worker_program(WorkerBoot boot) {
  wire::Hello hello;
  hello.role = wire::Role::kWorker;
  hello.pid = ::getpid();
  hello.serial = boot.serial;
  hello.registry_digest = kDigest;
  Client client(std::move(boot.socket), hello);
  bool ended = false;
  std::uint64_t from_daemon = 0;
  client.on_frame = [&](const Frame& frame) {
    if (frame.is_notice(wire::Method::kProcessDied)) {
      const ProcessId dead = frame.as<wire::ProcessDied>().process;
      client.endpoint().detach(dead);
      client.notice(client.daemon(), wire::Method::kProcessDiedAck, wire::ConnectRequest{dead});
      return true;
    }
    if (frame.is_notice(wire::Method::kConstructActor)) {
      const auto construct = frame.as<wire::ConstructActor>();
      client.notice(kHead, wire::Method::kActorStarted,
                    wire::ActorStarted{construct.spec.id, construct.restarts, client.self(), ::getpid()});
      return true;
    }
    if (frame.is(wire::FrameKind::kRequest)) {
      ended |= frame.header.arg0 == static_cast<std::uint64_t>(wire::Method::kProcessRetire);
      client.send(frame.header.source, Client::header_of(wire::FrameKind::kResponse, frame.header.token, 0),
                  wire::encode_message(wire::StateReply{}));
      return true;
    }
    if (!frame.is(wire::FrameKind::kCall)) return true;
    // The numbers of a ring count its calls; those that the daemon passes on are numbered together.
    const bool paired = client.endpoint().attached(frame.header.source);
    client.endpoint().set_begun(paired ? frame.header.source : client.daemon(),
                                paired ? frame.header.token : ++from_daemon);
    const std::string answer = run_command(frame.text());
    client.send(frame.header.source, Client::header_of(wire::FrameKind::kReply, frame.header.token, 0),
                std::as_bytes(std::span(answer)));
    return true;
  };
  client.until([&] { return ended; }, 24h);
  return 0;
}

}  // namespace troupe::node::test
