// Groups of actors on any placement: every operation on sockets and on memory with sockets between, the choice of the
// backend, and how they end. The nodes are daemons of one machine: locality is the node's id.
#include <algorithm>
#include <functional>
#include <thread>

#include "groups_nodes.h"

using namespace rt;

namespace {

using tc::Backend;

struct Case {
  const char* name;
  std::vector<int> nodes;  // of the ranks
  Backend asked, expected;
};

void every_operation(const Case& c) {
  const Ranks ranks = ranks_on(c.nodes);
  tc::create_group(ranks, {.name = c.name, .backend = c.asked, .timeout = 60s});
  for (std::size_t r = 0; r < ranks.size(); ++r)
    CHECK_EQ(get(ranks[r].call<&Rank::facts>(std::string(c.name))),
             (Facts{int(r), int(ranks.size()), int(c.expected), 1}));
  for (std::size_t n : {std::size_t(1), std::size_t(13), std::size_t(60'000)})
    for (const std::string& wrong : get(all<&Rank::operations>(ranks, std::string(c.name), n))) CHECK_EQ(wrong, "");
  for (const std::string& wrong : get(all<&Rank::parts>(ranks, std::string(c.name)))) CHECK_EQ(wrong, "");
  tc::destroy_group(c.name);
}

void on_sockets() { every_operation({"t3", {0, 1, 2}, Backend::kAuto, Backend::kTcp}); }
void on_sockets_where_nodes_are_shared() { every_operation({"t4", {0, 1, 0, 1}, Backend::kTcp, Backend::kTcp}); }
void on_both() {
  every_operation({"h4", {0, 1, 0, 1}, Backend::kAuto, Backend::kHier});
  every_operation({"h3", {2, 2, 1}, Backend::kAuto, Backend::kHier});
}
void on_memory_elsewhere() { every_operation({"s2", {1, 1}, Backend::kAuto, Backend::kShm}); }
void sockets_of_one_node() { every_operation({"t2", {1, 1}, Backend::kTcp, Backend::kTcp}); }

void choices_that_cannot_be() {
  const Ranks ranks = ranks_on({0, 1});
  const auto error =
      CHECK_THROWS(troupe::InvalidArgumentError, tc::create_group(ranks, {.name = "no", .backend = Backend::kShm}));
  if (error) {
    CHECK(std::string(error->what()).find("rank 1") != std::string::npos);
    CHECK(std::string(error->what()).find(node_ids()[1]) != std::string::npos);
  }
  // FM-3, NC-4: what is missing is said on all ranks
  tc::create_group(ranks, {.name = "gpus", .backend = Backend::kNccl});
  for (const auto& sum : all<&Rank::sum>(ranks, std::string("gpus"), 10, std::uint64_t(0)))
    if (const auto lacks = CHECK_THROWS(troupe::CollectiveError, get(sum, {.timeout = 60s})))
      CHECK(lacks->reason() == tc::Reason::kBackend);
  tc::destroy_group("gpus");
  tc::create_group(ranks, {.name = "no"});  // the name is still free
  check_sums(ranks, "no");
  CHECK_THROWS(troupe::InvalidArgumentError, tc::create_group(ranks, {.name = "no"}));
  tc::destroy_group("no");
}

/// FM-4: where every rank holds a GPU they tell each other what they have of NCCL (here: nothing), and make do; with
/// one that holds none nobody looks for it or waits.
void ranks_that_hold_gpus() {
  const auto rank_on = [](int node, double gpus) {
    return troupe::actor<Rank>
        .options({.resources = {.gpus = gpus}, .max_concurrency = 2,
            .scheduling = troupe::NodeAffinity{node_ids()[std::size_t(node)], false},
                  .env = {.env_vars = {{"TROUPE_CUDA_LIB", "/nowhere/libtroupe_cuda.so"}}}})
        .remote();
  };
  Ranks ranks{rank_on(0, 1), rank_on(1, 0.5)};
  for (std::uint64_t epoch : {1u, 2u}) {
    if (epoch == 1) tc::create_group(ranks, {.name = "beside", .timeout = 60s});
    else tc::reform("beside", ranks);
    const auto facts = get(all<&Rank::facts>(ranks, std::string("beside")), {.timeout = 60s});
    for (int r = 0; r < 2; ++r) CHECK_EQ(facts[std::size_t(r)], (Facts{r, 2, int(Backend::kTcp), epoch}));
    for (const std::string& wrong : get(all<&Rank::operations>(ranks, std::string("beside"), std::size_t(60'000))))
      CHECK_EQ(wrong, "");
  }
  tc::destroy_group("beside");
  // A call that waits for the other rank lets others through; cut off, it has failed the epoch for all.
  tc::create_group(ranks, {.name = "cut", .timeout = 60s});
  const auto waits = ranks[0].options({.timeout = 2s}).call<&Rank::facts>(std::string("cut"));
  CHECK(pid_of(ranks[0]) > 0);
  CHECK(!troupe::try_get(waits, {.timeout = 0s}).ok());
  CHECK_THROWS(troupe::DeadlineExceededError, get(waits, {.timeout = 60s}));
  for (const auto& rank : ranks)
    CHECK_EQ(get(rank.call<&Rank::mismatch>(std::string("cut")), {.timeout = 20s}).reason,
             tc::reason_name(tc::Reason::kAborted));
  tc::reform("cut", ranks);
  check_sums(ranks, "cut");
  tc::destroy_group("cut");
  ranks.push_back(rank_on(2, 0));
  tc::create_group(ranks, {.name = "not_all", .timeout = 60s});
  for (int r = 0; r < 3; ++r)
    CHECK_EQ(get(ranks[std::size_t(r)].call<&Rank::facts>(std::string("not_all")), {.timeout = 60s}),
             (Facts{r, 3, int(Backend::kTcp), 1}));
  check_sums(ranks, "not_all");
  tc::destroy_group("not_all");
}

void two_groups_on_the_same_actors() {
  Ranks ranks = ranks_on({0, 1, 2});
  const Ranks two{ranks[2], ranks[0]};
  tc::create_group(ranks, {.name = "one"});
  tc::create_group(two, {.name = "two"});
  auto first = all<&Rank::sum>(ranks, std::string("one"), 5000, std::uint64_t(0));
  auto second = all<&Rank::sum>(two, std::string("two"), 5000, std::uint64_t(0));
  CHECK(get(first, {.timeout = 60s}) == std::vector<double>(3, 6));
  CHECK(get(second, {.timeout = 60s}) == std::vector<double>(2, 3));
  get(ranks[0].call<&Rank::abort>(std::string("two"), std::string("enough")));
  check_sums(ranks, "one");
  tc::destroy_group("one");
  tc::destroy_group("two");
}

/// GA-1: handles of the past say so, the same name begins anew, and nothing of the old is left in the ranks' processes.
void destroyed_and_made_again() {
  const Ranks ranks = ranks_on({0, 1});
  tc::create_group(ranks, {.name = "again"});
  check_sums(ranks, "again");
  tc::destroy_group("again");
  const std::vector<int> before = get(all<&Rank::descriptors>(ranks));
  for (std::uint64_t epoch = 2; epoch < 8; ++epoch) {
    tc::create_group(ranks, {.name = "again"});
    get(all<&Rank::hold>(ranks, std::string("again")));
    check_sums(ranks, "again");
    CHECK_EQ(get(ranks[1].call<&Rank::facts>(std::string("again"))).epoch, epoch);
    tc::destroy_group("again");
    for (const Said& said : get(all<&Rank::use_held>(ranks))) CHECK_EQ(said.reason, "stale handle");
    CHECK_THROWS(troupe::Error, get(ranks[0].call<&Rank::facts>(std::string("again"))));
    get(all<&Rank::let_go>(ranks));
  }
  CHECK(eventually([&] { return get(all<&Rank::descriptors>(ranks)) == before; }));
}

void a_group_made_by_an_actor() {
  Ranks ranks = ranks_on({1, 2});
  get(ranks[0].call<&Rank::create>(std::string("own"), ranks));
  check_sums(ranks, "own");
  tc::reform("own", ranks);  // by another process than the one that made it
  CHECK_EQ(get(ranks[0].call<&Rank::facts>(std::string("own"))).epoch, 2u);
  check_sums(ranks, "own");
  get(ranks[1].call<&Rank::reform>(std::string("own"), ranks));
  CHECK_EQ(get(ranks[0].call<&Rank::facts>(std::string("own"))).epoch, 3u);
  check_sums(ranks, "own");
  tc::destroy_group("own");
}

/// How many of several founders at the same moment succeed; the others hear why not.
int founders_at_once(const std::function<void()>& found) {
  std::vector<Said> said(4);
  {
    std::vector<std::jthread> founders;
    for (Said& one : said) founders.emplace_back([&] { one = what_it_says(found); });
  }
  for (const Said& one : said)
    CHECK(one.ok() || one.reason == "stale handle" || one.text.find("already") != std::string::npos);
  return int(std::ranges::count_if(said, &Said::ok));
}

void several_founders_at_once() {
  for (const std::vector<int>& nodes : {std::vector{1, 1}, std::vector{0, 1}, std::vector{0, 1, 1}}) {
    const Ranks ranks = ranks_on(nodes);
    tc::create_group(ranks, {.name = "race"});
    check_sums(ranks, "race");
    tc::destroy_group("race");
    const std::vector<int> before = get(all<&Rank::descriptors>(ranks));
    for (int round = 0; round < 3; ++round) {
      CHECK_EQ(founders_at_once([&] { tc::create_group(ranks, {.name = "race"}); }), 1);
      const std::uint64_t epoch = get(ranks[0].call<&Rank::facts>(std::string("race"))).epoch;
      CHECK(epoch > 1);
      check_sums(ranks, "race");
      const int formed = founders_at_once([&] { tc::reform("race", ranks); });
      CHECK(formed >= 1);
      CHECK_EQ(get(ranks[1].call<&Rank::facts>(std::string("race"))).epoch, epoch + std::uint64_t(formed));
      check_sums(ranks, "race");
      tc::destroy_group("race");
    }
    CHECK(eventually([&] { return get(all<&Rank::descriptors>(ranks)) == before; }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_groups(argc, argv,
                    {{"every operation on sockets between nodes", on_sockets},
                     {"every operation on sockets where some ranks share a node", on_sockets_where_nodes_are_shared},
                     {"every operation in memory with sockets between nodes", on_both},
                     {"every operation in memory of a node that is not the founder's", on_memory_elsewhere},
                     {"sockets when they are asked for", sockets_of_one_node},
                     {"a choice that cannot be is refused by rank and node", choices_that_cannot_be},
                     {"ranks that hold GPUs, all or some", ranks_that_hold_gpus},
                     {"two groups on the same actors", two_groups_on_the_same_actors},
                     {"GA-1: destroyed and made again, nothing is left", destroyed_and_made_again},
                     {"a group is made and formed again by any process", a_group_made_by_an_actor},
                     {"GA-1: of several founders at once one succeeds", several_founders_at_once}},
                    120);
}
