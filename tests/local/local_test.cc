// Local mode: one process holds everything, nothing is forked, and what is promised of processes holds for threads as
// far as it can. The same program is what the sanitizer presets run: it goes through rings, store, head, daemon and
// workers.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <numeric>

#include "../runtime/check.h"

using namespace std::chrono_literals;
using troupe::actor, troupe::get, troupe::task;

namespace {

int add(int a, int b) { return a + b; }
int pid() { return ::getpid(); }
std::vector<int> pids_below(int depth) {
  std::vector<int> pids{::getpid()};
  if (depth == 0) return pids;
  std::vector<troupe::ObjectRef<std::vector<int>>> below;
  for (int i = 0; i < 2; ++i) below.push_back(task<&pids_below>.remote(depth - 1));
  for (auto& more : get(below)) pids.insert(pids.end(), more.begin(), more.end());
  return pids;
}
std::tuple<int, std::string> divide(int a, int b) { return {a / b, std::to_string(a % b)}; }
int fails(const std::string& text) { throw std::out_of_range(text); }
troupe::Generator<int> count(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
int wait_for_ever(std::string started) {
  rt::touch(started);
  troupe::Event never;
  never.wait();
  return 0;
}
int wait_for_child(std::string started) { return get(task<&wait_for_ever>.remote(started)); }
/// Catches what it is told and goes on: only a kill ends it.
int stubborn(std::string started) {
  for (;;) try {
      wait_for_ever(started);
    } catch (const troupe::CancelledError&) {
      troupe::sleep_for(1h);
    }
}
double sum(const troupe::Array<float>& values) {
  return std::accumulate(values.data(), values.data() + values.size(), 0.0);
}
troupe::Array<float> ramp(std::size_t n) {
  troupe::ArrayBuilder<float> b(n);
  std::iota(b.span().begin(), b.span().end(), 0.f);
  return std::move(b).seal();
}

std::atomic<bool> let_go = false;
std::atomic<int> spinning = 0;
int spin() {
  ++spinning;
  while (!let_go) {}
  --spinning;
  return 1;
}

class Counter {
 public:
  explicit Counter(int start) : value_(start) { if (start < 0) throw std::invalid_argument("below zero"); }
  ~Counter() { ++destroyed; }
  int add(int delta) { return value_ += delta; }
  int pid() const { return ::getpid(); }
  int attempt() const { return troupe::runtime_context().attempt; }
  int wait(std::string started) { return wait_for_ever(started); }
  void leave() { troupe::exit_actor(); }
  static inline std::atomic<int> destroyed = 0;
 private:
  int value_;
};

class Room {
 public:
  int enter() {
    event_.wait();
    return ++entered_;
  }
  void open() { event_.set(); }
 private:
  troupe::Event event_;
  std::atomic<int> entered_ = 0;
};

std::vector<int> children() {
  std::vector<int> found;
  DIR* tasks = ::opendir("/proc/self/task");
  while (dirent* entry = ::readdir(tasks)) {
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/children");
    for (int child = 0; file >> child;) found.push_back(child);
  }
  ::closedir(tasks);
  return found;
}

const std::vector<rt::Promise>& promises() {
  static const std::vector<rt::Promise> list = {
      {"driver, tasks and actors are in one process, which has no children",
       [] {
         CHECK_EQ(get(task<&pid>.remote()), ::getpid());
         for (int one : get(task<&pids_below>.remote(3))) CHECK_EQ(one, ::getpid());
         const int before = Counter::destroyed;
         auto process = actor<Counter>.remote(0),
              light = actor<Counter>.options({.isolation = troupe::Isolation::kLight}).remote(0);
         CHECK_EQ(get(process.call<&Counter::pid>()), ::getpid());
         CHECK_EQ(get(light.call<&Counter::pid>()), ::getpid());
         for (const auto& worker : troupe::list_workers())
           CHECK(worker.pid == ::getpid() || worker.state == "STARTING");
         CHECK(troupe::list_workers().size() >= 2);
         CHECK(children().empty());
         process = light = {};
         CHECK(rt::eventually([&] { return Counter::destroyed == before + 2; }));  // the next promise counts from here
       }},
      {"tasks take references, closures and tuples, many at once",
       [] {
         auto three = task<&add>.remote(1, 2);
         CHECK_EQ(get(task<&add>.remote(three, 7)), 10);
         auto [quotient, rest] = task<&divide>.remote(17, 5);
         CHECK_EQ(get(quotient), 3);
         CHECK_EQ(get(rest), "2");
         CHECK_EQ(get(troupe::submit([k = 3](int x) { return k * x; }, 4)), 12);
         std::vector<troupe::ObjectRef<int>> many;
         for (int i = 0; i < 500; ++i) many.push_back(task<&add>.remote(i, 1));
         const auto values = get(many);
         CHECK_EQ(std::accumulate(values.begin(), values.end(), 0), 500 * 501 / 2);
       }},
      {"actors keep the order of calls, have names, and are destroyed at their end",
       [] {
         const int before = Counter::destroyed;
         auto counter = actor<Counter>.options({.name = "hits"}).remote(0);
         std::vector<troupe::ObjectRef<int>> sums;
         for (int i = 1; i <= 100; ++i) sums.push_back(counter.call<&Counter::add>(1));
         for (int i = 1; i <= 100; ++i) CHECK_EQ(get(sums[std::size_t(i - 1)]), i);
         CHECK_EQ(get(troupe::get_actor<Counter>("hits").call<&Counter::add>(0)), 100);
         auto death = troupe::monitor(counter);
         troupe::stop(counter);
         CHECK(get(death).cause == troupe::DeathCause::kFinished);
         CHECK(rt::eventually([&] { return Counter::destroyed == before + 1; }));
         auto leaving = actor<Counter>.remote(0);
         get(leaving.call<&Counter::leave>());
         CHECK(get(troupe::monitor(leaving)).cause == troupe::DeathCause::kFinished);
         CHECK_THROWS(troupe::TaskError, get(actor<Counter>.remote(-1).ready()));
       }},
      {"threads and fibers of an actor wait side by side",
       [] {
         for (troupe::ActorOptions options :
              {troupe::ActorOptions{.max_concurrency = 8}, troupe::ActorOptions{.threads = 8},
               troupe::ActorOptions{.max_concurrency = 8, .isolation = troupe::Isolation::kLight}}) {
           auto room = actor<Room>.options(options).remote();
           std::vector<troupe::ObjectRef<int>> guests;
           for (int i = 0; i < 7; ++i) guests.push_back(room.call<&Room::enter>());
           get(room.call<&Room::open>());
           const auto entered = get(guests);
           CHECK_EQ(std::accumulate(entered.begin(), entered.end(), 0), 28);
         }
       }},
      {"many light actors",
       [] {
         std::vector<troupe::ActorHandle<Counter>> actors;
         std::vector<troupe::ObjectRef<int>> values;
         for (int i = 0; i < 300; ++i)
           actors.push_back(actor<Counter>.options({.isolation = troupe::Isolation::kLight}).remote(i));
         for (auto& one : actors) values.push_back(one.call<&Counter::add>(1));
         const auto got = get(values);
         CHECK_EQ(std::accumulate(got.begin(), got.end(), 0), 300 * 301 / 2);
       }},
      {"generators give items, and stop when nobody reads",
       [] {
         int total = 0;
         for (auto item : task<&count>.remote(200)) total += get(item);
         CHECK_EQ(total, 199 * 100);
         {
           auto stream = task<&count>.remote(1'000'000'000);
           CHECK_EQ(get(*stream.begin()), 0);
         }
         CHECK(rt::eventually([] { return troupe::list_tasks({.filter = {{"state", "RUNNING"}}}).empty(); }));
       }},
      {"a waiting task is cancelled, with its children, by force too",
       [] {
         rt::Folder dir;
         auto waiting = task<&wait_for_ever>.remote(dir / "a");
         auto parent = task<&wait_for_child>.remote(dir / "b");
         auto deaf = task<&stubborn>.options({.retry = {.max_retries = 0}}).remote(dir / "c");
         CHECK(rt::eventually([&] { return rt::exists(dir / "a") && rt::exists(dir / "b") && rt::exists(dir / "c"); }));
         troupe::cancel(waiting);
         troupe::cancel(parent);
         troupe::cancel(deaf, {.force = true});
         CHECK_THROWS(troupe::CancelledError, get(waiting));
         CHECK_THROWS(troupe::CancelledError, get(parent));
         CHECK_THROWS(troupe::CancelledError, get(deaf));
         CHECK(rt::eventually([] { return troupe::list_tasks({.filter = {{"state", "RUNNING"}}}).empty(); }));
         CHECK_THROWS(troupe::DeadlineExceededError,
                      get(task<&wait_for_ever>.options({.timeout = 100ms}).remote(dir / "d")));
         CHECK_THROWS(troupe::GetTimeoutError, get(task<&wait_for_ever>.remote(dir / "e"), {.timeout = 50ms}));
       }},
      {"kill fails the calls of an actor at once; with restart it begins anew",
       [] {
         rt::Folder dir;
         for (troupe::Isolation isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
           const std::string mark = dir / (isolation == troupe::Isolation::kLight ? "light" : "process");
           auto victim = actor<Counter>.options({.isolation = isolation}).remote(0);
           auto death = troupe::monitor(victim);
           auto call = victim.call<&Counter::wait>(mark);
           auto queued = victim.call<&Counter::add>(1);
           CHECK(rt::eventually([&] { return rt::exists(mark); }));
           troupe::kill(victim);
           CHECK_THROWS(troupe::ActorDiedError, get(call));
           CHECK_THROWS(troupe::ActorDiedError, get(queued));
           CHECK_THROWS(troupe::ActorDiedError, get(victim.call<&Counter::add>(1)));
           CHECK(get(death).cause == troupe::DeathCause::kKilled);
           if (isolation == troupe::Isolation::kProcess) CHECK_EQ(get(death).pid, ::getpid());
         }
         auto phoenix = actor<Counter>.options({.max_restarts = 2, .restart_backoff = {.initial = 1ms}}).remote(5);
         CHECK_EQ(get(phoenix.call<&Counter::add>(1)), 6);
         troupe::kill(phoenix, {.restart = true});
         CHECK(rt::eventually([&] {
           auto again = troupe::try_get(phoenix.call<&Counter::attempt>());
           return again.ok() && *again == 1;
         }));
         CHECK_EQ(get(phoenix.call<&Counter::add>(1)), 6);
       }},
      {"arrays go through the store, both ways, and leave it",
       [] {
         const std::size_t n = 2 << 20;
         const double expected = double(n) * double(n - 1) / 2;
         {
           auto made = task<&ramp>.remote(n);
           CHECK(std::abs(get(task<&sum>.remote(made)) - expected) < 1e-6 * expected);
           const auto view = get(made);
           CHECK_EQ(view.data()[n - 1], float(n - 1));
           auto put = troupe::put(ramp(n));
           CHECK(std::abs(get(task<&sum>.remote(put)) - expected) < 1e-6 * expected);
         }
         CHECK(rt::eventually([] { return troupe::object_store_usage().objects == 0; }));
       }},
      {"the key-value store, named errors and where they come from",
       [] {
         troupe::kv::put("local/one", "1");
         CHECK_EQ(get(troupe::submit([](int) { return troupe::kv::get("local/one").value_or(""); }, 0)), "1");
         CHECK(troupe::kv::del("local/one"));
         if (auto error = CHECK_THROWS(troupe::TaskError, get(task<&fails>.remote("too far")))) {
           CHECK(error->is<std::out_of_range>());
           CHECK_EQ(error->context().pid, ::getpid());
         }
         CHECK_THROWS(troupe::ActorNotFoundError, troupe::get_actor<Counter>("nobody"));
       }},
      {"what only a process can have is refused with a typed error",
       [] {
         CHECK_THROWS(troupe::RuntimeEnvError, get(task<&pid>.options({.env = {.env_vars = {{"A", "B"}}}}).remote()));
         CHECK_EQ(get(task<&pid>.remote()), ::getpid());
       }},
  };
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  const troupe::RunOptions options{.local = true, .cpus = 2, .object_store_memory = 256 << 20};
  int failed = rt::main(argc, argv, options, promises());
  if (argc > 1) return failed;
  // A run after a run, with a thread that nobody can end: run returns all the same, and what it left goes on unharmed.
  failed += troupe::run(argc, argv, options, [] {
    auto endless = task<&spin>.remote();
    CHECK(rt::eventually([] { return spinning == 1; }));
    troupe::cancel(endless, {.force = true});
    CHECK_THROWS(troupe::CancelledError, get(endless));
    CHECK_EQ(get(task<&add>.remote(1, 2)), 3);
    return 0;
  });
  CHECK_EQ(spinning.load(), 1);
  let_go = true;
  CHECK(rt::eventually([] { return spinning == 0; }));
  rusage ended{};
  ::getrusage(RUSAGE_CHILDREN, &ended);
  CHECK_EQ(ended.ru_maxrss, 0);  // no child was ever waited for
  CHECK(children().empty());
  CHECK_EQ(troupe::run(argc, argv, {.address = "127.0.0.1:1", .local = true}, [] { return 0; }), 2);
  if (rt::failures) std::fprintf(stderr, "%d checks failed\n", rt::failures.load());
  return failed || rt::failures ? 1 : 0;
}
