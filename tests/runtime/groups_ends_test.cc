// Groups of actors when more than one member goes: a whole node, the process that formed the group, a rank that is
// frozen in the middle of an operation and comes back. All others hear of it by name, nothing hangs, and the group is
// formed again.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "groups_nodes.h"

using namespace rt;

namespace {

struct Placement {
  const char* name;
  std::vector<int> nodes;  // of the ranks
};
const std::vector<Placement> kPlacements = {{"shm", {1, 1, 1}}, {"tcp", {0, 1, 2}}, {"hier", {1, 2, 2}}};

/// What a rank said of the death of some: it names one of them at least, and nobody else.
void check_names(const Said& said, const std::vector<int>& dead) {
  CHECK_EQ(said.reason, "a member died");
  CHECK(!said.missing.empty());
  for (int rank : said.missing) CHECK(std::ranges::find(dead, rank) != dead.end());
}

/// A node of its own, so that it may die. Its place among node_ids().
int new_node() {
  node_ids().push_back(cluster->add_node({.cpus = 32}).id());
  return int(node_ids().size()) - 1;
}

// --------------------------------------------------------------------------------------------------------------- nodes

void a_node_dies(const char* name, const std::vector<int>& nodes, int doomed, bool inside) {
  Folder folder;
  Ranks ranks = ranks_on(nodes), left;
  std::vector<int> dead;
  tc::create_group(ranks, {.name = name, .timeout = 60s});
  check_sums(ranks, name);
  const auto broken = tc::broken(name);
  std::vector<ObjectRef<Said>> said;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (nodes[r] == doomed) dead.push_back(int(r));
    else left.push_back(ranks[r]);
    if (inside) said.push_back(ranks[r].call<&Rank::works>(std::string(name), folder / "a"));
  }
  if (inside) CHECK(eventually([&] { return std::size_t(count(folder / "a")) == ranks.size(); }));
  const double start = now();
  cluster->node(std::size_t(doomed)).kill();
  if (!inside) said = all<&Rank::waits>(left, std::string(name), folder / "b");
  for (std::size_t r = 0, i = 0; r < ranks.size(); ++r) {
    if (nodes[r] == doomed) continue;
    check_names(get(said[inside ? r : i++], {.timeout = 50s}), dead);
  }
  // Nor here all: who ends later than 0.25 s after the first is not waited for (TL-3; tests/collective/links_test.cc).
  const auto named = get(broken, {.timeout = 50s}).missing_ranks;
  CHECK(!named.empty() && std::ranges::includes(dead, named));
  CHECK(now() - start < 40);  // the deadline of 60 s was not what ended it
  tc::reform(name, left);
  check_sums(left, name);
  tc::destroy_group(name);
}

void a_node_dies_in_an_operation() {
  const int third = new_node();
  a_node_dies("tcp-node", {0, 1, third}, third, true);
  const int fourth = new_node();
  a_node_dies("hier-node", {fourth, 0, fourth, 1, 1}, fourth, true);
}
void a_node_dies_outside_an_operation() {
  const int doomed = new_node();
  a_node_dies("idle-node", {0, doomed, 2, doomed}, doomed, false);
}

// ------------------------------------------------------------------------------------------------------------- founder

/// An actor that is no member forms the group, and is gone.
void the_founder_dies() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-founder";
    Ranks ranks = ranks_on(p.nodes), founder = ranks_on({0});
    get(founder[0].call<&Rank::create>(name, ranks));
    check_sums(ranks, name);
    ::kill(pid_of(founder[0]), SIGKILL);
    CHECK_THROWS(troupe::Error, pid_of(founder[0]));
    check_sums(ranks, name);
    // A death that nobody tells is seen by those who work with it.
    auto working = all<&Rank::works>(ranks, name, folder / "a");
    CHECK(eventually([&] { return count(folder / "a") == 3; }));
    ::kill(pid_of(ranks[0]), SIGKILL);
    for (int r : {1, 2}) check_names(get(working[std::size_t(r)], {.timeout = 20s}), {0});
    // Another process goes on.
    CHECK_THROWS(troupe::NotFoundError, tc::broken(name));
    ranks[0] = ranks_on({p.nodes[0]})[0];
    get(ranks[1].call<&Rank::reform>(name, ranks));
    check_sums(ranks, name);
    tc::reform(name, ranks);
    CHECK_EQ(get(ranks[2].call<&Rank::facts>(name)).epoch, 3u);
    check_sums(ranks, name);
    tc::destroy_group(name);
    CHECK_THROWS(troupe::NotFoundError, tc::destroy_group(name));
  }
}

