// A frozen process under load costs its own callers, a frozen daemon its node; nobody else's memory grows with what
// waits for it, and calls between others go on. REVIEW B.5.
//
//   the driver, then a daemon --SIGSTOP, by a watcher that nothing here can stop--> load waits --SIGCONT--> all ends
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <set>

#include "nodes.h"

using namespace std::chrono_literals;
using troupe::ActorHandle, troupe::ObjectRef, troupe::actor, troupe::get;

extern char** environ;

namespace {

constexpr std::size_t kText = 90'000;                           // inline: it travels in its frame
constexpr int kLoad = 1500;                                     // 135 MB
// Of any process that is neither frozen nor its caller: what a daemon may keep for a node, once in its session and once
// on its way; what a worker may keep of replies, and a daemon of what goes on all the same.
constexpr std::size_t kDaemonGrowthMax = std::size_t{64} << 20, kWorkerGrowthMax = std::size_t{32} << 20;
constexpr std::size_t kTextsOfOwner = kText * std::size_t{kLoad};  // what an owner has of them itself
constexpr int kHealthyCalls = 200;

// --------------------------------------------------------------------------------------------- processes, from outside

/// Of the memory that is its own: pages of the store belong to the node.
std::size_t private_bytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word)
    if (std::size_t kilobytes = 0; word == "RssAnon:" && file >> kilobytes) return kilobytes * 1024;
  return 0;
}
int parent_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word)
    if (int parent = 0; word == "PPid:" && file >> parent) return parent;
  return 0;
}
/// Of a node's processes: all others descend from it.
int daemon_of_node(const troupe::testing::Node& node) {
  const std::vector<int> pids = node.pids();
  for (int pid : pids)
    if (parent_of(pid) == ::getpid()) return pid;
  return 0;
}
/// All of the cluster but this process and `but`: the head and the daemons are its children.
std::vector<int> all_but(const std::set<int>& but) {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    if (const int pid = std::atoi(entry.path().filename().c_str()); pid > 0 && parent_of(pid) == ::getpid())
      all.insert(pid);
  for (std::size_t i = 0; i < rt::cluster->size(); ++i)
    for (int pid : rt::cluster->node(i).pids()) all.insert(pid);
  all.erase(::getpid());
  std::erase_if(all, [&](int pid) { return but.contains(pid); });
  return {all.begin(), all.end()};
}

class Memory {
 public:
  explicit Memory(std::vector<int> pids) {
    for (int pid : pids) before_[pid] = private_bytes(pid);
  }
  /// The growth of whoever has grown most since.
  std::size_t growth() {
    const std::size_t last = most_;
    for (auto [pid, before] : before_) {
      const std::size_t grown = std::max(private_bytes(pid), before) - before;
      if (grown > most_) who_ = pid;
      most_ = std::max(most_, grown);
    }
    still_ = most_ == last ? still_ + 1 : 0;
    return most_;
  }
  /// Looks again: has nobody grown at so many looks in a row?
  bool is_still(int looks) { return growth(), still_ > looks; }
  /// Who that was: its process id, its parent's, and what it had before.
  std::string who() const {
    const auto found = before_.find(who_);
    return std::to_string(who_) + "/" + std::to_string(parent_of(who_)) + "/" +
           std::to_string(found == before_.end() ? 0 : found->second >> 20);
  }

 private:
  std::map<int, std::size_t> before_;
  int who_ = 0;
  std::size_t most_ = 0;
  int still_ = 0;
};

// ---------------------------------------------------------------------------------------------------------- the actors

class Worker {
 public:
  int take(std::string text) { return int(text.size()); }
  std::string text(int n) { return std::string(kText, char('a' + n % 26)); }
  std::string text_after(std::string file, int n) {
    CHECK(rt::eventually([&] { return rt::exists(file); }));
    return text(n);
  }
  int echo(int n) { return n; }
  int pid() { return ::getpid(); }
};

