// One million tasks, all submitted before the first may run: what each costs the driver while it is queued, and how
// fast they then run. The CPUs are held by tasks that block in the kernel: a wait of the runtime would give them back.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

/// Opening the reading end of a fifo blocks until somebody opens the other.
int hold_cpu(std::string fifo) {
  const int fd = ::open(fifo.c_str(), O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return 0;
}
int nothing() { return 1; }

void measure(Harness& harness) {
  const std::size_t count = harness.choose<std::size_t>(1'000'000, 100'000);
  char folder[] = "/tmp/troupe-bench-XXXXXX";
  if (!::mkdtemp(folder)) throw Error("no temporary folder");
  const std::string fifo = std::string(folder) + "/fifo";
  ::mkfifo(fifo.c_str(), 0600);
  std::vector<ObjectRef<int>> holders;
  for (int i = 0; i < 2; ++i) holders.push_back(task<&hold_cpu>.remote(fifo));
  get(std::vector{task<&nothing>.options({.resources = {.cpus = 0}}).remote()});

  const double before = anonymous_bytes();
  std::vector<ObjectRef<int>> refs;
  refs.reserve(count);
  const auto submitting = Clock::now();
  for (std::size_t i = 0; i < count; ++i) refs.push_back(task<&nothing>.remote());
  const double submitted = seconds_since(submitting);
  const double bytes = (anonymous_bytes() - before) / double(count);

  const auto running = Clock::now();
  const int writer = ::open(fifo.c_str(), O_WRONLY | O_CLOEXEC);  // lets the holders go
  std::size_t done = 0;
  for (const auto& ref : refs) done += std::size_t(get(ref));
  const double finished = seconds_since(running);
  ::close(writer);
  ::unlink(fifo.c_str());
  ::rmdir(folder);
  if (done != count) throw Error("only " + std::to_string(done) + " of the queued tasks finished");
  harness.report({.row = "task/queued_1m_bytes", .value = bytes});
  harness.report({.row = "task/queued_submit", .value = double(count) / submitted, .unit = "1/s", .better = "higher"});
  harness.report({.row = "task/queued_run", .value = double(count) / finished, .unit = "1/s", .better = "higher"});
}

}  // namespace

const Program program{.rows = {"task/queued_1m_bytes", "task/queued_submit", "task/queued_run"}, .measure = &measure,
                      .cpus = 2};

}  // namespace troupe::bench
