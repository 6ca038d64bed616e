// storm --seconds S [--seed N]: the load of chaos.py. A driver of a cluster whose processes, nodes and connections are
// killed beside it: an actor storm and transfers between nodes, in rounds, each result checked.
//
// What a death may cost is a typed error, and then the round's part is done again; a wrong value, an error of another
// kind, or a part that fails kTries times in a row is a failure. One JSON line at the end:
//   {"rounds": R, "calls": C, "megabytes": M, "losses": L, "wrong": W}
//
// Promises that it leans on: actor calls are executed at most once and in order (the counter's answers have no
// duplicate); arrays arrive whole (a checksum over all of their bytes); nothing hangs (each wait has a deadline).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
#include <string>
#include <vector>

#include <troupe/state.h>
#include <troupe/troupe.h>

using namespace std::chrono_literals;
using troupe::actor, troupe::ObjectRef, troupe::task;

namespace {

constexpr int kActors = 12, kCalls = 40, kTries = 20;
constexpr std::size_t kNumbers = 4 << 20;  // of 4 bytes: 16 MiB an array
constexpr auto kPatience = 60s;

struct Counts { std::uint64_t rounds = 0, calls = 0, megabytes = 0, losses = 0, wrong = 0; };
Counts counts;

void wrong(const std::string& what) {
  ++counts.wrong;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
}

/// May the death of a process, a node or a connection have caused this?
bool is_loss(const troupe::Error& error) {
  switch (error.code()) {
    case troupe::ErrorCode::kWorkerCrashed:
    case troupe::ErrorCode::kNodeDied:
    case troupe::ErrorCode::kActorDied:
    case troupe::ErrorCode::kActorUnavailable:
    case troupe::ErrorCode::kObjectLost:
    case troupe::ErrorCode::kOwnerDied: return true;
    default: return false;
  }
}

/// The next number of a sequence that both sides can make.
std::uint32_t next(std::uint32_t& state) { return state = state * 1664525u + 1013904223u; }

troupe::Array<std::uint32_t> made(std::uint32_t seed) {
  troupe::ArrayBuilder<std::uint32_t> builder(kNumbers);
  for (std::uint32_t& number : builder.span()) number = next(seed);
  return std::move(builder).seal();
}
std::uint64_t sum_of(troupe::Array<std::uint32_t> numbers) {
  std::uint64_t sum = 0;
  for (std::uint32_t number : numbers.span()) sum = sum * 31 + number;
  return sum;
}
std::uint64_t expected_sum(std::uint32_t seed) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kNumbers; ++i) sum = sum * 31 + next(seed);
  return sum;
}

/// Answers with the numbers that it was given, each once.
class Ledger {
 public:
  std::uint64_t enter(std::uint64_t number) {
    if (number < least_) return 0;  // a second execution: the caller sees 0 and calls it wrong
    least_ = number + 1;
    return number;
  }

 private:
  std::uint64_t least_ = 1;
};

void storm() {
  std::vector<troupe::ActorHandle<Ledger>> actors;
  std::vector<std::vector<ObjectRef<std::uint64_t>>> answers(kActors);
  for (int i = 0; i < kActors; ++i) {
    actors.push_back(actor<Ledger>
                         .options({.max_restarts = 5,
                                   .isolation = i % 3 == 2 ? troupe::Isolation::kLight : troupe::Isolation::kProcess,
                                   .scheduling = troupe::Spread{}})
                         .remote());
  }
  for (std::uint64_t call = 1; call <= kCalls; ++call) {
    for (int i = 0; i < kActors; ++i) answers[i].push_back(actors[i].call<&Ledger::enter>(call));
  }
  for (int i = 0; i < kActors; ++i) {
    for (std::uint64_t call = 1; call <= kCalls; ++call) {
      const troupe::Result<std::uint64_t> said = troupe::try_get(answers[i][call - 1], {.timeout = kPatience});
      ++counts.calls;
      if (said.ok() && *said == call) continue;
      if (said.ok()) wrong("call " + std::to_string(call) + " of actor " + std::to_string(i) + " was executed twice");
      else if (is_loss(said.error())) ++counts.losses;
      else wrong("call " + std::to_string(call) + ": " + said.error().what());
    }
  }
}

void transfers(const std::vector<std::string>& nodes, std::uint32_t seed) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t own = seed * 7919u + static_cast<std::uint32_t>(i);
    const std::string& from = nodes[i];
    const std::string& to = nodes[(i + 1) % nodes.size()];
    int tries = 0;
    for (bool done = false; !done;) {
      auto numbers = task<&made>.options({.scheduling = troupe::NodeAffinity{from, true}}).remote(own);
      auto sum = task<&sum_of>.options({.scheduling = troupe::NodeAffinity{to, true}}).remote(numbers);
      const troupe::Result<std::uint64_t> said = troupe::try_get(sum, {.timeout = kPatience});
      if (said.ok()) {
        if (*said != expected_sum(own)) wrong("an array of seed " + std::to_string(own) + " arrived with another sum");
        counts.megabytes += kNumbers * sizeof(std::uint32_t) >> 20;
        done = true;
      } else if (is_loss(said.error()) && ++tries < kTries) {
        ++counts.losses;
      } else {
        wrong("transfer from " + from + " to " + to + ", try " + std::to_string(tries) + ": " + said.error().what());
        done = true;
      }
    }
  }
}

std::vector<std::string> living_nodes() {
  std::vector<std::string> found;
  for (const auto& node : troupe::nodes()) {
    if (node.state == "ALIVE") found.push_back(node.node_id);
  }
  return found;
}

struct Options { int seconds = 60; std::uint32_t seed = 1; };

int driver(const Options& options) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  std::uint32_t seed = options.seed;
  while (std::chrono::steady_clock::now() < end && !troupe::runtime_context().cancelled()) {
    storm();
    transfers(living_nodes(), next(seed));
    ++counts.rounds;
  }
  std::printf("{\"rounds\": %llu, \"calls\": %llu, \"megabytes\": %llu, \"losses\": %llu, \"wrong\": %llu}\n",
              static_cast<unsigned long long>(counts.rounds), static_cast<unsigned long long>(counts.calls),
              static_cast<unsigned long long>(counts.megabytes), static_cast<unsigned long long>(counts.losses),
              static_cast<unsigned long long>(counts.wrong));
  return counts.wrong == 0 && counts.rounds > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::run(argc, argv, [](std::span<char* const> arguments) {
    Options options;
    for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
      const std::string flag = arguments[i];
      if (flag == "--seconds") options.seconds = std::atoi(arguments[i + 1]);
      else if (flag == "--seed") options.seed = static_cast<std::uint32_t>(std::atoi(arguments[i + 1]));
      else return std::fprintf(stderr, "usage: storm [--seconds S] [--seed N]\n"), 2;
    }
    return driver(options);
  });
}
