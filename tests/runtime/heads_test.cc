// A head that is killed and started again (testing.h), through the public interface: what runs goes on without it, what
// asks it waits, and the head that comes back is the same one.
#include "nodes.h"

namespace {

using namespace std::chrono_literals;

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int delta) { return value_ += delta; }
  std::string where() { return rt::here(); }
  void fall() { ::abort(); }

 private:
  int value_;
};

int add(int a, int b) { return a + b; }

/// Calls another actor for as long as it is asked to, and says how many calls were answered.
class Caller {
 public:
  explicit Caller(troupe::ActorHandle<Counter> other) : other_(std::move(other)) {}
  int run(int calls) {
    int answered = 0;
    for (int i = 0; i < calls; ++i) {
      troupe::get(other_.call<&Counter::add>(1), {.timeout = 30s});
      ++answered;
    }
    return answered;
  }

 private:
  troupe::ActorHandle<Counter> other_;
};

void calls_go_on() {
  auto far = troupe::actor<Counter>.options({.scheduling = rt::on(rt::cluster->node(1))}).remote(0);
  auto near = troupe::actor<Caller>.options({.scheduling = rt::on(rt::cluster->node(0))}).remote(far);
  CHECK_EQ(troupe::get(near.call<&Caller::run>(10)), 10);
  CHECK_EQ(troupe::get(troupe::task<&add>.remote(1, 2)), 3);
  auto running = near.call<&Caller::run>(2000);
  rt::cluster->kill_head();
  CHECK_EQ(troupe::get(near.call<&Caller::run>(500), {.timeout = 30s}), 500);
  CHECK_EQ(troupe::get(running, {.timeout = 30s}), 2000);
  CHECK_EQ(troupe::get(troupe::task<&add>.remote(3, 4), {.timeout = 30s}), 7);  // a lease is the daemon's to give
  auto array = troupe::put(std::vector<int>(1000, 7));
  CHECK_EQ(troupe::get(array).size(), 1000u);
  auto asked = troupe::task<&add>.remote(1, 1);
  rt::cluster->restart_head();
  CHECK_EQ(troupe::get(asked, {.timeout = 30s}), 2);
  CHECK(rt::cluster->wait_for_nodes(2, 20s));
  CHECK_EQ(troupe::get(far.call<&Counter::add>(0)), 2510);
}

void it_is_the_same_head() {
  troupe::kv::put("head/key", "value");
  auto named = troupe::actor<Counter>.options({.name = "kept", .lifetime = troupe::Lifetime::kDetached}).remote(5);
  CHECK_EQ(troupe::get(named.call<&Counter::add>(1)), 6);
  const auto before = troupe::nodes({.filter = {{"state", "ALIVE"}}});
  rt::cluster->kill_head();
  rt::cluster->restart_head();
  CHECK(rt::cluster->wait_for_nodes(2, 20s));
  const auto after = troupe::nodes({.filter = {{"state", "ALIVE"}}});
  CHECK_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) CHECK_EQ(before[i].node_id, after[i].node_id);
  CHECK(troupe::kv::get("head/key") == "value");
  auto found = troupe::get_actor<Counter>("kept");
  CHECK_EQ(troupe::get(found.call<&Counter::add>(1), {.timeout = 30s}), 7);
  CHECK_THROWS(troupe::InvalidArgumentError,
               troupe::get(troupe::actor<Counter>.options({.name = "kept"}).remote(0).call<&Counter::add>(1)));
  auto fresh = troupe::actor<Counter>.options({.name = "fresh", .scheduling = rt::on(rt::cluster->node(1))}).remote(1);
  CHECK_EQ(troupe::get(fresh.call<&Counter::where>(), {.timeout = 30s}), rt::cluster->node(1).id());
  CHECK(troupe::kv::del("head/key"));
  troupe::kill(found);
}

void what_asks_it_waits() {
  rt::cluster->kill_head();
  auto made = troupe::actor<Counter>.options({.scheduling = rt::on(rt::cluster->node(1))}).remote(40);
  auto two = made.call<&Counter::add>(2);
  std::thread back([] { rt::cluster->restart_head(); });
  troupe::kv::put("while/away", "kept");
  CHECK_EQ(troupe::get(two, {.timeout = 30s}), 42);
  back.join();
  CHECK(troupe::kv::get("while/away") == "kept");
}

void a_death_while_it_is_away_is_heard() {
  auto restarted = troupe::actor<Counter>.options({.max_restarts = 1}).remote(1);
  auto mortal = troupe::actor<Counter>.remote(1);
  CHECK_EQ(troupe::get(restarted.call<&Counter::add>(1)), 2);
  CHECK_EQ(troupe::get(mortal.call<&Counter::add>(1)), 2);
  rt::cluster->kill_head();
  restarted.cast<&Counter::fall>();
  mortal.cast<&Counter::fall>();
  std::this_thread::sleep_for(300ms);
  rt::cluster->restart_head();
  CHECK_THROWS(troupe::ActorDiedError, troupe::get(mortal.call<&Counter::add>(1), {.timeout = 30s}));
  CHECK_EQ(rt::answer([&] { return restarted.call<&Counter::add>(1); }), 2);
}

void several_times_and_with_nodes_that_come_and_go() {
  for (int i = 0; i < 3; ++i) {
    troupe::kv::put("round", std::to_string(i));
    rt::cluster->kill_head();
    rt::cluster->restart_head();
    CHECK(troupe::kv::get("round") == std::to_string(i));
  }
  troupe::testing::Node& third = rt::cluster->add_node({.cpus = 1});
  CHECK(rt::cluster->wait_for_nodes(3, 20s));
  rt::cluster->kill_head();
  third.kill();
  rt::cluster->restart_head();
  CHECK(rt::cluster->wait_for_nodes(2, 30s));
  CHECK_EQ(troupe::get(troupe::task<&add>.remote(1, 1), {.timeout = 30s}), 2);
}

}  // namespace

int main(int argc, char** argv) {
  return rt::run_nodes(argc, argv, {.nodes = {{.cpus = 2}, {.cpus = 2}}},
                       {{"calls go on while the head is away", calls_go_on},
                        {"a head that comes back is the same one", it_is_the_same_head},
                        {"what asks the head waits until it is back", what_asks_it_waits},
                        {"a death while the head is away is heard", a_death_while_it_is_away_is_heard},
                        {"several times, with nodes that come and go", several_times_and_with_nodes_that_come_and_go}});
}
