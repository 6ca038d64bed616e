// A driver with a few modes, for the tests of the command and of what workers print.
//
//   cli_driver print KIND    twenty calls print a line each, in the way KIND says; then the driver ends at once
//   cli_driver print-spread  the same by actors on all nodes, with the node's id
//   cli_driver dive LEVELS   a method on a fiber, LEVELS x 2 KiB deep
//   cli_driver rows          holds actors, tasks, objects and metrics until its standard input ends; prints "ready"
//                            when they are there
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include <troupe/log.h>
#include <troupe/state.h>
#include <troupe/sync.h>
#include <troupe/troupe.h>

using troupe::ObjectRef, troupe::actor, troupe::get, troupe::task;

namespace {

constexpr int kLines = 20;

int print(std::string kind, int number) {
  if (kind == "line") std::printf("line %d\n", number);
  else if (kind == "open") std::printf("line %d", number);  // no newline: the call's end is its end
  else if (kind == "cout") std::cout << "line " << number << '\n';
  else if (kind == "log") troupe::log::warn("line " + std::to_string(number));
  else if (kind == "error") std::fprintf(stderr, "line %d\n", number);
  else if (kind == "unsynced") {
    std::ios::sync_with_stdio(false);
    std::cout << "line " << number << '\n';
  }
  return number;
}

class Printer {
 public:
  int print(std::string kind, int number) { return ::print(kind, number); }
};

class NodePrinter {
 public:
  int print(int number) {
    std::printf("node %s prints\nline %d\n", troupe::runtime_context().node_id.c_str(), number);
    return number;
  }
};

/// On all nodes in turns.
int print_spread() {
  const auto nodes = troupe::nodes();
  std::vector<troupe::ActorHandle<NodePrinter>> printers;
  for (const auto& node : nodes)
    printers.push_back(
        actor<NodePrinter>.options({.resources = {.cpus = 0}, .scheduling = troupe::NodeAffinity{node.node_id}})
            .remote());
  std::vector<ObjectRef<int>> done;
  for (int i = 0; i < kLines; ++i)
    done.push_back(printers[std::size_t(i) % printers.size()].call<&NodePrinter::print>(i));
  for (const auto& ref : done) get(ref);
  return 0;
}

int print_all(const std::string& kind) {
  std::vector<ObjectRef<int>> done;
  auto printer = actor<Printer>.remote();
  for (int i = 0; i < kLines; ++i) {
    if (i % 2 == 0) done.push_back(task<&print>.remote(kind, i));
    else done.push_back(printer.call<&Printer::print>(kind, i));
  }
  for (const auto& ref : done) get(ref);
  return 0;
}

int square(int x) { return x * x; }
int fail() { throw std::runtime_error("as it should"); }
int wait_for_ever() {
  troupe::sleep_for(std::chrono::hours(1));
  return 0;
}

class Counter {
 public:
  int count() {
    hits_.inc(2);
    load_.set(0.5);
    times_.observe(0.02);
    times_.observe(7);
    return 1;
  }

 private:
  troupe::metrics::Counter hits_{"hits"};
  troupe::metrics::Gauge load_{"load"};
  troupe::metrics::Histogram times_{"times", {0.1, 1}};
};

int hold_rows() {
  auto named = actor<Counter>.options({.name = "front"}).remote();
  auto other = actor<Counter>.options({.name = "back", .resources = {.cpus = 0}}).remote();
  get(named.call<&Counter::count>());
  get(other.call<&Counter::count>());
  get(task<&square>.remote(3));
  try {
    get(task<&fail>.remote());
  } catch (const troupe::TaskError&) {}
  auto runs = task<&wait_for_ever>.options({.name = "long one", .resources = {.cpus = 0}}).remote();
  auto waits = task<&square>.remote(runs);
  auto object = troupe::put(std::string(1000, 'x'));
  while (troupe::list_tasks({.filter = {{"state", "RUNNING"}}}).empty())
    troupe::sleep_for(std::chrono::milliseconds(5));
  std::printf("ready\n");
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {}
  return 0;
}

class Deep {
 public:
  /// Some 2 KiB of stack a level: less than the guard page at its end.
  int dive(int levels) {
    volatile char frame[2048];
    for (std::size_t i = 0; i < sizeof(frame); i += 512) frame[i] = char(levels);
    return levels == 0 ? frame[0] : dive(levels - 1) + (frame[512] == char(levels) ? 1 : 0);
  }
};

/// How deep a method of a light actor may go: exit code 1 where its stack ends before.
int dive(int levels) {
  auto deep = actor<Deep>.options({.isolation = troupe::Isolation::kLight}).remote();
  return get(deep.call<&Deep::dive>(levels)) == levels ? 0 : 3;
}

int driver(std::span<char* const> args) {
  const std::string mode = args.size() > 1 ? args[1] : "";
  if (mode == "print" && args.size() > 2) return print_all(args[2]);
  if (mode == "print-spread") return print_spread();
  if (mode == "dive" && args.size() > 2) return dive(std::atoi(args[2]));
  if (mode == "rows") return hold_rows();
  return 2;
}

}  // namespace

int main(int argc, char** argv) { return troupe::run(argc, argv, driver); }
