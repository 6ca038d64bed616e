// The transport alone: round trips and throughput between two processes over a pair of rings, through Endpoint::block
// on both sides, as the call path uses it. What the runtime adds on top is measured elsewhere.
//
// Rows (each a line "name value unit"): spin = back to back on two cores; one_core = back to back, both pinned to CPU
// 0; asleep = calls 5 ms apart, each next to a bare futex round trip between the same kind of processes (the floor);
// throughput = messages of a 64-byte header and 112 bytes of payload in windows of 1,000, answered by one.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/net/endpoint/doorbell.h"
#include "core/net/endpoint/endpoint.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;

constexpr ProcessId kClient{1, 1}, kServer{1, 2};
constexpr std::uint8_t kPing = 1, kOneWay = 2, kQuit = 3;

double us_since(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}
void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  } else {
    CPU_SET(cpu, &set);
  }
  ::sched_setaffinity(0, sizeof(set), &set);
}

/// Answers pings at once; one-way messages are counted and the last of a window answered.
class Server : public net::Handler {
 public:
  Server(net::Endpoint& endpoint, net::Parker& parker) : endpoint_(endpoint), parker_(parker) {}
  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override {
    if (header.kind == kQuit) return parker_.notify();
    if (header.kind == kPing) pin_to(static_cast<int>(header.arg1));
    if (header.kind == kPing || header.arg0 != 0) endpoint_.send(from, header, payload);
  }
  void on_broken(ProcessId, const ErrorPtr& why) override {
    std::fprintf(stderr, "%s\n", why->what());
    std::exit(1);
  }

 private:
  void pin_to(int cpu) {
    if (cpu != cpu_) { pin(cpu_ = cpu); }
  }
  net::Endpoint& endpoint_;
  net::Parker& parker_;
  int cpu_ = -1;
};

class Client : public net::Handler {
 public:
  explicit Client(net::Endpoint& endpoint) : endpoint_(endpoint), parker_(endpoint) {}
  void on_message(ProcessId, const net::FrameHeader&, ByteView) override { parker_.notify(); }
  void on_broken(ProcessId, const ErrorPtr& why) override {
    std::fprintf(stderr, "%s\n", why->what());
    std::exit(1);
  }

  double round_trip(int server_cpu) {
    net::FrameHeader header{.kind = kPing, .source = kClient, .destination = kServer};
    header.arg1 = static_cast<std::uint64_t>(server_cpu);
    std::byte payload[16] = {};
    const auto from = Clock::now();
    endpoint_.send(kServer, header, payload);
    wait();
    return us_since(from);
  }
  void window(int count, ByteView payload) {
    net::FrameHeader header{.kind = kOneWay, .source = kClient, .destination = kServer};
    for (int i = 1; i <= count; ++i) {
      header.arg0 = i == count;
      endpoint_.send(kServer, header, payload);
    }
    wait();
  }
  void wait() {
    if (!endpoint_.block(parker_, Clock::now() + std::chrono::seconds(20), *this)) {
      std::puts("no answer");
      std::exit(1);
    }
  }

 private:
  net::Endpoint& endpoint_;
  net::Parker parker_;
};

/// The floor: two processes, one futex word each way, nothing else.
struct FutexPair {
  std::atomic<std::uint32_t> there, back;
};

void answer_futex(FutexPair& words) {
  for (std::uint32_t n = 0;; ++n) {
    while (words.there.load() == n) net::futex_wait(words.there, n, net::kNoDeadline, net::FutexScope::kShared);
    words.back.fetch_add(1);
    net::futex_wake(&words.back, 1, net::FutexScope::kShared);
  }
}
double futex_round_trip(FutexPair& words) {
  const std::uint32_t n = words.back.load();
  const auto from = Clock::now();
  words.there.fetch_add(1);
  net::futex_wake(&words.there, 1, net::FutexScope::kShared);
  while (words.back.load() == n) net::futex_wait(words.back, n, net::kNoDeadline, net::FutexScope::kShared);
  return us_since(from);
}

