// The object store by itself: what a put, a pin and a drop cost without the messages around them. The daemon is called
// directly; the reader is another process. Prints one line a measure: median of 15 runs.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "objectstore/client/client.h"
#include "objectstore/server/server.h"

namespace {

using namespace troupe;
using namespace troupe::store;
using Clock = std::chrono::steady_clock;

class DirectDaemon : public StoreDaemon {
 public:
  DirectDaemon(StoreServer& server, ProcessId client) : server_(server), client_(client) {}
  Result<Lease> lease(const LeaseRequest& request) override {
    server_.lease(client_, 1, request);
    return answer<LeaseGranted>([](LeaseGranted& e) { return std::move(e.lease); });
  }
  void lease_ahead(const LeaseRequest& request) override {
    if (auto got = lease(request); got.ok()) client->add_lease(std::move(*got));
  }
  Result<Grant> allocate(std::uint64_t size) override {
    server_.allocate(client_, 1, size);
    return answer<BufferGranted>([](BufferGranted& e) { return e.grant; });
  }
  void maybe_free(std::span<const BufferId> ids) override { server_.maybe_free(client_, ids); }
  void give_back(std::span<const ReturnedChunk> chunks, std::span<const std::uint32_t> slots) override {
    server_.give_back(client_, chunks, slots);
  }
  StoreClient* client = nullptr;

 private:
  template <class E, class F>
  auto answer(F&& take) -> Result<decltype(take(std::declval<E&>()))> {
    for (auto effects = server_.take_effects(); !effects.empty(); effects = server_.take_effects()) {
      for (StoreEffect& effect : effects) {
        if (auto* e = std::get_if<E>(&effect)) return take(*e);
        if (auto* pages = std::get_if<PagesWanted>(&effect))
          server_.pages_made(pages->ticket, server_.arena().reserve(pages->range));
      }
    }
    return ObjectStoreFullError("the store is full");
  }
  StoreServer& server_;
  ProcessId client_;
};

double seconds(const std::function<void()>& run) {
  auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void report(const char* row, const char* unit, const std::vector<double>& v) {
  std::printf("%-58s %10.2f %s  (best %.2f)\n", row, median(v), unit, *std::min_element(v.begin(), v.end()));
}

/// Nanoseconds a step, 15 runs.
std::vector<double> ns_each(int steps, const std::function<void()>& run) {
  std::vector<double> v;
  run();
  for (int i = 0; i < 15; ++i) v.push_back(seconds(run) * 1e9 / steps);
  return v;
}

struct Shared {
  std::atomic<int> command;  ///< 1: pin small ids, 2: pin the large one, 3: end
  double result[2];
  BufferId ids[1000], large;
};

void small_puts(StoreClient& client) {
  constexpr int kSteps = 200000;
  report("allocate + seal + drop 1 KiB, unshared", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i) (void)client.seal(std::move(*client.allocate(1024)));
         }));
  char source[1024] = {1};
  report("the same with 1 KiB copied in", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i) {
             auto buffer = client.allocate(1024);
             std::memcpy(buffer->data(), source, 1024);
             (void)client.seal(std::move(*buffer));
           }
         }));
  std::vector<Pin> window(1000);
  report("allocate + seal 1 KiB, window of 1,000 held, unshared", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i)
             window[std::size_t(i % 1000)] = client.seal(std::move(*client.allocate(1024)));
         }));
  report("the same, each marked shared (freed by the daemon)", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i) {
             Pin pin = client.seal(std::move(*client.allocate(1024)));
             client.mark_shared(pin);
             window[std::size_t(i % 1000)] = std::move(pin);
           }
         }));
  Pin pin = client.seal(std::move(*client.allocate(1024)));
  report("copy and drop a Pin", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i) {
             Pin copy = pin;
             asm volatile("" : : "r"(copy.data()) : "memory");
           }
         }));
}

