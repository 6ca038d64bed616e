// Work on several nodes as a program sees it: objects that move between nodes, tasks that are run again elsewhere,
// actors that move, keys of tasks, errors that name the node.
#include "nodes.h"

#include <poll.h>
#include <sys/syscall.h>

#include <future>
#include <memory>
#include <numeric>
#include <set>

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::Array, troupe::ObjectRef, troupe::actor, troupe::get,
    troupe::put, troupe::task;

namespace {

const troupe::Backoff kQuick{.initial = 5ms, .max = 20ms};

Array<std::uint64_t> numbers(std::size_t n, std::uint64_t seed) {
  troupe::ArrayBuilder<std::uint64_t> b(n);
  for (auto& x : b.span()) x = seed = seed * 6364136223846793005u + 1442695040888963407u;
  return std::move(b).seal();
}
std::uint64_t digest(const Array<std::uint64_t>& a) {
  std::uint64_t sum = a.size();
  for (auto x : a.span()) sum = (sum ^ x) * 1099511628211u;
  return sum;
}
std::uint64_t digest_of(std::size_t n, std::uint64_t seed) { return digest(numbers(n, seed)); }
std::string text_of(std::size_t n) { return std::string(n, 'x'); }
std::size_t length(const std::string& text) { return text.size(); }

/// Refs and arrays inside of one value, made on one node and opened on another.
struct Parcel {
  std::vector<ObjectRef<Array<std::uint64_t>>> refs;
  Array<std::uint64_t> array;
  std::string text;
};
Parcel parcel(int n, std::size_t size) {
  Parcel p;
  for (int i = 0; i < n; ++i) p.refs.push_back(put(numbers(size, std::uint64_t(i))));
  p.array = numbers(size, 99);
  p.text = std::string(1 << 18, 't');
  return p;
}
int open_parcel(const Parcel& p, std::size_t size) {
  int right = 0;
  for (std::size_t i = 0; i < p.refs.size(); ++i) right += digest(get(p.refs[i])) == digest_of(size, i);
  return right + (digest(p.array) == digest_of(size, 99)) + (p.text.size() == 1 << 18);
}
/// Passes on what it was given, by reference: the node that it runs on only borrows.
ObjectRef<Array<std::uint64_t>> pass_on(ObjectRef<Array<std::uint64_t>> ref) { return ref; }

Array<std::uint64_t> numbers_after(std::size_t n, std::uint64_t seed, std::string gate) {
  rt::wait_for_file(gate);
  return numbers(n, seed);
}
std::uint64_t objects_here() { return troupe::object_store_usage().objects; }
std::string where_after(std::string started, std::string gate) {
  const std::string node = rt::here();
  rt::touch(started + "." + node);
  rt::wait_for_file(gate);
  return node;
}
int kills_its_node(std::string runs, std::vector<int> pids) {
  if (rt::bump(runs) == 1)
    for (int pid : pids) ::kill(pid, SIGKILL);
  return troupe::runtime_context().attempt;
}

class Traveller {
 public:
  struct State {
    int sum = 0;
  };
  State checkpoint() const { return {sum_}; }
  void restore(State s) { sum_ = s.sum; }
  int add(int x) { return sum_ += x; }
  std::string where() { return rt::here(); }
  int attempt() { return troupe::runtime_context().attempt; }
  int slow(std::string started, std::string gate) {
    rt::bump(started);
    rt::wait_for_file(gate);
    return 1;
  }
  ObjectRef<Array<std::uint64_t>> make(std::size_t n) { return put(numbers(n, 7)); }

