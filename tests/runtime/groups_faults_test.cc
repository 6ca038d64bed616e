// Groups of actors on several nodes when a member dies, freezes, is restarted, says something else than the others, or
// gives up: all others hear of it, by name, and the group is formed again.
#include "groups_nodes.h"

using namespace rt;

namespace {

using tc::Backend;

struct Placement {
  const char* name;
  std::vector<int> nodes;
};
const std::vector<Placement> kPlacements = {{"shm", {1, 1, 1}}, {"tcp", {0, 1, 2}}, {"hier", {1, 2, 2}}};

bool has(const Said& said, const std::string& word) { return said.text.find(word) != std::string::npos; }

/// GR-2 on every placement: a member that dies is named on all others, whatever it did at that moment; then the group
///      is formed
/// again without it, and once more with another in its place.
void deaths() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = p.name;
    Ranks ranks = ranks_on(p.nodes);
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    const auto broken = tc::broken(name);
    // before it has entered
    std::vector<ObjectRef<Said>> waiting{ranks[0].call<&Rank::waits>(name, folder / "a"),
                                         ranks[1].call<&Rank::waits>(name, folder / "a")};
    CHECK(eventually([&] { return count(folder / "a") == 2; }));
    ::kill(pid_of(ranks[2]), SIGKILL);
    for (const Said& said : get(waiting, {.timeout = 40s})) {
      CHECK_EQ(said.reason, "a member died");
      CHECK(said.missing == std::vector{2});
    }
    CHECK(get(broken, {.timeout = 40s}).missing_ranks == std::vector{2});
    // survivors
    ranks.pop_back();
    tc::reform(name, ranks);
    check_sums(ranks, name);
    // a replacement
    ranks.push_back(ranks_on({p.nodes[2]})[0]);
    tc::reform(name, ranks);
    CHECK_EQ(get(ranks[2].call<&Rank::facts>(name)).epoch, 3u);
    check_sums(ranks, name);
    // in the middle
    auto working = all<&Rank::works>(ranks, name, folder / "b");
    CHECK(eventually([&] { return count(folder / "b") == 3; }));
    ::kill(pid_of(ranks[1]), SIGKILL);
    for (int r : {0, 2}) {
      const Said said = get(working[std::size_t(r)], {.timeout = 40s});
      CHECK_EQ(said.reason, "a member died");
      CHECK(said.missing == std::vector{1});
    }
    tc::destroy_group(name);
  }
}

/// CEP-6: where every rank holds a GPU (here: of the runtime alone), group() itself waits for all. Whoever waits there,
/// and without a deadline, hears that a member died before it came, that the group was formed again, and that it was
/// destroyed.
void who_is_entering_hears_of_the_end() {
  const std::vector<Placement> placements = {{"shm", {0, 0}}, {"tcp", {0, 1}}, {"hier", {0, 0, 1}}};
  for (const Placement& p : placements)
    for (const std::string end : {"failed", "reformed", "destroyed"}) {
      Folder folder;
      const std::string name = std::string(p.name) + "-entering-" + end;
      Ranks ranks;
      for (int node : p.nodes)
        ranks.push_back(troupe::actor<Rank>.options({.resources = {.gpus = 1}, .max_concurrency = 2,
            .scheduling = troupe::NodeAffinity{node_ids()[std::size_t(node)], false},
            .env = {.env_vars = {{"TROUPE_CUDA_LIB", "/nowhere/libtroupe_cuda.so"}}}}).remote());
      const int first = pid_of(ranks[0]);
      tc::create_group(ranks, {.name = name, .timeout = 60s});
      const auto broken = tc::broken(name);
      const Ranks others(ranks.begin() + 1, ranks.end());
      const auto entering = all<&Rank::hold_for_ever>(others, name, folder / "a");
      CHECK(eventually([&] { return count(folder / "a") == int(others.size()); }));
      for (const auto& rank : others) CHECK(pid_of(rank) > 0);  // its other fiber waits for the first rank by now
      if (end != "destroyed") {
        ::kill(first, SIGKILL);
        CHECK(get(broken, {.timeout = 40s}).missing_ranks == std::vector{0});
      }
      if (end == "reformed") tc::reform(name, others);
      if (end == "destroyed") tc::destroy_group(name);
      CHECK(get(entering, {.timeout = 40s}) == std::vector<std::uint64_t>(others.size(), 1));
      for (const Said& said : get(all<&Rank::use_held>(others), {.timeout = 40s}))
        CHECK_EQ(said.reason, end == "failed" ? "a member died" : "stale handle");
      if (end != "destroyed") {
        if (end == "failed") tc::reform(name, others);
        check_sums(others, name);
        tc::destroy_group(name);
      }
    }
}