/// In a forked process: pins what the parent made.
[[noreturn]] void reader(StoreHandles handles, Shared& shared, StoreServer& server) {
  DirectDaemon daemon(server, {1, 2});  // its calls would go nowhere: flush_at is never reached
  auto client =
      StoreClient::create(std::move(handles), daemon, {.flush_at = 1u << 30, .flush_at_bytes = ~std::uint64_t(0)});
  if (!client.ok()) _exit(1);
  while (shared.command.load() != 1) {}
  constexpr int kRounds = 200;
  bool all = true;
  shared.result[0] = median(ns_each(kRounds * 1000, [&] {
    for (int r = 0; r < kRounds; ++r) {
      for (BufferId id : shared.ids) all &= bool((*client)->try_pin(id));
    }
  }));
  if (!all) std::printf("!! a pin was missed\n");
  std::vector<double> first;
  for (int i = 0; i < 1000; ++i)
    first.push_back(seconds([&] {
                      Pin pin = (*client)->try_pin(shared.large);
                      all &= bool(pin);
                    }) *
                    1e9);
  shared.result[1] = median(first);
  shared.command.store(3);
  _exit(all ? 0 : 2);
}

void large_puts(StoreClient& client, StoreServer& server) {
  constexpr std::size_t kBytes = 800 << 20;
  std::vector<char> source(kBytes, 1);
  auto* warm = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  std::memset(warm, 1, kBytes);
  std::vector<double> floor, put, cold;
  for (int i = 0; i < 5; ++i) {
    floor.push_back(0.8388608 / seconds([&] { std::memcpy(warm, source.data(), kBytes); }));
    double took = seconds([&] {
      auto buffer = client.allocate(kBytes);
      std::memcpy(buffer->data(), source.data(), kBytes);
      (void)client.seal(std::move(*buffer));
    });
    (i == 0 ? cold : put).push_back(0.8388608 / took);
  }
  report("glibc memcpy of 800 MiB into warm private pages", "GB/s", floor);
  report("put 800 MiB by memcpy, first time (cold)", "GB/s", cold);
  report("put 800 MiB by memcpy, again (warm)", "GB/s", put);
  constexpr int kSteps = 2000;
  report("allocate + seal + drop 8 MiB, untouched", "ns", ns_each(kSteps, [&] {
           for (int i = 0; i < kSteps; ++i) (void)client.seal(std::move(*client.allocate(8 << 20)));
         }));
  Range range{1200u << 20, 256 << 20};
  report("reserve 256 MiB (fallocate)", "ms", {seconds([&] { (void)server.arena().reserve(range); }) * 1e3});
  report("populate 256 MiB ahead", "ms", {seconds([&] { (void)server.arena().populate(range); }) * 1e3});
  munmap(warm, kBytes);
}

}  // namespace

int main() {
  auto server = StoreServer::create({.node = 1, .capacity = 3ull << 30});
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.error().what()), 1;
  auto* shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared{};
  auto handles = (*server)->add_client({1, 1}), other = (*server)->add_client({1, 2});
  if (!handles.ok() || !other.ok()) return 1;
  pid_t child = fork();
  if (child == 0) reader(std::move(*other), *shared, **server);
  DirectDaemon daemon(**server, {1, 1});
  auto client = StoreClient::create(std::move(*handles), daemon);
  if (!client.ok()) return 1;
  daemon.client = client->get();
  std::vector<Pin> pins;
  for (BufferId& id : shared->ids) {
    pins.push_back((*client)->seal(std::move(*(*client)->allocate(1024))));
    (*client)->mark_shared(pins.back());
    id = pins.back().id();
  }
  Pin large = (*client)->seal(std::move(*(*client)->allocate(1 << 30)));
  shared->large = large.id();
  shared->command.store(1);
  while (shared->command.load() != 3) {}
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%-58s %10.2f ns\n", "pin + unpin 1 KiB made by another process (1,000 of them)", shared->result[0]);
  std::printf("%-58s %10.2f ns\n", "pin + unpin 1 GiB made by another process", shared->result[1]);
  large.reset();
  pins.clear();
  (*server)->client_died({1, 2});
  small_puts(**client);
  large_puts(**client, **server);
  std::string wrong = (*server)->audit();
  if (!wrong.empty()) std::printf("!! audit: %s\n", wrong.c_str());
  return status == 0 && wrong.empty() ? 0 : 1;
}
