// Ranks for tests: as threads of this process, or as forked processes. Each runs the same function with its own Group,
// over shared memory, over sockets, or over both with nodes that are only said to be different ones.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/hier/communicator.h"
#include "collective/group/member.h"
#include "collective/shm/communicator.h"
#include "collective/tcp/communicator.h"
#include "tests/base/reserved_port.h"

namespace troupe::collective::testing {

struct Setting {
  int ranks = 2;
  Duration timeout = std::chrono::seconds(60);
  std::size_t slot_bytes = 0;
  Backend backend = Backend::kShm;
  bool deterministic = false;
  std::vector<int> nodes = {};  ///< of each rank, for kHier; empty: two ranks a node

  int node_of(int rank) const { return nodes.empty() ? rank / 2 : nodes[std::size_t(rank)]; }
};

/// A connected pair of stream sockets on loopback, or of the unix kind.
inline std::pair<UniqueFd, UniqueFd> socket_pair(bool tcp) {
  int fds[2] = {-1, -1};
  if (!tcp) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw Error("socketpair");
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), raw, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), raw, &size) != 0 || ::connect(one.get(), raw, size) != 0)
    throw Error("a pair on loopback");
  return {std::move(one), UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

/// An address of loopback that is free for whoever listens with SO_REUSEADDR, as rank 0 does: who dials it before is
/// refused. Its port stays bound until this program ends, so that no socket that asks for any port is given this one.
inline std::string free_address() {
  static std::vector<UniqueFd> bound;
  bound.push_back(reserve_port());
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(bound.back().get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error("a free port of loopback");
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

/// The sockets of a group, made before its ranks: who becomes a rank takes its own and closes the others.
class Wires {
 public:
  explicit Wires(const Setting& setting)
      : ranks_(setting.ranks), ends_(std::size_t(setting.ranks * setting.ranks * 2)) {
    if (setting.backend == Backend::kShm) return;
    for (int a = 0; a < ranks_; ++a)
      for (int b = a + 1; b < ranks_; ++b)
        for (int channel = 0; channel < 2; ++channel)
          std::tie(end(a, b, channel), end(b, a, channel)) = socket_pair(true);
  }
  std::shared_ptr<TcpLinks> links_of(int rank) {
    auto links = TcpLinks::create({rank, ranks_, 1});
    for (int peer = 0; peer < ranks_; ++peer)
      for (int channel = 0; channel < 2; ++channel)
        if (end(rank, peer, channel)) links->arrive(peer, Channel(channel), std::move(end(rank, peer, channel)));
    return links;
  }
  void close() { ends_.clear(); }

 private:
  UniqueFd& end(int from, int to, int channel) { return ends_[std::size_t((from * ranks_ + to) * 2 + channel)]; }
  int ranks_;
  std::vector<UniqueFd> ends_;
};

inline std::shared_ptr<ShmSegment> make_segment(const Setting& setting) {
  return *ShmSegment::create({.ranks = setting.ranks, .epoch = 1, .key = 0x1234567, .slot_bytes = setting.slot_bytes});
}

inline Group group_of(std::unique_ptr<Communicator> communicator, const Setting& setting) {
  return Group(std::make_shared<detail::Member>(
      std::move(communicator),
      detail::MemberOptions{.group = "test", .timeout = setting.timeout, .environment = nullptr}));
}

/// A sum over all ranks, in place.
inline detail::Operation all_reduce_of(std::vector<float>& data) {
  return {.kind = detail::Kind::kAllReduce,
          .type = detail::DType::kF32,
          .in = data.data(),
          .in_count = data.size(),
          .out = data.data(),
          .out_count = data.size()};
}

/// What the ranks of one group share before they are ranks.
class Founding {
 public:
  explicit Founding(const Setting& setting) : setting_(setting), wires_(setting) {
    if (setting.backend == Backend::kShm) segments_[0] = make_segment(setting);
    if (setting.backend != Backend::kHier) return;
    std::map<int, int> sizes;
    for (int r = 0; r < setting.ranks; ++r) ++sizes[setting.node_of(r)];
    for (const auto& [node, size] : sizes)
      if (size > 1) segments_[node] = make_segment({.ranks = size, .slot_bytes = setting.slot_bytes});
  }
  std::unique_ptr<Communicator> communicator(int rank) {
    if (setting_.backend == Backend::kShm) return std::make_unique<ShmCommunicator>(segment(), rank);
    auto across = std::make_unique<TcpCommunicator>(
        wires_.links_of(rank), TcpOptions{.deterministic = setting_.deterministic, .key = 0x1234567});
    if (setting_.backend == Backend::kTcp) return across;
    std::vector<int> nodes;
    int place = 0;
    for (int r = 0; r < setting_.ranks; ++r)
      nodes.push_back(setting_.node_of(r)), place += r < rank && nodes.back() == setting_.node_of(rank);
    const auto segment = segments_.find(setting_.node_of(rank));
    return std::make_unique<HierCommunicator>(
        nodes, segment == segments_.end() ? nullptr : std::make_unique<ShmCommunicator>(segment->second, place),
        std::move(across));
  }
  Group member(int rank) { return group_of(communicator(rank), setting_); }
  void close() { wires_.close(); }
  /// Of node 0, where there are several.
  const std::shared_ptr<ShmSegment>& segment() const { return segments_.at(0); }

 private:
  Setting setting_;
  std::map<int, std::shared_ptr<ShmSegment>> segments_;  // by node
  Wires wires_;
};

/// Runs `body` as every rank, on a thread each, and waits for all; then throws what one of them threw.
inline void on_threads(const Setting& setting, const std::function<void(Group)>& body) {
  Founding founding(setting);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> thrown(std::size_t(setting.ranks));
  for (int r = 0; r < setting.ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        body(founding.member(r));
      } catch (...) {
        thrown[std::size_t(r)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& one : thrown)
    if (one) std::rethrow_exception(one);
}

/// Processes that run `body` and end with its value; pid() for those who want to do something to them.
class Processes {
 public:
  Processes(const Setting& setting, const std::function<int(Group)>& body) : founding_(setting) {
    for (int r = 0; r < setting.ranks; ++r) {
      const int pid = ::fork();
      if (pid == 0) {
        ::alarm(120);
        int code = 99;
        try {
          Group own = founding_.member(r);
          founding_.close();  // else a dead rank's sockets would live on here
          code = body(std::move(own));
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %d: %s\n", r, error.what());
        }
        ::_exit(code);
      }
      pids_.push_back(pid);
    }
    founding_.close();
  }
  ~Processes() {
    for (int& pid : pids_)
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int pid(int rank) const { return pids_[std::size_t(rank)]; }
  /// Has any of them come to its end? It can still be waited for.
  bool one_has_ended() const {
    for (int pid : pids_) {
      siginfo_t info{};
      if (::waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) return true;
    }
    return false;
  }
  ShmSegment& segment() { return *founding_.segment(); }
  /// The value of its body; 100 + signal when it was killed.
  int wait(int rank) {
    int status = 0;
    ::waitpid(std::exchange(pids_[std::size_t(rank)], 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  }

 private:
  Founding founding_;
  std::vector<int> pids_;
};

}  // namespace troupe::collective::testing