/// GA-2: an actor that comes back is not the member that it was.
void restarts() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-restart";
    Ranks ranks = ranks_on(p.nodes, 5);
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    auto waiting = ranks[0].call<&Rank::waits>(name, folder / "a");
    CHECK(eventually([&] { return count(folder / "a") == 1; }));
    ranks[1].cast<&Rank::crash>();  // it has never entered
    const Said said = get(waiting, {.timeout = 40s});
    CHECK_EQ(said.reason, "a member died");
    CHECK(said.missing == std::vector{1});
    const Said own = get(ranks[1].call<&Rank::waits>(name, folder / "b"), {.timeout = 40s});
    CHECK_EQ(own.reason, "a member died");
    tc::reform(name, ranks);
    check_sums(ranks, name);
    tc::destroy_group(name);
  }
}

/// CEP-2: the next life of a light actor begins in the process where the one before had entered. With the founder gone,
/// nobody else can tell the others.
void a_light_member_is_restarted() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-light";
    Ranks ranks = ranks_on(p.nodes);
    ranks[1] = troupe::actor<Rank>.options({.max_restarts = 5, .max_concurrency = 2,
        .isolation = troupe::Isolation::kLight,
        .scheduling = troupe::NodeAffinity{node_ids()[std::size_t(p.nodes[1])], false}}).remote();
    const auto founder = troupe::actor<Rank>.remote();
    get(founder.call<&Rank::create>(name, ranks), {.timeout = 40s});
    check_sums(ranks, name);
    const int founder_pid = pid_of(founder), pid = pid_of(ranks[1]);
    ::kill(founder_pid, SIGKILL);
    CHECK(eventually([&] { return ::kill(founder_pid, 0) != 0; }));
    check_sums(ranks, name);
    troupe::kill(ranks[1], {.restart = true});
    CHECK_EQ(pid_of(ranks[1]), pid);
    for (int turn = 0; turn < 2; ++turn) {
      const Said own = get(ranks[1].call<&Rank::waits>(name, folder / "a"), {.timeout = 40s});
      CHECK_EQ(own.reason, "a member died");
      CHECK(own.missing == std::vector{1});
    }
    for (int r : {0, 2}) {
      const Said said = get(ranks[std::size_t(r)].call<&Rank::waits>(name, folder / "b"), {.timeout = 40s});
      CHECK_EQ(said.reason, "a member died");
      CHECK(said.missing == std::vector{1});
    }
    tc::reform(name, ranks);
    check_sums(ranks, name);
    tc::destroy_group(name);
  }
}

void a_frozen_rank_is_named_at_the_deadline() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-frozen";
    Ranks ranks = ranks_on(p.nodes);
    tc::create_group(ranks, {.name = name, .timeout = 3s});
    check_sums(ranks, name);
    const int pid = pid_of(ranks[1]);
    ::kill(pid, SIGSTOP);
    std::vector<ObjectRef<Said>> waiting{ranks[0].call<&Rank::waits>(name, folder / "a"),
                                         ranks[2].call<&Rank::waits>(name, folder / "a")};
    for (const Said& said : get(waiting, {.timeout = 40s})) {
      CHECK_EQ(said.reason, "timeout");
      CHECK(said.missing == std::vector{1});
    }
    tc::reform(name, Ranks{ranks[2], ranks[0]});
    check_sums({ranks[2], ranks[0]}, name);
    ::kill(pid, SIGCONT);
    CHECK(!get(ranks[1].call<&Rank::waits>(name, folder / "b"), {.timeout = 40s}).ok());  // it is no member any more
    tc::destroy_group(name);
  }
}