std::unique_ptr<net::Endpoint> make_endpoint(ProcessId self) {
  return std::move(net::Endpoint::create({.self = self})).value();
}

void attach(net::Endpoint& mine, ProcessId peer, int pair, int side, net::Endpoint& other) {
  mine.attach({.peer = peer,
               .pair = UniqueFd(::dup(pair)),
               .side = side,
               .peer_doorbell = UniqueFd(::dup(other.doorbell_fd())),
               .peer_event = UniqueFd(::dup(other.event_fd()))})
      .value();
}

// The service thread of a process: what it does in the runtime between messages of its unix socket.
void serve(net::Endpoint& endpoint, net::Handler& handler, int stop) {
  pollfd fds[2] = {{endpoint.service_fd(), POLLIN, 0}, {stop, POLLIN, 0}};
  while (::poll(fds, 2, -1) >= 0 && fds[1].revents == 0) endpoint.service(handler);
}

void row(const char* name, const std::vector<double>& samples) {
  std::printf("%-22s p50 %8.3f us   p99 %8.3f us\n", name, quantile(samples, 0.5), quantile(samples, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100000;
  // Made before the fork, so that each side has the other's descriptors; each process uses only its own endpoint.
  auto client_end = make_endpoint(kClient), server_end = make_endpoint(kServer);
  UniqueFd pair = std::move(net::Endpoint::create_pair({})).value();
  auto* words = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) FutexPair{};

  const pid_t floor = ::fork();
  if (floor == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    answer_futex(*words);
  }
  const pid_t server = ::fork();
  if (server == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    attach(*server_end, kClient, pair.get(), 1, *client_end);
    net::Parker parker(*server_end);
    Server handler(*server_end, parker);
    server_end->block(parker, net::kNoDeadline, handler);
    ::_exit(0);
  }
  attach(*client_end, kServer, pair.get(), 0, *server_end);
  Client client(*client_end);
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  std::thread service([&] { serve(*client_end, client, stop); });

  auto back_to_back = [&](const char* name, int client_cpu, int server_cpu) {
    pin(client_cpu);
    for (int i = 0; i < 1000; ++i) client.round_trip(server_cpu);
    std::vector<double> samples;
    const auto from = Clock::now();
    for (int i = 0; i < rounds; ++i) samples.push_back(client.round_trip(server_cpu));
    row(name, samples);
    std::printf("%-22s mean %7.3f us\n", "", us_since(from) / rounds);
  };
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (cpus > 1) back_to_back("spin", 0, 1);
  back_to_back("free", -1, -1);
  back_to_back("one_core", 0, 0);

  pin(-1);
  client.round_trip(-1);
  std::vector<double> asleep, bare;
  for (int i = 0; i < 300; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    bare.push_back(futex_round_trip(*words));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    asleep.push_back(client.round_trip(-1));
  }
  row("futex floor", bare);
  row("asleep", asleep);
  std::printf("%-22s p50 %8.3f\n", "asleep / floor", quantile(asleep, 0.5) / quantile(bare, 0.5));

  std::vector<double> rates;
  std::byte payload[112] = {};
  for (int i = 0; i < 300; ++i) {
    const auto from = Clock::now();
    client.window(1000, payload);
    rates.push_back(1000 / us_since(from));
  }
  std::printf("%-22s p50 %8.3f M/s\n", "throughput", quantile(rates, 0.5));

  const auto stats = client_end->stats();
  std::printf("client: sleeps %lu attendances %lu drains %lu event_rings %lu futex_rings %lu queued %lu\n",
              stats.sleeps, stats.attendances, stats.service_drains, stats.event_rings, stats.futex_rings,
              stats.queued);
  client_end->send(kServer, {.kind = kQuit, .source = kClient, .destination = kServer});
  ::waitpid(server, nullptr, 0);
  ::kill(floor, SIGKILL);
  ::waitpid(floor, nullptr, 0);
  const std::uint64_t one = 1;
  if (::write(stop, &one, sizeof(one)) != sizeof(one)) return 1;
  service.join();
  return 0;
}