/// Owns what another makes.
class Source {
 public:
  std::vector<ObjectRef<std::string>> texts_after(ActorHandle<Worker> maker, std::string file) {
    std::vector<ObjectRef<std::string>> texts;
    for (int i = 0; i < kLoad; ++i) texts.push_back(maker.call<&Worker::text_after>(file, i));
    return texts;
  }
};

/// Calls another all the time, until the file is there; each answer is one more byte of `counted`.
class Healthy {
 public:
  explicit Healthy(ActorHandle<Worker> peer) : peer_(std::move(peer)) {}
  int run(std::string counted, std::string until) {
    int n = 0;
    for (; !rt::exists(until); ++n) {
      if (get(peer_.call<&Worker::echo>(n)) != n) return -1;
      rt::bump(counted);
    }
    return n;
  }

 private:
  ActorHandle<Worker> peer_;
};

template <class A>
ActorHandle<A> actor_on(std::size_t node) {
  return actor<A>.options({.resources = {.cpus = 0}, .scheduling = rt::on(rt::cluster->node(node))}).remote();
}
ActorHandle<Worker> worker_on(std::size_t node) {
  auto made = actor_on<Worker>(node);
  get(made.call<&Worker::pid>(), {.timeout = 40s});
  return made;
}

/// Two actors on nodes 0 and 2 that call each other while somebody else is frozen.
struct HealthyPair {
  rt::Folder folder;
  ActorHandle<Worker> peer = worker_on(2);
  ActorHandle<Healthy> caller =
      actor<Healthy>.options({.resources = {.cpus = 0}, .scheduling = rt::on(rt::cluster->node(0))}).remote(peer);
  ObjectRef<int> runs = caller.call<&Healthy::run>(folder / "counted", folder / "end");
  HealthyPair() { CHECK(rt::eventually([&] { return calls() > 0; })); }
  std::string counted() const { return folder / "counted"; }
  int calls() const { return rt::count(folder / "counted"); }
  void end() {
    rt::touch(folder / "end");
    CHECK(get(runs, {.timeout = 40s}) > 0);
  }
};

// ----------------------------------------------------------------------------------------------------- a frozen driver

/// --watch PID GO COUNTED REPORT OTHERS...: freezes PID when GO is there, until others have made their calls and nobody
/// grows any more; reports the growth and the calls. GO.frozen is made when it is frozen.
int watch(const std::vector<std::string>& a) {
  const int frozen = std::stoi(a[0]);
  std::vector<int> daemons, workers;  // the head and the daemons are children of the driver
  for (std::size_t i = 4; i < a.size(); ++i)
    (parent_of(std::stoi(a[i])) == frozen ? daemons : workers).push_back(std::stoi(a[i]));
  Memory memory(workers), of_daemons(daemons);
  rt::touch(a[3] + ".ready");
  if (!rt::eventually([&] { return rt::exists(a[1]); })) return 1;
  ::kill(frozen, SIGSTOP);
  rt::touch(a[1] + ".frozen");
  const int before = rt::count(a[2]);
  const bool went_on =
      rt::eventually([&] {
        const bool still = memory.is_still(300), daemons_still = of_daemons.is_still(300);
        return still && daemons_still && rt::count(a[2]) >= before + kHealthyCalls;
      });
  const int calls = rt::count(a[2]) - before;
  ::kill(frozen, SIGCONT);
  rt::write(a[3], std::to_string(went_on) + " " + std::to_string(memory.growth()) + " " +
                     std::to_string(of_daemons.growth()) + " " + std::to_string(calls) + " " + memory.who());
  return 0;
}

pid_t start_watcher(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"freeze_test", "--watch"});
  std::vector<char*> argv;
  for (std::string& one : arguments) argv.push_back(one.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) != 0) return 0;
  return pid;
}

