#include "core/node/daemon/workers/load_report.h"

namespace troupe::node {
namespace {
constexpr Duration kLoadEvery = std::chrono::milliseconds(10);
}

LoadReport::Load LoadReport::load() const {
  const sched::LeaseQueue& queue = leases_.queue();
  const sched::Fixed pieces = queue.resources().available().gpu - queue.resources().at_once().gpu;
  sched::ResourceSet room = queue.room();
  room.gpu += pieces;
  return {room.to_map(), queue.pending(), starts_.seen(), sched::from_fixed(pieces)};
}

void LoadReport::plan() {
  if (planned_ || load() == last_) return;
  planned_ = true;
  loop_.after(kLoadEvery, [this] {
    planned_ = false;
    send();
  });
}

void LoadReport::send() {
  last_ = load();
  messenger_.notice(kHead, wire::Method::kNodeLoad,
                    wire::NodeLoad{node_, ++version_, last_.available, last_.pending, last_.starts,
                                   last_.gpu_pieces});
}

}  // namespace troupe::node
