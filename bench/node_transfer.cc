// An object of 256 MiB, made on one node and read on another of this machine: over the data socket, checksum verified. The
// second one of that size is the row, the first stands beside it.
#include "bench/harness.h"
#include <troupe/state.h>
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Reader {
 public:
  double read_ms(ObjectRef<Array<char>> ref) {
    const auto start = Clock::now();
    const Array<char> view = get(ref);
    const double ms = seconds_since(start) * 1e3;
    if (view[0] != 1 || view[view.size() - 1] != 2) throw Error("wrong bytes");
    return ms;
  }
};

void measure(Harness& harness) {
  std::string other;
  for (const NodeRow& node : nodes()) if (node.node_id != runtime_context().node_id) other = node.node_id;
  const auto reader = actor<Reader>.options({.scheduling = NodeAffinity{other}}).remote();
  const std::size_t size = std::size_t{256} << 20;
  double first = 0;
  Samples samples;
  for (int i = 0; i < harness.choose(6, 2); ++i) {
    ArrayBuilder<char> builder(size);
    builder.span()[0] = 1;
    builder.span()[size - 1] = 2;
    const auto ref = put(std::move(builder).seal());
    const double ms = get(reader.call<&Reader::read_ms>(ref));
    if (i == 0) first = ms;
    else if (i == 1) harness.report({.row = "node/transfer_256MiB_ms", .value = ms});
    else samples.add(ms);
  }
  harness.report({.row = "node/transfer_256MiB_first_ms", .value = first, .unit = "ms", .better = "lower"});
  if (samples.size() > 0) harness.report({.row = "node/transfer_256MiB_later_ms", .value = samples.median(), .spread = samples.deviation(), .unit = "ms", .better = "lower"});
}

}  // namespace

const Program program{.rows = {"node/transfer_256MiB_ms", "node/transfer_256MiB_first_ms", "node/transfer_256MiB_later_ms"}, .measure = &measure, .nodes = 2,
                      .cpus = 1, .object_store_memory = std::uint64_t{1} << 30};

}  // namespace troupe::bench