/// Freezes this process, from go() on, until nobody else grows any more.
class Freezing {
 public:
  /// Who is here now is watched.
  void watch() {
    std::vector<std::string> arguments{std::to_string(::getpid()), go_, healthy_.counted(), folder_ / "report"};
    for (int pid : all_but({})) arguments.push_back(std::to_string(pid));
    watcher_ = start_watcher(arguments);
    CHECK(watcher_ > 0);
    CHECK(rt::eventually([&] { return rt::exists(folder_ / "report.ready"); }));
  }
  void go() { rt::touch(go_); }
  /// Is there as soon as this process is frozen.
  std::string frozen() const { return go_ + ".frozen"; }
  void check(std::size_t growth_max) {
    int status = 0;
    CHECK_EQ(::waitpid(watcher_, &status, 0), watcher_);
    std::istringstream report(rt::read(folder_ / "report"));
    bool went_on = false;
    std::size_t growth = growth_max, of_daemons = kDaemonGrowthMax;
    int calls = 0;
    std::string who;
    CHECK(report >> went_on >> growth >> of_daemons >> calls >> who);
    std::fprintf(stderr,
                 "  workers grown by %zu MiB at most (process/parent/MiB before: %s), daemons by %zu, %d calls between "
                 "others\n",
                 growth >> 20, who.c_str(), of_daemons >> 20, calls);
    CHECK(went_on);
    CHECK(calls >= kHealthyCalls);
    CHECK(growth < growth_max);
    CHECK(of_daemons < kDaemonGrowthMax);
    healthy_.end();
  }

 private:
  HealthyPair healthy_;
  rt::Folder folder_;
  const std::string go_ = folder_ / "go";
  pid_t watcher_ = 0;
};

/// Takes one after the other: how many of the texts are not what was asked for.
int wrong_ones(std::vector<ObjectRef<std::string>>& texts, std::size_t sources) {
  int wrong = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto got = troupe::try_get(texts[i], {.timeout = 40s});
    wrong += !got.ok() || got->size() != kText || got->front() != char('a' + i / sources % 26);
    texts[i] = {};
  }
  return wrong;
}

void frozen_driver() {
  Freezing freezing;
  auto near = worker_on(0), far = worker_on(1);
  freezing.watch();
  std::vector<ObjectRef<std::string>> texts;
  for (int i = 0; i < kLoad; ++i)
    for (auto* source : {&near, &far}) texts.push_back(source->call<&Worker::text>(i));
  freezing.go();
  CHECK_EQ(wrong_ones(texts, 2), 0);
  freezing.check(kWorkerGrowthMax);
}

/// Values of others, asked for all at once by a driver that is frozen when they are there: their owner has them anyway,
/// and makes no copy for a reader that takes none.
void frozen_reader() {
  for (std::size_t node : {0, 1}) {
    Freezing freezing;
    auto maker = worker_on(2);
    auto source = actor_on<Source>(node);
    freezing.watch();
    std::vector<ObjectRef<std::string>> texts =
        get(source.call<&Source::texts_after>(maker, freezing.frozen()), {.timeout = 40s});
    CHECK(troupe::wait(texts, {.num_returns = texts.size(), .timeout = 0s}).ready.empty());
    freezing.go();
    CHECK_EQ(wrong_ones(texts, 1), 0);
    freezing.check(kTextsOfOwner + kWorkerGrowthMax);
  }
}

// ----------------------------------------------------------------------------------------------------- a frozen daemon

struct Load {
  ActorHandle<Worker> on_frozen = worker_on(1), on_other = worker_on(2);
  int daemon = daemon_of_node(rt::cluster->node(1));
  std::set<int> of_node;
  std::vector<ObjectRef<int>> taken;
  Load() {
    for (int pid : rt::cluster->node(1).pids()) of_node.insert(pid);
  }
  /// Freezes the daemon and calls what is behind it.
  void freeze() {
    ::kill(daemon, SIGSTOP);
    const std::string text(kText, 'x');
    for (int i = 0; i < kLoad; ++i) taken.push_back(on_frozen.call<&Worker::take>(text));
  }
};