 private:
  int sum_ = 0;
};

void objects_move() {
  auto &a = rt::cluster->node(0), &b = rt::cluster->node(1), &c = rt::cluster->node(2);
  for (std::size_t n : {std::size_t(1), std::size_t(1000), std::size_t(100'000), std::size_t(3'000'000)}) {
    auto made = task<&numbers>.options({.scheduling = rt::on(b)}).remote(n, 5);
    auto read = task<&digest>.options({.scheduling = rt::on(c)}).remote(made);
    CHECK_EQ(get(read, {.timeout = 40s}), digest_of(n, 5));
    CHECK_EQ(digest(get(made, {.timeout = 40s})), digest_of(n, 5));
    auto mine = put(numbers(n, 6));
    CHECK_EQ(get(task<&digest>.options({.scheduling = rt::on(b)}).remote(mine), {.timeout = 40s}), digest_of(n, 6));
    auto passed = get(task<&pass_on>.options({.scheduling = rt::on(c)}).remote(made), {.timeout = 40s});
    CHECK_EQ(get(task<&digest>.options({.scheduling = rt::on(b)}).remote(passed), {.timeout = 40s}), digest_of(n, 5));
  }
  auto text = task<&text_of>.options({.scheduling = rt::on(b)}).remote(std::size_t(5) << 20);
  CHECK_EQ(get(task<&length>.options({.scheduling = rt::on(c)}).remote(text), {.timeout = 40s}), std::size_t(5) << 20);
  CHECK_EQ(get(text, {.timeout = 40s}).size(), std::size_t(5) << 20);
  auto box = task<&parcel>.options({.scheduling = rt::on(b)}).remote(4, std::size_t(50'000));
  CHECK_EQ(
      get(task<&open_parcel>.options({.scheduling = rt::on(c)}).remote(box, std::size_t(50'000)), {.timeout = 40s}), 6);
  CHECK_EQ(open_parcel(get(box, {.timeout = 40s}), 50'000), 6);
  CHECK_EQ(rt::here(), a.id());
}

void many_readers() {
  const std::size_t n = 1'000'000;
  auto made = task<&numbers>.options({.scheduling = rt::on(rt::cluster->node(1))}).remote(n, 11);
  std::vector<ObjectRef<std::uint64_t>> read;
  for (int i = 0; i < 12; ++i)
    read.push_back(task<&digest>.options({.scheduling = rt::on(rt::cluster->node(std::size_t(i % 3)))}).remote(made));
  for (auto& one : read) CHECK_EQ(get(one, {.timeout = 40s}), digest_of(n, 11));
}

void called_back() {
  const std::size_t n = 500'000;
  auto told = [](const ObjectRef<Array<std::uint64_t>>& made) {
    auto result = std::make_shared<std::promise<troupe::Result<std::uint64_t>>>();
    troupe::on_ready(made, [result](troupe::Result<Array<std::uint64_t>>&& r) {
      if (r.ok()) result->set_value(digest(*r));
      else result->set_value(r.error_ptr());
    });
    auto answer = result->get_future();
    CHECK(answer.wait_for(40s) == std::future_status::ready);
    return answer.get();
  };
  auto made = task<&numbers>.options({.scheduling = rt::on(rt::cluster->node(1))}).remote(n, 3);
  CHECK_EQ(told(made).value(), digest_of(n, 3));
  auto& doomed = rt::fresh_node();
  auto lost = task<&numbers>.options({.scheduling = rt::on(doomed)}).remote(n, 4);
  CHECK(rt::ready_elsewhere(lost));
  doomed.kill();
  const auto gone = told(lost);
  CHECK(!gone.ok() && gone.error().code() == troupe::ErrorCode::kObjectLost);
}

/// The error of a result that is lost with its node says whose it was and what became of it.
void a_lost_result_is_named() {
  auto& doomed = rt::fresh_node();
  const std::string id = doomed.id();
  auto plain = task<&numbers>.options({.scheduling = rt::on(doomed)}).remote(300'000, 1);
  auto named = task<&numbers>.options({.name = "harvest", .scheduling = rt::on(doomed)}).remote(300'000, 2);
  CHECK(rt::ready_elsewhere(plain) && rt::ready_elsewhere(named));
  doomed.kill();
  for (auto& [ref, name] : std::vector{std::pair{plain, "numbers"}, std::pair{named, "harvest"}}) {
    const auto lost = CHECK_THROWS(troupe::ObjectLostError, get(ref, {.timeout = 40s}));
    if (!lost) continue;
    const std::string text = lost->what();
    CHECK(text.find(name) != std::string::npos);
    CHECK(text.find(id) != std::string::npos);
    CHECK(text.find(" s ago") != std::string::npos);
    CHECK_EQ(lost->context().node, id);
    std::printf("  %s\n", text.c_str());
  }
}

/// What wait calls ready is on this node, and stays readable when the node that made it dies.
void waited_for_is_here() {
  const std::size_t n = 300'000;
  auto& doomed = rt::fresh_node();
  std::vector<ObjectRef<Array<std::uint64_t>>> refs;
  for (std::uint64_t i = 0; i < 3; ++i)
    refs.push_back(task<&numbers>.options({.scheduling = rt::on(doomed)}).remote(n, i));
  refs.push_back(put(numbers(n, 3)));
  CHECK_EQ(troupe::wait(refs, {.num_returns = 1, .timeout = 40s}).ready.size(), 1u);
  CHECK_EQ(troupe::wait(refs, {.num_returns = 4, .timeout = 40s}).ready.size(), 4u);
  auto lost = task<&numbers>.options({.scheduling = rt::on(doomed)}).remote(n, 4);
  CHECK(rt::ready_elsewhere(lost));
  doomed.kill();
  for (std::uint64_t i = 0; i < 4; ++i) CHECK_EQ(digest(get(refs[i], {.timeout = 40s})), digest_of(n, i));
  CHECK_EQ(troupe::wait(std::vector{lost}, {.timeout = 40s}).ready.size(), 1u);
  CHECK_THROWS(troupe::ObjectLostError, get(lost, {.timeout = 40s}));
  CHECK_THROWS(troupe::InvalidArgumentError, rt::cluster->add_node({.spill_dir = "/tmp"}));
}

/// What becomes ready while others are waited for is fetched at once, not when they have come.
void waited_for_comes_meanwhile() {
  rt::Folder dir;
  const std::size_t n = 300'000;
  const auto made_on = rt::on(rt::cluster->node(1));
  std::vector<ObjectRef<Array<std::uint64_t>>> refs;
  for (std::uint64_t i = 0; i < 2; ++i)
    refs.push_back(task<&numbers_after>.options({.scheduling = made_on}).remote(n, i, dir / std::to_string(i)));
  const std::uint64_t before = objects_here();
  auto opener = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(200ms);  // the wait has begun by then: if not, less is shown
    rt::touch(dir / "0");
    const bool came = rt::eventually([&] { return objects_here() > before; });
    rt::touch(dir / "1");
    return came;
  });
  CHECK_EQ(troupe::wait(refs, {.num_returns = 2, .timeout = 90s}).ready.size(), 2u);
  CHECK(opener.get());
  for (std::uint64_t i = 0; i < 2; ++i) CHECK_EQ(digest(get(refs[i], {.timeout = 40s})), digest_of(n, i));
}

void nothing_stays() {
  CHECK(rt::eventually([] {
    int free = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      free += get(task<&objects_here>.options({.scheduling = rt::on(rt::cluster->node(i))}).remote(),
                  {.timeout = 40s}) == 0;
    }
    return free == 3;
  }));
}

void retried_elsewhere() {
  rt::Folder dir;
  auto& doomed = rt::fresh_node(3);
  const std::string gone = doomed.id();
  // Known to this node too: a soft affinity to a node that nobody knows goes elsewhere.
  get(task<&objects_here>.options({.scheduling = rt::on(doomed)}).remote(), {.timeout = 40s});
  std::vector<ObjectRef<std::string>> running;
  auto there = task<&where_after>.options({.scheduling = rt::near(doomed)});
  for (int i = 0; i < 3; ++i)
    running.push_back(
        there.remote(dir / ("s" + std::to_string(i)), dir / "gate"));
  for (int i = 0; i < 3; ++i)
    CHECK(rt::eventually([&] { return rt::exists(dir / ("s" + std::to_string(i) + "." + gone)); }));
  auto none = task<&where_after>
                  .options({.scheduling = rt::near(doomed), .retry = {.max_retries = 0}})
                  .remote(dir / "none", dir / "gate");
  auto keyed = [&] {
    return task<&where_after>
        .options({.scheduling = rt::near(doomed), .idempotency_key = "moved"})
        .remote(dir / "key", dir / "gate");
  };
  auto first = keyed();
  doomed.kill();
  rt::touch(dir / "gate");
  for (auto& one : running) CHECK(get(one, {.timeout = 40s}) != gone);
  CHECK(get(first, {.timeout = 40s}) == get(keyed(), {.timeout = 40s}));
  (void)troupe::try_get(none, {.timeout = 40s});
}

void a_task_that_ends_its_node() {
  rt::Folder dir;
  auto& doomed = rt::fresh_node();
  auto once = task<&kills_its_node>
                  .options({.scheduling = rt::near(doomed), .retry = {.max_retries = 0}})
                  .remote(dir / "once", doomed.pids());
  auto error = CHECK_THROWS(troupe::NodeDiedError, get(once, {.timeout = 40s}));
  CHECK(error && !error->context().node.empty());
  CHECK_EQ(rt::count(dir / "once"), 1);
  auto& next = rt::fresh_node();
  auto again = task<&kills_its_node>
                   .options({.scheduling = rt::near(next), .retry = {.max_retries = 2, .backoff = kQuick}})
                   .remote(dir / "again", next.pids());
  CHECK_EQ(get(again, {.timeout = 40s}), 1);
  CHECK_EQ(rt::count(dir / "again"), 2);
}

/// REVIEW H.8: who could have said that they are unwanted is gone, so they stayed in the readers' stores for good.
void what_was_read_goes() {
  auto& doomed = rt::fresh_node();
  std::vector<Array<std::uint64_t>> here;
  for (std::uint64_t i = 0; i < 8; ++i)
    here.push_back(
        get(task<&numbers>.options({.scheduling = rt::on(doomed)}).remote(std::size_t(500'000), i), {.timeout = 40s}));
  CHECK(objects_here() >= 8);
  const std::size_t nodes = rt::nodes_alive();
  doomed.kill();
  CHECK(rt::eventually([&] { return rt::nodes_alive() == nodes - 1; }, 60));
  for (std::uint64_t i = 0; i < 8; ++i) CHECK_EQ(digest(here[i]), digest_of(500'000, i));
  here.clear();
  CHECK(rt::eventually([] { return objects_here() == 0; }, 60));
}

void actors_move() {
  rt::Folder dir;
  auto& doomed = rt::fresh_node();
  const std::string gone = doomed.id();
  auto mover = actor<Traveller>
                   .options({.name = "mover",
                             .max_restarts = 3,
                             .restart_backoff = kQuick,
                             .max_task_retries = 3,
                             .checkpoint_every = 1ns,
                             .scheduling = rt::near(doomed)})
                   .remote();
  auto mortal = actor<Traveller>.options({.scheduling = rt::on(doomed)}).remote();
  for (int i = 1; i <= 10; ++i) CHECK_EQ(get(mover.call<&Traveller::add>(1), {.timeout = 40s}), i);
  CHECK_EQ(get(mover.call<&Traveller::where>(), {.timeout = 40s}), gone);
  auto death = troupe::monitor(mortal);
  auto owned = get(mortal.call<&Traveller::make>(std::size_t(200'000)), {.timeout = 40s});
  auto under_way = mover.call<&Traveller::slow>(dir / "slow", dir / "gate");
  auto behind = mover.call<&Traveller::add>(1);
  CHECK(rt::eventually([&] { return rt::count(dir / "slow") == 1; }));
  doomed.kill();
  CHECK(rt::eventually([&] { return rt::count(dir / "slow") == 2; }));
  rt::touch(dir / "gate");
  CHECK_EQ(get(under_way, {.timeout = 40s}), 1);
  CHECK_EQ(get(behind, {.timeout = 40s}), 11);
  CHECK(get(mover.call<&Traveller::where>(), {.timeout = 40s}) != gone);
  CHECK_EQ(get(mover.call<&Traveller::attempt>(), {.timeout = 40s}), 1);
  CHECK_EQ(get(troupe::get_actor<Traveller>("mover").call<&Traveller::add>(1), {.timeout = 40s}), 12);
  CHECK_THROWS(ActorDiedError, get(mortal.call<&Traveller::add>(1), {.timeout = 40s}));
  const auto died = get(death, {.timeout = 40s});
  CHECK(died.cause == troupe::DeathCause::kNodeDied && died.node == gone);
  auto lost = troupe::try_get(owned, {.timeout = 40s});
  CHECK(!lost.ok() && lost.error().code() == troupe::ErrorCode::kOwnerDied);
}

/// Its state is an array.
class Hoarder {
 public:
  struct State {
    Array<std::uint64_t> array;
  };
  State checkpoint() const { return state_; }
  void restore(State s) { state_ = std::move(s); }
  std::string where() { return rt::here(); }
  int fill(std::size_t n, std::uint64_t seed) {
    state_.array = numbers(n, seed);
    return 1;
  }
  std::uint64_t sum() { return digest(state_.array); }

 private:
  State state_;
};

/// Objects in the stores of all nodes but this one.
std::uint64_t objects_beside(const std::string& node) {
  std::uint64_t sum = 0;
  for (const auto& row : troupe::nodes({.filter = {{"state", "ALIVE"}}}))
    if (row.node_id != node)
      sum += get(task<&objects_here>.options({.scheduling = troupe::NodeAffinity{.node_id = row.node_id}}).remote(),
                 {.timeout = 40s});
  return sum;
}

/// The first of all: the stores are empty.
void arrays_move() {
  auto& doomed = rt::fresh_node();
  const std::string gone = doomed.id();
  auto mover = actor<Hoarder>
                   .options({.max_restarts = 3,
                             .restart_backoff = kQuick,
                             .max_task_retries = 3,
                             .checkpoint_every = 1ns,
                             .scheduling = rt::near(doomed)})
                   .remote();
  CHECK_EQ(get(mover.call<&Hoarder::where>(), {.timeout = 40s}), gone);
  CHECK_EQ(objects_beside(gone), 0);
  CHECK_EQ(get(mover.call<&Hoarder::fill>(std::size_t(1'000'000), std::uint64_t(6)), {.timeout = 40s}), 1);
  CHECK(rt::eventually([&] { return objects_beside(gone) == 1; }));  // another node has a copy, and all of it
  doomed.kill();
  CHECK_EQ(get(mover.call<&Hoarder::sum>(), {.timeout = 40s}), digest_of(1'000'000, 6));
  CHECK(get(mover.call<&Hoarder::where>(), {.timeout = 40s}) != gone);
}

void a_node_that_stops() {
  auto& leaving = rt::fresh_node();
  auto mover = actor<Traveller>
                   .options({.max_restarts = 3,
                             .restart_backoff = kQuick,
                             .max_task_retries = 3,
                             .scheduling = rt::near(leaving)})
                   .remote();
  CHECK_EQ(get(mover.call<&Traveller::where>(), {.timeout = 40s}), leaving.id());
  const std::size_t before = rt::nodes_alive();
  leaving.stop();
  CHECK(rt::eventually([&] { return rt::nodes_alive() == before - 1; }));
  CHECK(rt::answer([&] { return mover.call<&Traveller::where>(); }) != leaving.id());
}


/// Bumps a file when one of those processes ends, as long as it lives itself.
class Watch {
 public:
  int pid() { return ::getpid(); }
  void over(std::vector<int> pids, std::string started, std::string seen) {
    std::vector<pollfd> all;
    for (int pid : pids)
      if (pid != ::getpid()) all.push_back({int(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0});
    rt::bump(started);
    while (::poll(all.data(), all.size(), -1) < 1) {}
    rt::bump(seen);
  }
};
/// TC-4
void a_node_dies_at_once() {
  for (int round = 0; round < 4; ++round) {
    rt::Folder folder;
    troupe::testing::Node& node = rt::fresh_node(8);
    std::vector<ActorHandle<Watch>> watches;
    for (int i = 0; i < 8; ++i) watches.push_back(actor<Watch>.options({.scheduling = rt::on(node)}).remote());
    std::vector<int> pids;
    for (auto& one : watches) pids.push_back(get(one.call<&Watch::pid>()));
    std::vector<ObjectRef<void>> watching;
    for (auto& one : watches) watching.push_back(one.call<&Watch::over>(pids, folder / "started", folder / "seen"));
    CHECK(rt::eventually([&] { return rt::count(folder / "started") == 8; }));
    node.kill();
    CHECK_EQ(rt::count(folder / "seen"), 0);
    for (auto& one : watching) CHECK_THROWS(troupe::Error, get(one, {.timeout = 30s}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return rt::run_nodes(
      argc, argv, {.nodes = {{.cpus = 2}, {.cpus = 2}, {.cpus = 2}}},
      {{"the arrays in an actor's state move with it when its node dies", arrays_move},
       {"objects of any size are read on every node, and refs to them are passed on", objects_move},
       {"many readers on all nodes read one object", many_readers},
       {"no object stays in any store", nothing_stays},
       {"tasks of a node that dies run again elsewhere, a key once", retried_elsewhere},
       {"a task that ends its node costs a retry, and without retries is NodeDiedError", a_task_that_ends_its_node},
       {"what was read of a node that died goes with its last reader", what_was_read_goes},
       {"actors of a node that dies move with their checkpoint and their calls, or die as kNodeDied", actors_move},
       {"a node that stops gives its actors away", a_node_that_stops},
       {"on_ready brings what it tells of to this node, or tells that it is lost", called_back},
       {"the error of a result that is lost with its node names task, node and reason", a_lost_result_is_named},
       {"wait with fetch_local brings objects to this node", waited_for_is_here},
       {"wait with fetch_local fetches one while the others are still to come", waited_for_comes_meanwhile},
       {"of a node that is killed no process sees another's end", a_node_dies_at_once}},
      120);
}
