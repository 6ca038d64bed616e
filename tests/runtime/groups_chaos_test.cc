// Groups of actors as a sceptic would treat them: one misfortune after the other on the same actors, a node frozen, a
// founder that is a member and dies early, ranks in one process. Every call ends with a result or a typed error that
// blames nobody who is well, and afterwards the group is formed again.
#include <algorithm>
#include <random>

#include "groups_nodes.h"

using namespace rt;

namespace {

bool is_typed(const Said& said) {
  static const std::vector<std::string> known = {"a member died", "timeout", "aborted", "stale handle",
                                                 "the ranks disagree"};
  return std::ranges::find(known, said.reason) != known.end();
}

/// What a call of a rank came to, if it did not die meanwhile.
std::optional<Said> came_to(const ObjectRef<Said>& call) {
  try {
    return get(call, {.timeout = 60s});
  } catch (const troupe::GetTimeoutError&) {
    CHECK(!"a rank hangs");
  } catch (const troupe::Error&) {
  }
  return std::nullopt;
}

/// Something happens to one rank under operations, at some moment. Who must not be named by the others comes back.
void chaos(const std::vector<int>& nodes, unsigned seed) {
  std::mt19937 random(seed);
  Folder folder;
  const std::string name = "chaos" + std::to_string(seed);
  Ranks ranks = ranks_on(nodes);
  tc::create_group(ranks, {.name = name, .timeout = 4s});
  for (int round = 0; round < 12; ++round) {
    const auto file = folder / std::to_string(round);
    const std::size_t victim = random() % ranks.size();
    const unsigned what = random() % 4;
    const int pid = pid_of(ranks[victim]);
    auto working = all<&Rank::works>(ranks, name, file);
    // Also before all have come: then those that are late find the group failed.
    CHECK(eventually([&] { return count(file) >= int(round % 2 == 0 ? ranks.size() : 0); }));
    // But a call that is later than a reform takes the group that it makes, and waits there for who does not come.
    if (what == 3) CHECK(eventually([&] { return count(file + ".member") == int(ranks.size()); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 15));
    if (what == 0) ::kill(pid, SIGKILL);
    if (what == 1) ::kill(pid, SIGSTOP);
    if (what == 2) ranks[victim].cast<&Rank::abort>(name, std::string("chaos"));
    if (what == 3) tc::reform(name, ranks);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (r == victim && what == 1) continue;
      const auto said = what == 3 ? std::nullopt : came_to(working[r]);
      CHECK(said || r == victim || what == 3);
      if (!said) continue;
      if (!CHECK(is_typed(*said)))
        std::fprintf(stderr, "  round %d, what %u: %s: %s\n", round, what, said->reason.c_str(), said->text.c_str());
      for (int named : said->missing)
        if (!CHECK_EQ(std::size_t(named), victim))
          std::fprintf(stderr, "  round %d, what %u, rank %zu: %s\n", round, what, r, said->text.c_str());
    }
    if (what == 1) ::kill(pid, SIGCONT), CHECK(came_to(working[victim]).has_value());
    if (what == 0) ranks[victim] = ranks_on({nodes[victim]})[0];
    tc::reform(name, ranks);
    if (what == 3)
      for (const auto& one : working)
        if (const auto said = came_to(one)) CHECK_EQ(said->reason, "stale handle");
    check_sums(ranks, name);
  }
  tc::destroy_group(name);
}

void misfortunes_in_memory() { chaos({1, 1, 1, 1}, 1); }
void misfortunes_on_sockets() { chaos({0, 1, 2}, 2); }
void misfortunes_on_both() { chaos({0, 1, 0, 2, 1}, 3); }

/// A node stands still for a while: its ranks are named at the deadline, and are members of the next epoch. All but its
/// daemon: after 4 s of that one's silence the node would be dead.
void a_node_is_frozen_for_a_while() {
  Folder folder;
  Ranks ranks = ranks_on({0, 1, 2, 2});
  tc::create_group(ranks, {.name = "still", .timeout = 4s});
  const std::vector frozen{pid_of(ranks[2]), pid_of(ranks[3])};
  auto working = all<&Rank::works>(ranks, std::string("still"), folder / "a");
  CHECK(eventually([&] { return count(folder / "a") == 4; }));
  const int daemon = cluster->node(2).pids().front();
  cluster->node(2).freeze();
  ::kill(daemon, SIGCONT);
  for (int pid : frozen) CHECK(freeze(pid));  // none of them runs any more
  for (int r : {0, 1}) {
    const Said said = get(working[std::size_t(r)], {.timeout = 40s});
    CHECK_EQ(said.reason, "timeout");
    CHECK(!said.missing.empty() && std::ranges::all_of(said.missing, [](int rank) { return rank >= 2; }));
  }
  cluster->node(2).thaw();
  for (int r : {2, 3}) CHECK(!get(working[std::size_t(r)], {.timeout = 40s}).ok());
  tc::reform("still", ranks);
  check_sums(ranks, "still");
  tc::destroy_group("still");
}

/// The founder is rank 0 and dies before the others have looked: nobody tells them, and yet they hear by the deadline.
void a_founder_that_is_a_member_dies_early() {
  for (const std::vector<int>& nodes : {std::vector{1, 1, 1}, std::vector{0, 1, 2}, std::vector{1, 1, 2}}) {
    Folder folder;
    const std::string name = "early" + std::to_string(nodes[0]) + std::to_string(nodes[2]);
    Ranks ranks = ranks_on(nodes);
    get(ranks[0].call<&Rank::create_as>(name, ranks, int(tc::Backend::kAuto)));
    ::kill(pid_of(ranks[0]), SIGKILL);
    CHECK_THROWS(troupe::Error, pid_of(ranks[0]));
    const double start = now();
    for (int r : {1, 2}) {
      const Said said = get(ranks[std::size_t(r)].call<&Rank::waits>(name, folder / "a"), {.timeout = 60s});
      CHECK(said.reason == "a member died" || said.reason == "timeout");
      if (!CHECK(said.missing == std::vector{0})) std::fprintf(stderr, "  %s\n", said.text.c_str());
    }
    CHECK(now() - start < 55);
    ranks.erase(ranks.begin());
    tc::reform(name, ranks);
    check_sums(ranks, name);
    tc::destroy_group(name);
  }
}

/// Ranks that are light actors of one process, with another process: that process takes all of its ranks along.
void light_ranks_die_together() {
  Folder folder;
  Ranks ranks;
  for (int i = 0; i < 2; ++i)
    ranks.push_back(troupe::actor<Rank>.options({.max_concurrency = 2, .isolation = troupe::Isolation::kLight,
        .scheduling = troupe::NodeAffinity{node_ids()[1], false}}).remote());
  for (const auto& one : ranks_on({1, 1})) ranks.push_back(one);
  tc::create_group(ranks, {.name = "light", .timeout = 20s});
  check_sums(ranks, "light");
  const int pid = pid_of(ranks[0]);
  auto working = all<&Rank::waits>(Ranks{ranks[2], ranks[3]}, std::string("light"), folder / "a");
  CHECK(eventually([&] { return count(folder / "a") == 2; }));
  ::kill(pid, SIGKILL);
  for (const Said& said : get(working, {.timeout = 40s})) {
    CHECK_EQ(said.reason, "a member died");
    CHECK(!said.missing.empty() && std::ranges::all_of(said.missing, [](int rank) { return rank < 2; }));
  }
  tc::reform("light", Ranks{ranks[3], ranks[2]});
  check_sums({ranks[3], ranks[2]}, "light");
  tc::destroy_group("light");
}

}  // namespace

int main(int argc, char** argv) {
  return run_groups(argc, argv,
                    {{"one misfortune after the other, in memory", misfortunes_in_memory},
                     {"one misfortune after the other, on sockets", misfortunes_on_sockets},
                     {"one misfortune after the other, on both", misfortunes_on_both},
                     {"light ranks die together", light_ranks_die_together},
                     {"a founder that is a member dies early", a_founder_that_is_a_member_dies_early},
                     {"a node is frozen for a while", a_node_is_frozen_for_a_while}},
                    240, {.nodes = {{.cpus = 64}, {.cpus = 64}, {.cpus = 64}}});
}
