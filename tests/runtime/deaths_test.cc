// Workers killed at random instants while everything runs at once: each result is right or a typed error, nothing
// hangs, and afterwards the cluster is as it was.
#include <future>
#include <random>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorHandle, troupe::Array, troupe::ErrorCode, troupe::ObjectRef, troupe::actor, troupe::get,
    troupe::task;

namespace {

const troupe::Backoff kQuick{.initial = 2ms, .max = 20ms};

int square(int x) { return x * x; }
int slow_square(int x) {
  troupe::sleep_for(std::chrono::milliseconds(x % 7));
  return x * x;
}
int nested(int x) {
  auto a = task<&square>.options({.retry = {.max_retries = -1, .backoff = kQuick}}).remote(x);
  auto b = task<&slow_square>.options({.retry = {.max_retries = -1, .backoff = kQuick}}).remote(x);
  return get(a) + get(b);
}
Array<int> make_array(int x) {
  troupe::ArrayBuilder<int> b(50000);
  for (auto& v : b) v = x;
  return std::move(b).seal();
}
long add_up(Array<int> a) {
  long sum = 0;
  for (int v : a) sum += v;
  return sum;
}
troupe::Generator<int> numbers(int n) {
  for (int i = 0; i < n; ++i) {
    if (i % 16 == 0) troupe::sleep_for(500us);
    co_yield i;
  }
}
class Counter {
 public:
  int add(int x) { return sum_ += x; }
  int nested(int x) { return get(task<&square>.options({.retry = {.max_retries = -1, .backoff = kQuick}}).remote(x)); }
  Array<int> array(int x) { return make_array(x); }