/// No founder watches the actors, and no socket or memory of that rank has ever been there to end: the others hear of
/// it from their daemons, those that wait as those that come afterwards. Nearer than their deadline, and than the ten
/// seconds for which a daemon keeps a connection to a rank that does not come.
void without_a_founder_a_rank_dies_that_never_came() {
  for (const Placement& p : kPlacements)
    for (const int doomed : {2, 1, 0})
      for (const bool late : {false, true}) {
        Folder folder;
        const std::string name = std::string(p.name) + "-absent" + std::to_string(doomed) + (late ? "-late" : "");
        Ranks ranks = ranks_on(p.nodes), founder = ranks_on({0}), others;
        get(founder[0].call<&Rank::create>(name, ranks));
        ::kill(pid_of(founder[0]), SIGKILL);
        CHECK_THROWS(troupe::Error, pid_of(founder[0]));
        for (int r = 0; r < 3; ++r)
          if (r != doomed) others.push_back(ranks[std::size_t(r)]);
        const int victim = pid_of(ranks[std::size_t(doomed)]);
        std::vector<ObjectRef<Said>> waiting;
        if (!late) {
          waiting = all<&Rank::waits>(others, name, folder / "a");
          CHECK(eventually([&] { return count(folder / "a") == 2; }));
        }
        ::kill(victim, SIGKILL);
        CHECK_THROWS(troupe::Error, pid_of(ranks[std::size_t(doomed)]));
        if (late) waiting = all<&Rank::waits>(others, name, folder / "a");
        for (const auto& one : waiting) {
          const auto said = troupe::try_get(one, {.timeout = 40s});
          CHECK(said.ok());
          if (!said.ok()) continue;
          CHECK_EQ(said->reason, "a member died");
          CHECK(said->missing == std::vector{doomed});
        }
        tc::destroy_group(name);
      }
}

void a_group_without_its_founder_is_destroyed() {
  Ranks ranks = ranks_on({1, 2, 2}), founder = ranks_on({0});
  get(founder[0].call<&Rank::create>(std::string("orphan"), ranks));
  get(all<&Rank::hold>(ranks, std::string("orphan")));
  ::kill(pid_of(founder[0]), SIGKILL);
  tc::destroy_group("orphan");
  for (const Said& said : get(all<&Rank::use_held>(ranks), {.timeout = 40s})) CHECK_EQ(said.reason, "stale handle");
  get(all<&Rank::let_go>(ranks));
  tc::create_group(ranks, {.name = "orphan"});  // the name is free
  check_sums(ranks, "orphan");
  tc::destroy_group("orphan");
}

/// It dies while it waits for the answer of a member that is frozen: before the record is there (the member makes the
/// memory), or after.
void the_founder_dies_while_it_forms() {
  for (const Placement& p : kPlacements)
    for (const int frozen : {0, 2}) {
      const std::string name = std::string(p.name) + "-half" + std::to_string(frozen);
      Ranks ranks = ranks_on(p.nodes), founder = ranks_on({0});
      const int pid = pid_of(ranks[std::size_t(frozen)]), its = pid_of(founder[0]);
      CHECK_EQ(get(all<&Rank::pid>(ranks)).size(), 3u);
      CHECK(freeze(pid));
      auto forming = founder[0].call<&Rank::create>(name, ranks);
      CHECK(!troupe::try_get(forming, {.timeout = 2s}).ok());  // it waits
      ::kill(its, SIGKILL);
      ::kill(pid, SIGCONT);
      CHECK_THROWS(troupe::Error, get(forming, {.timeout = 40s}));
      const Said made = what_it_says([&] { tc::create_group(ranks, {.name = name}); });
      if (!made.ok()) {  // the record was there
        CHECK(made.text.find("already") != std::string::npos);
        tc::reform(name, ranks);
      }
      check_sums(ranks, name);
      tc::destroy_group(name);
    }
}

int memories_of(int pid) {
  int count = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(one, gone).string().starts_with("/memfd:troupe-collective");
  }
  return count;
}

/// GA-3: one of two makers has made its memory, and the other one dies before it has.
void a_maker_of_memory_dies_while_the_group_is_formed() {
  Ranks ranks = ranks_on({1, 1, 2, 2});
  const auto founder = ranks_on({0})[0];
  CHECK(pid_of(founder) > 0);
  const int maker = pid_of(ranks[0]), other = pid_of(ranks[2]), before = memories_of(maker);
  CHECK(freeze(other));
  const auto forming = founder.call<&Rank::create>(std::string("makers"), ranks);
  CHECK(eventually([&] { return memories_of(maker) == before + 1; }));
  ::kill(other, SIGKILL);
  const auto error = CHECK_THROWS(troupe::CollectiveError, get(forming, {.timeout = 40s}));
  if (error) CHECK(error->missing_ranks() == std::vector{2});
  CHECK(eventually([&] { return memories_of(maker) == before; }));
  ranks[2] = ranks_on({2})[0];
  tc::create_group(ranks, {.name = "makers"});
  check_sums(ranks, "makers");
  tc::destroy_group("makers");
}

// -------------------------------------------------------------------------------------------------------------- frozen

