// TROUPE_COLLECTIVE_BACKEND of the process that forms a group: it chooses where the program leaves the choice, also
// when the group is formed again; what it cannot be is refused by a message that names the value and what there is.
//
// As the test of a driver's environment: --driver, with the variable set.
#include "groups_nodes.h"

using namespace rt;

namespace {

using tc::Backend;

/// A process whose environment says that.
ActorHandle<Rank> founder_with(const std::string& backend) {
  return troupe::actor<Rank>.options({.scheduling = troupe::NodeAffinity{node_ids()[0], false},
      .env = {.env_vars = {{"TROUPE_COLLECTIVE_BACKEND", backend}}}}).remote();
}

void check_all(const Ranks& ranks, const std::string& name, Backend expected, std::uint64_t epoch) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    CHECK_EQ(get(ranks[r].call<&Rank::facts>(name)), (Facts{int(r), int(ranks.size()), int(expected), epoch}));
  for (const std::string& wrong : get(all<&Rank::operations>(ranks, name, std::size_t(5000)))) CHECK_EQ(wrong, "");
}

struct Case {
  const char* value;
  std::vector<int> nodes;
  Backend expected;
};

void it_chooses() {
  const std::vector<Case> cases = {{"shm", {1, 1}, Backend::kShm},   {"tcp", {1, 1}, Backend::kTcp},
                                   {"hier", {1, 1}, Backend::kHier}, {"tcp", {0, 1, 1}, Backend::kTcp},
                                   {"hier", {0, 1}, Backend::kHier}, {"auto", {1, 1}, Backend::kShm},
                                   {"", {0, 1}, Backend::kTcp}};
  for (const Case& c : cases) {
    const std::string name = "env-" + std::to_string(&c - cases.data());
    const Ranks ranks = ranks_on(c.nodes);
    const auto founder = founder_with(c.value);
    get(founder.call<&Rank::create>(name, ranks));
    check_all(ranks, name, c.expected, 1);
    get(founder.call<&Rank::reform>(name, ranks));
    check_all(ranks, name, c.expected, 2);
    tc::reform(name, ranks);  // what was asked for at first, whoever forms it again
    check_all(ranks, name, c.expected, 3);
    tc::destroy_group(name);
  }
}

/// The others hear at once, and nothing of the name is taken.
void expect_refused(const std::string& value, const Ranks& ranks, const std::vector<std::string>& words) {
  const auto founder = founder_with(value);
  const std::string name = "refused-" + value;
  const Said said = what_it_says([&] { get(founder.call<&Rank::create>(name, ranks)); });
  CHECK(!said.ok());
  for (const std::string& word : words)
    if (!CHECK(said.text.find(word) != std::string::npos))
      std::fprintf(stderr, "  '%s' is not in: %s\n", word.c_str(), said.text.c_str());
  CHECK_THROWS(troupe::InvalidArgumentError, get(founder.call<&Rank::create>(name, ranks)));
  get(founder.call<&Rank::create_as>(name, ranks, int(Backend::kTcp)));  // the program's word goes before
  check_all(ranks, name, Backend::kTcp, 1);
  tc::destroy_group(name);
}

void what_cannot_be_is_refused() {
  for (const char* value : {"mpi", "SHM", "shm ", "1"})
    expect_refused(value, ranks_on({0, 1}),
                   {std::string("TROUPE_COLLECTIVE_BACKEND=") + value, "auto", "shm", "tcp", "hier", "nccl"});
}
void what_the_placement_forbids_is_refused() {
  expect_refused("shm", ranks_on({0, 1}),
                 {"TROUPE_COLLECTIVE_BACKEND=shm", "rank 1", node_ids()[1], "auto", "tcp", "hier"});
}

void of_the_driver() {
  const char* const value = ::getenv("TROUPE_COLLECTIVE_BACKEND");
  const std::string wanted = value ? value : "";
  const Ranks near = ranks_on({1, 1}), far = ranks_on({0, 1, 1});
  if (wanted != "shm" && wanted != "tcp" && wanted != "hier") {
    const auto error = CHECK_THROWS(troupe::InvalidArgumentError, tc::create_group(near, {.name = "near"}));
    if (error) CHECK(std::string(error->what()).find("TROUPE_COLLECTIVE_BACKEND=" + wanted) != std::string::npos);
    return;
  }
  const Backend backend = wanted == "shm" ? Backend::kShm : wanted == "tcp" ? Backend::kTcp : Backend::kHier;
  tc::create_group(near, {.name = "near"});
  check_all(near, "near", backend, 1);
  if (wanted == "shm") {
    CHECK_THROWS(troupe::InvalidArgumentError, tc::create_group(far, {.name = "far"}));
    return;
  }
  tc::create_group(far, {.name = "far"});
  check_all(far, "far", backend, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool driver = argc > 1 && std::string(argv[1]) == "--driver";
  std::vector<Promise> promises = {
      {"it chooses where the program leaves the choice", it_chooses},
      {"an unknown value is refused", what_cannot_be_is_refused},
      {"a value that the placement forbids is refused", what_the_placement_forbids_is_refused}};
  if (driver) promises = {{"--driver: the environment of the driver chooses", of_the_driver}};
  return run_groups(argc, argv, promises, 120);
}