void words_that_end_a_group() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-words";
    Ranks ranks = ranks_on(p.nodes);
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    // different operations: both signatures, on all
    for (const Said& said : get(all<&Rank::mismatch>(ranks, name), {.timeout = 40s})) {
      CHECK_EQ(said.reason, "the ranks disagree");
      CHECK(has(said, "100") && has(said, "200"));
    }
    tc::reform(name, ranks);
    // abort
    std::vector<ObjectRef<Said>> waiting{ranks[0].call<&Rank::waits>(name, folder / "a"),
                                         ranks[1].call<&Rank::waits>(name, folder / "a")};
    CHECK(eventually([&] { return count(folder / "a") == 2; }));
    auto broken = tc::broken(name);
    get(ranks[2].call<&Rank::abort>(name, std::string("enough")));
    for (const Said& said : get(waiting, {.timeout = 40s})) {
      CHECK_EQ(said.reason, "aborted");
      CHECK(has(said, "enough"));
    }
    CHECK(get(broken, {.timeout = 40s}).reason.find("enough") != std::string::npos);
    tc::reform(name, ranks);
    // the cancel of a call
    waiting = {ranks[0].call<&Rank::waits>(name, folder / "c"), ranks[1].call<&Rank::waits>(name, folder / "c")};
    CHECK(eventually([&] { return count(folder / "c") == 2; }));
    troupe::cancel(waiting[0]);
    CHECK_EQ(get(waiting[1], {.timeout = 40s}).reason, "aborted");
    // an older handle, after the next epoch
    tc::reform(name, ranks);
    get(all<&Rank::hold>(ranks, name));
    tc::reform(name, ranks);
    for (const Said& said : get(all<&Rank::use_held>(ranks), {.timeout = 40s})) CHECK_EQ(said.reason, "stale handle");
    get(all<&Rank::let_go>(ranks));
    check_sums(ranks, name);
    tc::destroy_group(name);
  }
}

/// A rank inside a method waits for the next epoch, which the driver forms meanwhile.
void waiting_for_the_next_epoch() {
  for (const Placement& p : kPlacements) {
    const std::string name = std::string(p.name) + "-next";
    Ranks ranks = ranks_on(p.nodes);
    auto early = all<&Rank::sum>(ranks, name, 100, std::uint64_t(0));  // before there is a group
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    CHECK(get(early, {.timeout = 40s}) == std::vector<double>(3, 6));
    auto next = all<&Rank::sum>(ranks, name, 100, std::uint64_t(1));
    tc::reform(name, ranks);
    CHECK(get(next, {.timeout = 40s}) == std::vector<double>(3, 6));
    tc::destroy_group(name);
  }
}

void a_split_ends_with_any_member() {
  for (const Placement& p : kPlacements) {
    Folder folder;
    const std::string name = std::string(p.name) + "-split";
    Ranks ranks = ranks_on(p.nodes);
    tc::create_group(ranks, {.name = name, .timeout = 60s});
    auto waiting = all<&Rank::split_waits>(ranks, name, folder / "a");
    CHECK(eventually([&] { return count(folder / "a") == 3; }));
    ::kill(pid_of(ranks[0]), SIGKILL);
    for (int r : {1, 2}) CHECK_EQ(get(waiting[std::size_t(r)], {.timeout = 40s}).reason, "a member died");
    tc::destroy_group(name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_groups(argc, argv,
                    {{"a death is named on all others, and the group goes on", deaths},
                     {"CEP-6: whoever is entering hears of the end", who_is_entering_hears_of_the_end},
                     {"GA-2: a member that was restarted", restarts},
                     {"CEP-2: a light member that was restarted in its process", a_light_member_is_restarted},
                     {"a frozen rank is named at the deadline", a_frozen_rank_is_named_at_the_deadline},
                     {"mismatch, abort, cancel, stale handles", words_that_end_a_group},
                     {"a rank waits for the next epoch", waiting_for_the_next_epoch},
                     {"a split ends with any member", a_split_ends_with_any_member}},
                    180);
}