void frozen_daemon_comes_back() {
  HealthyPair healthy;
  Load load;
  if (!CHECK(load.daemon > 0)) return;
  Memory memory(all_but({load.daemon}));
  load.freeze();
  // The same caller's calls to another node pass what waits for the frozen one.
  for (int i = 0; i < 20; ++i) CHECK_EQ(get(load.on_other.call<&Worker::echo>(i), {.timeout = 40s}), i);
  CHECK(troupe::wait(load.taken, {.num_returns = load.taken.size(), .timeout = 0s}).ready.size() < load.taken.size());
  const int before = healthy.calls();
  CHECK(rt::eventually([&] { return memory.is_still(50) && healthy.calls() > before + 20; }));
  CHECK_EQ(rt::nodes_alive(), 3u);
  ::kill(load.daemon, SIGCONT);
  for (auto& one : load.taken) CHECK_EQ(get(one, {.timeout = 40s}), int(kText));
  std::fprintf(stderr, "  grown by %zu MiB at most\n", memory.growth() >> 20);
  CHECK(memory.growth() < kDaemonGrowthMax);
  healthy.end();
}

void frozen_daemon_past_the_verdict() {
  HealthyPair healthy;
  Load load;
  if (!CHECK(load.daemon > 0)) return;
  Memory memory(all_but(load.of_node));
  load.freeze();
  int unnamed = 0;
  for (auto& one : load.taken) {
    const auto got = troupe::try_get(one, {.timeout = 40s});
    unnamed += got.ok() || (got.error().code() != troupe::ErrorCode::kActorDied &&
                            got.error().code() != troupe::ErrorCode::kNodeDied);
  }
  CHECK_EQ(unnamed, 0);
  const int before = healthy.calls();
  CHECK(rt::eventually([&] { return memory.is_still(100) && healthy.calls() > before + kHealthyCalls; }));
  CHECK_EQ(get(load.on_other.call<&Worker::echo>(1), {.timeout = 40s}), 1);
  std::fprintf(stderr, "  grown by %zu MiB at most\n", memory.growth() >> 20);
  CHECK(memory.growth() < kDaemonGrowthMax);
  ::kill(load.daemon, SIGCONT);
  CHECK(rt::eventually([&] { return rt::cluster->node(1).pids().empty(); }));
  healthy.end();
}

/// What an actor has answered arrives, also when it waits in the memory of a process that ends now.
void stopped_with_answers_on_the_way() {
  for (std::size_t node : {0, 1}) {
    auto source = worker_on(node);
    std::vector<ObjectRef<std::string>> texts;
    for (int i = 0; i < 300; ++i) texts.push_back(source.call<&Worker::text>(i));
    troupe::stop(source);
    int wrong = 0;
    for (const auto& one : texts) {
      const auto got = troupe::try_get(one, {.timeout = 40s});
      wrong += !got.ok() || got->size() != kText;
    }
    CHECK_EQ(wrong, 0);
  }
}

const std::vector<rt::Promise>& promises() {
  static const std::vector<rt::Promise> list = {
    {"a frozen driver costs its callees no memory, and others nothing", frozen_driver},
    {"a frozen reader costs an owner no second copy of its values", frozen_reader},
    {"a frozen daemon holds up its node alone, and all ends when it comes back", frozen_daemon_comes_back},
    {"an actor that is stopped has answered all calls before", stopped_with_answers_on_the_way},
    {"what waits for a frozen daemon ends with a named error at its death", frozen_daemon_past_the_verdict},
  };
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 6 && std::string(argv[1]) == "--watch") return watch({argv + 2, argv + argc});
  return rt::run_nodes(argc, argv, {.nodes = {{.cpus = 2}, {.cpus = 2}, {.cpus = 2}}}, promises(), 120);
}