/// In the middle of operations that follow each other; it comes back as the same member.
void frozen_in_an_operation_and_back() {
  for (const Placement& p : kPlacements)
    for (const int frozen : {0, 2}) {
      Folder folder;
      const std::string name = std::string(p.name) + "-back" + std::to_string(frozen);
      Ranks ranks = ranks_on(p.nodes);
      tc::create_group(ranks, {.name = name, .timeout = 5s});
      const int victim = pid_of(ranks[std::size_t(frozen)]);
      auto working = all<&Rank::works>(ranks, name, folder / "a");
      CHECK(eventually([&] { return count(folder / "a") == 3; }));
      ::kill(victim, SIGSTOP);
      for (int r = 0; r < 3; ++r) {
        if (r == frozen) continue;
        const Said said = get(working[std::size_t(r)], {.timeout = 40s});
        CHECK_EQ(said.reason, "timeout");
        CHECK(said.missing == std::vector{frozen});
        CHECK(said.text.find(name) != std::string::npos);
      }
      // With it there is no next epoch yet.
      if (frozen == 2) {
        const Said refused = what_it_says([&] { tc::reform(name, ranks); });
        CHECK_EQ(refused.reason, "timeout");
        CHECK(refused.missing == std::vector{2});
      }
      ::kill(victim, SIGCONT);
      const Said late = get(working[std::size_t(frozen)], {.timeout = 40s});
      CHECK(late.reason == "timeout" || late.reason == "stale handle");
      tc::reform(name, ranks);
      check_sums(ranks, name);
      tc::destroy_group(name);
    }
}

/// A member that lives and never comes, and one that comes to something else.
void who_never_comes_and_who_comes_elsewhere() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-away";
    Ranks ranks = ranks_on(p.nodes);
    tc::create_group(ranks, {.name = name, .timeout = 5s});
    for (const int away : {2, 0}) {
      std::vector<ObjectRef<Said>> waiting;
      for (int r = 0; r < 3; ++r)
        if (r != away) waiting.push_back(ranks[std::size_t(r)].call<&Rank::waits>(name, folder / "a"));
      for (const Said& said : get(waiting, {.timeout = 40s})) {
        CHECK_EQ(said.reason, "timeout");
        CHECK(said.missing == std::vector{away});
      }
      CHECK_EQ(get(ranks[std::size_t(away)].call<&Rank::waits>(name, folder / "b"), {.timeout = 40s}).reason,
               "timeout");
      tc::reform(name, ranks);
    }
    for (int how = 0; how < 4; ++how) {
      for (const Said& said : get(all<&Rank::disagrees>(ranks, name, how), {.timeout = 40s})) {
        CHECK_EQ(said.reason, "the ranks disagree");
        CHECK(said.text.find("rank 2 called") != std::string::npos && said.text.find(name) != std::string::npos);
        CHECK(how != 3 || said.text.find("differ at index 1") != std::string::npos);
      }
      tc::reform(name, ranks);
    }
    check_sums(ranks, name);
    tc::destroy_group(name);
  }
}

/// Formed again, or destroyed, under operations: their ranks hear that, and two members that die together leave the
/// others whole.
void ended_under_operations() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-under";
    Ranks ranks = ranks_on(p.nodes);
    const auto ends_by = [&](const std::string& file, const std::function<void()>& end) {
      const auto working = all<&Rank::works>(ranks, name, folder / file);
      CHECK(eventually([&] { return count(folder / file) == 3; }));
      end();
      for (const Said& said : get(working, {.timeout = 40s})) CHECK_EQ(said.reason, "stale handle");
    };
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    ends_by("a", [&] { tc::reform(name, Ranks{ranks[1], ranks[2], ranks[0]}); });
    CHECK_EQ(get(ranks[1].call<&Rank::facts>(name)).rank, 0);
    ends_by("b", [&] { get(ranks[1].call<&Rank::reform>(name, ranks)); });
    ends_by("c", [&] { tc::destroy_group(name); });

    tc::create_group(ranks, {.name = name, .timeout = 60s});
    const int one = pid_of(ranks[0]), two = pid_of(ranks[2]);
    auto working = all<&Rank::works>(ranks, name, folder / "d");
    CHECK(eventually([&] { return count(folder / "d") == 3; }));
    ::kill(one, SIGKILL);
    ::kill(two, SIGKILL);
    check_names(get(working[1], {.timeout = 20s}), {0, 2});
    CHECK_THROWS(troupe::Error, tc::reform(name, ranks));  // with the dead
    tc::reform(name, Ranks{ranks[1]});
    check_sums({ranks[1]}, name);
    tc::destroy_group(name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_groups(argc, argv,
                    {{"a node dies in an operation", a_node_dies_in_an_operation},
                     {"a node dies outside an operation", a_node_dies_outside_an_operation},
                     {"the founder dies, and the group goes on", the_founder_dies},
                     {"without a founder, a rank dies that never came", without_a_founder_a_rank_dies_that_never_came},
                     {"a group without its founder is destroyed", a_group_without_its_founder_is_destroyed},
                     {"the founder dies while it forms the group", the_founder_dies_while_it_forms},
                     {"GA-3: a maker of memory dies while the group is formed",
                      a_maker_of_memory_dies_while_the_group_is_formed},
                     {"a rank is frozen in an operation, and comes back", frozen_in_an_operation_and_back},
                     {"who never comes, and who comes to something else", who_never_comes_and_who_comes_elsewhere},
                     {"a group ends under operations", ended_under_operations}},
                    180, {.nodes = {{.cpus = 64}, {.cpus = 64}, {.cpus = 64}}});
}