 private:
  int sum_ = 0;
};

bool typed(const troupe::Error& error) {
  switch (error.code()) {
    case ErrorCode::kWorkerCrashed:
    case ErrorCode::kActorDied:
    case ErrorCode::kActorUnavailable:
    case ErrorCode::kOwnerDied:
    case ErrorCode::kObjectLost: return true;
    default: return false;
  }
}
template <class T> void right_or_typed(const ObjectRef<T>& ref, const T& right, int& failed) {
  auto got = troupe::try_get(ref, {.timeout = 60s});
  if (got.ok()) {
    CHECK_EQ(*got, right);
    return;
  }
  ++failed;
  if (!CHECK(typed(got.error())))
    std::fprintf(stderr, "  %s: %s\n", troupe::error_name(got.error().code()), got.error().what());
}

/// Kills a random worker now and then, until told to stop.
class Killer {
 public:
  Killer(unsigned seed, std::chrono::microseconds every) : thread_([this, seed, every] {
    std::minstd_rand random(seed);
    while (!stop_.load()) {
      std::this_thread::sleep_for(every / 2 + every * int(random() % 100) / 100);
      const auto workers = troupe::list_workers();
      if (workers.empty()) continue;
      const int pid = workers[random() % workers.size()].pid;
      if (pid > 1 && pid != ::getpid() && ::kill(pid, SIGKILL) == 0) ++kills_;
    }
  }) {}
  int kills() const { return kills_; }
  int end() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    return kills_;
  }
  ~Killer() { end(); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> kills_{0};
  std::thread thread_;
};

void mixed_load(unsigned seed) {
  Killer killer(seed, 8ms);
  const troupe::TaskOptions patient{.retry = {.max_retries = -1, .backoff = kQuick}},
      impatient{.retry = {.max_retries = 0}};
  int failed = 0;
  auto steady =
      actor<Counter>.options({.max_restarts = -1, .restart_backoff = kQuick, .max_task_retries = -1}).remote();
  auto mortal = actor<Counter>.options({.max_restarts = -1, .restart_backoff = kQuick}).remote();
  for (int round = 0; round < 8 || killer.kills() <= 10; ++round) {
    std::vector<ObjectRef<int>> squares, slow, nest, fragile, calls, mortal_calls;
    std::vector<ObjectRef<long>> sums;
    for (int i = 0; i < 60; ++i) {
      squares.push_back(task<&square>.options(patient).remote(i));
      slow.push_back(task<&slow_square>.options(patient).remote(i));
      fragile.push_back(task<&slow_square>.options(impatient).remote(i));
      if (i % 6 == 0) nest.push_back(task<&nested>.options(patient).remote(i));
      if (i % 6 == 1)
        sums.push_back(task<&add_up>.options(patient).remote(task<&make_array>.options(patient).remote(i)));
      calls.push_back(steady.call<&Counter::nested>(i));
      mortal_calls.push_back(mortal.call<&Counter::nested>(i));
    }
    auto stream = task<&numbers>.options(patient).remote(300);
    int next = 0;
    for (auto& item : stream) {
      auto value = troupe::try_get(item, {.timeout = 60s});
      if (value.ok()) CHECK_EQ(*value, next);
      else if (!CHECK(typed(value.error()))) std::fprintf(stderr, "  stream: %s\n", value.error().what());
      ++next;
    }
    CHECK_EQ(next, 300);
    for (int i = 0; i < 60; ++i) {
      int none = 0;
      right_or_typed(squares[i], i * i, none);
      right_or_typed(slow[i], i * i, none);
      CHECK_EQ(none, 0);  // retried without limit
      right_or_typed(fragile[i], i * i, failed);
      right_or_typed(mortal_calls[i], i * i, failed);
    }
    for (std::size_t i = 0; i < nest.size(); ++i) right_or_typed(nest[i], 2 * int(i * 6) * int(i * 6), failed);
    for (std::size_t i = 0; i < sums.size(); ++i) right_or_typed(sums[i], 50000L * long(i * 6 + 1), failed);
    int lost = 0;
    for (int i = 0; i < 60; ++i) right_or_typed(calls[i], i * i, lost);
    CHECK_EQ(lost, 0);
  }
  const int kills = killer.end();
  std::fprintf(stderr, "  seed %u: %d workers killed, %d typed errors\n", seed, kills, failed);
  CHECK(kills > 10);
}

void all_quiet() {
  CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 30));
  CHECK(rt::eventually([] { return troupe::object_store_usage().objects == 0; }, 30));
  CHECK_EQ(get(task<&square>.remote(12), {.timeout = 30s}), 144);
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2, .object_store_memory = 256 << 20}, {
    {"mixed load under random kills", [] {
      const char* seed = std::getenv("RUNTIME_TEST_SEED");
      const unsigned first = seed ? unsigned(std::atoi(seed)) : 1;
      for (unsigned s = first; s < first + 2; ++s) {
        mixed_load(s);
        all_quiet();
      }
    }},
    {"many actors, each killed from outside: callers are told soon, monitors know", [] {
      for (int round = 0; round < 5; ++round) {
        std::vector<ActorHandle<Counter>> actors;
        std::vector<ObjectRef<troupe::ActorDeath>> deaths;
        for (int i = 0; i < 8; ++i) {
          actors.push_back(actor<Counter>.remote());
          deaths.push_back(troupe::monitor(actors.back()));
        }
        for (auto& a : actors) CHECK_EQ(get(a.call<&Counter::add>(1), {.timeout = 30s}), 1);
        for (auto& row : troupe::list_actors({.filter = {{"state", "ALIVE"}}})) ::kill(row.pid, SIGKILL);
        for (auto& a : actors) CHECK_THROWS(troupe::ActorDiedError, get(a.call<&Counter::add>(1), {.timeout = 30s}));
        for (auto& d : deaths) CHECK(get(d, {.timeout = 30s}).cause == troupe::DeathCause::kCrashed);
      }
      all_quiet();
    }},
    {"calls from many driver threads while workers die", [] {
      Killer killer(99, 10ms);
      std::vector<std::future<int>> threads;
      for (int t = 0; t < 4; ++t)
        threads.push_back(std::async(std::launch::async, [t] {
          int good = 0;
          for (int i = 0; i < 100; ++i)
            good +=
                get(task<&slow_square>.options({.retry = {.max_retries = -1, .backoff = kQuick}}).remote(t * 100 + i),
                    {.timeout = 60s}) == (t * 100 + i) * (t * 100 + i);
          return good;
        }));
      for (auto& t : threads) CHECK_EQ(t.get(), 100);
      killer.end();
      all_quiet();
    }},
  }, 240);
}
