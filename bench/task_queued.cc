// One million tasks, all submitted before the first may run: what each costs while it is queued, in all processes
// together, and how fast they then run; of tasks without arguments, and of tasks with 64 bytes and a ref. The CPUs are
// held by tasks that block in the kernel: a wait of the runtime would give them back.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
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
using Bytes64 = std::array<std::uint64_t, 8>;
int with_arguments(Bytes64 bytes, int one) { return one + int(bytes[7]); }

/// Tasks that keep both CPUs until this object goes.
class HeldCpus {
 public:
  HeldCpus() {
    char folder[] = "/tmp/troupe-bench-XXXXXX";
    if (!::mkdtemp(folder)) throw Error("no temporary folder");
    folder_ = folder;
    fifo_ = folder_ + "/fifo";
    ::mkfifo(fifo_.c_str(), 0600);
    for (int i = 0; i < 2; ++i) holders_.push_back(task<&hold_cpu>.remote(fifo_));
    get(std::vector{task<&nothing>.options({.resources = {.cpus = 0}}).remote()});
  }
  ~HeldCpus() {
    if (writer_ >= 0) ::close(writer_);
    ::unlink(fifo_.c_str());
    ::rmdir(folder_.c_str());
  }
  HeldCpus(const HeldCpus&) = delete;
  HeldCpus& operator=(const HeldCpus&) = delete;
  void let_go() { writer_ = ::open(fifo_.c_str(), O_WRONLY | O_CLOEXEC); }

 private:
  std::string folder_, fifo_;
  int writer_ = -1;
  std::vector<ObjectRef<int>> holders_;
};

struct Queued {
  std::vector<ObjectRef<int>> refs;
  double bytes = 0;    // of each, in all processes
  double seconds = 0;  // of the submission of all
};

template <class Submit> Queued queue(std::size_t count, const Submit& submit) {
  Queued out;
  const double before = anonymous_bytes_of_cluster();
  out.refs.reserve(count);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < count; ++i) out.refs.push_back(submit());
  out.seconds = seconds_since(start);
  out.bytes = (anonymous_bytes_of_cluster() - before) / double(count);
  return out;
}

void wait_for(const Queued& queued) {
  std::size_t done = 0;
  for (const auto& ref : queued.refs) done += std::size_t(get(ref));
  if (done != queued.refs.size()) throw Error("only " + std::to_string(done) + " of the queued tasks finished");
}

void measure(Harness& harness) {
  const std::size_t count = harness.choose<std::size_t>(1'000'000, 100'000);
  HeldCpus held;
  const Queued plain = queue(count, [] { return task<&nothing>.remote(); });
  // On top of the others: memory that they gave back would hide what these need.
  const ObjectRef<int> one = put(1);
  const Queued loaded = queue(count, [&] { return task<&with_arguments>.remote(Bytes64{}, one); });
  held.let_go();
  const auto start = Clock::now();
  wait_for(plain);
  const double finished = seconds_since(start);
  wait_for(loaded);
  harness.report({.row = "task/queued_1m_plain_bytes", .value = plain.bytes});
  harness.report({.row = "task/queued_1m_bytes", .value = loaded.bytes});
  harness.report(
      {.row = "task/queued_submit", .value = double(count) / plain.seconds, .unit = "1/s", .better = "higher"});
  harness.report({.row = "task/queued_run", .value = double(count) / finished, .unit = "1/s", .better = "higher"});
}

}  // namespace

const Program program{.rows = {"task/queued_1m_plain_bytes", "task/queued_submit", "task/queued_run",
                               "task/queued_1m_bytes"},
                      .measure = &measure,
                      .cpus = 2};

}  // namespace troupe::bench
