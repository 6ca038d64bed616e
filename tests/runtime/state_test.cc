// Context, state lists, key-value, metrics and logs, from drivers, tasks and actors.
#include <troupe/detail/kv_swap.h>

#include <set>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ObjectRef, troupe::actor, troupe::get, troupe::runtime_context, troupe::task;

namespace {

struct Seen {
  std::string job, node, worker, task_id, actor_id, name;
  int pid = 0, attempt = 0;
  bool driver = false, cancelled = false;
  double cpus = 0;
};
Seen look() {
  auto c = runtime_context();
  return {c.job_id, c.node_id, c.worker_id, c.task_id,     c.actor_id,      c.task_name,
          c.pid,    c.attempt, c.is_driver, c.cancelled(), c.resources.cpus};
}
class Looker {
 public:
  Looker() : born_(::look()) {}
  Seen look() { return ::look(); }
  Seen born() { return born_; }
  int die() { rt::crash(); }

 private:
  Seen born_;
};
int hold(std::string started, std::string gate) {
  rt::touch(started);
  rt::wait_for_file(gate);
  return 1;
}
int plus_one(int x) { return x + 1; }
/// Asks again while a process was too slow to answer, whose rows are left out then: SQ-1, LS-1. The warnings are those
/// of the last time.
template <class List> auto from_all(std::vector<std::string>& warnings, List&& list) {
  for (;;) {
    warnings.clear();
    auto rows = list(&warnings);
    const auto is_late = [](const std::string& text) { return text.find("did not answer") != std::string::npos; };
    if (std::ranges::none_of(warnings, is_late)) return rows;
  }
}
std::string first_of(std::string key, std::string name) { return troupe::detail::kv_swap(key, std::nullopt, name); }
int kv_add(std::string key) {
  troupe::kv::put(key, "from a task");
  return int(troupe::kv::keys("task/").size());
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2, .name_space = "here"}, {
    {"the context says who runs what, where", [] {
      auto mine = look();
      CHECK(mine.driver && mine.pid == ::getpid() && mine.task_id.empty() && mine.actor_id.empty() &&
            !mine.node.empty() && !mine.cancelled);
      CHECK_EQ(runtime_context().name_space, "here");
      auto t = get(task<&look>.options({.name = "lookout", .resources = {.cpus = 0.5}}).remote());
      CHECK(!t.driver && t.pid != ::getpid() && !t.task_id.empty() && t.actor_id.empty() && t.job == mine.job &&
            t.node == mine.node && t.name == "lookout" && t.cpus == 0.5);
      auto a = actor<Looker>.options({.max_restarts = 1, .restart_backoff = {.initial = 1ms}}).remote();
      auto seen = get(a.call<&Looker::look>()), born = get(a.call<&Looker::born>());
      CHECK(seen.actor_id == a.id() && born.actor_id == a.id() && seen.attempt == 0 && !seen.task_id.empty());
      (void)troupe::try_get(a.call<&Looker::die>());
      CHECK(rt::eventually([&] {
        auto r = troupe::try_get(a.call<&Looker::look>());
        return r.ok() && r->attempt == 1;
      }));
    }},
    {"lists show what there is, with filters and limits", [] {
      rt::Folder dir;
      CHECK_EQ(troupe::nodes().size(), 1);
      CHECK(troupe::nodes()[0].state == "ALIVE" && troupe::nodes()[0].resources["CPU"] == 2);
      CHECK_EQ(troupe::list_jobs({.filter = {{"state", "RUNNING"}}}).size(), 1);
      CHECK_EQ(troupe::cluster_resources()["CPU"], 2.0);
      auto a = actor<Looker>.options({.name = "listed"}).remote();
      get(a.ready());
      auto rows = troupe::list_actors({.filter = {{"name", "listed"}}});
      CHECK(rows.size() == 1 && rows[0].state == "ALIVE" && rows[0].actor_id == a.id() &&
            rows[0].name_space == "here" && rows[0].class_name.find("Looker") != std::string::npos);
      CHECK(troupe::list_actors({.filter = {{"name", "nobody"}}}).empty());
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::list_actors({.filter = {{"no such column", "x"}}}));
      CHECK(troupe::list_actors({.limit = 0}).empty());
      auto t = task<&hold>.options({.name = "held"}).remote(dir / "s", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "s"); }));
      // Again where a process was too slow to answer: its rows are left out.
      CHECK(rt::eventually([] {
        const auto tasks = troupe::list_tasks({.filter = {{"name", "held"}}});
        return tasks.size() == 1 && tasks[0].state == "RUNNING" && tasks[0].pid > 0;
      }));
      rt::touch(dir / "gate");
      get(t);
      CHECK(rt::eventually([] {
        auto rows = troupe::list_tasks({.filter = {{"name", "held"}}});
        return rows.size() == 1 && rows[0].state == "FINISHED";
      }));
      auto kept = troupe::put(std::string(1000, 'x'));
      CHECK(rt::eventually([&] {
        const auto objects = troupe::list_objects({.filter = {{"object_id", kept.id()}}});
        return objects.size() == 1 && objects[0].size >= 1000;
      }));
      CHECK(troupe::list_workers().size() >= 1);
      CHECK(troupe::list_placement_groups().empty());
      troupe::kill(a);
      CHECK(rt::eventually([] {
        auto rows = troupe::list_actors({.filter = {{"name", "listed"}}});
        return rows.empty() || rows[0].state == "DEAD";
      }));
    }},
    {"actors whose calls have succeeded are in the list, however many and however soon", [] {
      for (int round = 0; round < 5; ++round) {
        std::vector<troupe::ActorHandle<Looker>> lights;
        std::vector<ObjectRef<Seen>> seen;
        for (int i = 0; i < 200; ++i)
          lights.push_back(actor<Looker>.options({.isolation = troupe::Isolation::kLight}).remote());
        for (auto& light : lights) seen.push_back(light.call<&Looker::look>());
        for (auto& one : seen) get(one);
        std::set<std::string> listed;
        std::vector<std::string> missing;
        const auto rows = from_all(missing, [](auto* warnings) {
          return troupe::list_actors({.filter = {{"state", "ALIVE"}}, .warnings = warnings});
        });
        for (const auto& row : rows) listed.insert(row.actor_id);
        for (auto& light : lights) CHECK(listed.contains(light.id()));
      }
    }},
    // REVIEW H.17: at f0736ec such a list took long, and one that was cut off looked complete.
    {"of many tasks and objects a list gives as many as were asked for, and says what it leaves out", [] {
      constexpr int kMany = 20'000;
      rt::Folder dir;
      auto gate = task<&hold>.remote(dir / "s", dir / "gate");
      std::vector<ObjectRef<int>> waiting;
      for (int i = 0; i < kMany; ++i) waiting.push_back(task<&plus_one>.remote(gate));
      std::vector<std::string> missing;
      const auto tasks = [&missing](troupe::ListOptions options) {
        return from_all(missing, [options](auto* warnings) mutable {
          options.warnings = warnings;
          return troupe::list_tasks(options).size();
        });
      };
      CHECK_EQ(tasks({.limit = 100}), 100u);
      CHECK(missing.empty());
      CHECK_EQ(tasks({.filter = {{"name", "nobody"}}}), 0u);
      CHECK(missing.empty());
      CHECK_EQ(tasks({.filter = {{"state", "PENDING_ARGUMENTS"}}}), 10'000u);
      CHECK(missing.size() == 1 && missing[0].find("10000 of 20000") != std::string::npos);
      const auto pending = from_all(missing, [](auto* warnings) {
        return troupe::list_objects({.filter = {{"state", "PENDING"}}, .limit = 15'000, .warnings = warnings});
      });
      CHECK_EQ(pending.size(), 10'000u);
      CHECK_EQ(missing.size(), 1);
      rt::touch(dir / "gate");
      CHECK_EQ(get(waiting.back()), 2);
    }},
    {"key-value: put, get, delete, sorted keys, odd keys and large values, from everywhere", [] {
      CHECK(!troupe::kv::get("none"));
      CHECK(!troupe::kv::del("none"));
      troupe::kv::put("a/2", "two");
      troupe::kv::put("a/1", "one");
      troupe::kv::put("b", "");
      CHECK(troupe::kv::keys("a/") == std::vector<std::string>({"a/1", "a/2"}));
      CHECK(troupe::kv::get("a/1") == "one" && troupe::kv::get("b") == "");
      troupe::kv::put("a/1", "new");
      CHECK(troupe::kv::get("a/1") == "new" && troupe::kv::del("a/1") && !troupe::kv::get("a/1"));
      const std::string odd("odd\0key\xff", 8), large(3 << 20, 'v');
      troupe::kv::put(odd, large);
      CHECK(troupe::kv::get(odd) == large);
      CHECK_EQ(get(task<&kv_add>.remote(std::string("task/1"))), 1);
      CHECK(troupe::kv::get("task/1") == "from a task");
    }},
    {"of many processes that put a key where there was none, all hear of the same one", [] {
      std::vector<ObjectRef<std::string>> said;
      for (int i = 0; i < 8; ++i)
        said.push_back(task<&first_of>.remote(std::string("swap"), "task " + std::to_string(i)));
      const std::string winner = troupe::kv::get("swap").value_or(get(said.front()));
      for (const std::string& one : get(said)) CHECK_EQ(one, winner);
      CHECK_EQ(troupe::detail::kv_swap("swap", winner, "next"), "next");
      CHECK_EQ(troupe::detail::kv_swap("swap", winner, "late"), "next");
    }},
    {"metrics and logs take anything that makes sense and refuse the rest", [] {
      troupe::metrics::Counter("c").inc();
      troupe::metrics::Counter("c").inc(2.5);
      troupe::metrics::Gauge("g").set(-1);
      troupe::metrics::Histogram("h", {1, 2, 5}).observe(3);
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::metrics::Counter("c").inc(-1));
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::metrics::Gauge("c").set(1));
      get(troupe::submit([] {
        troupe::log::info("from a task {} %s");
        troupe::log::warn(std::string(100000, 'x').substr(0, 2000));
      }));
    }},
  });
}
