// Window: how many shards may be open at once.
//
// Assumption: shards of a run are much alike, so what the finished ones took tells what the next ones take.
// Algorithm: enough shards wait behind each busy worker that it never waits for the driver (kAheadSeconds of work), at
// least one and at most kDeepest; and no more are open than fit into `open_bytes`, by the mean size so far.
//
// Pure; one thread at a time.
//
// WIN-1  At least one shard may be open, and at most workers * kDeepest. Before the first has ended: two a worker.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datagen {

struct WindowSettings {
  std::uint64_t workers = 1;
  std::uint64_t open_bytes = std::uint64_t{1} << 30;
  bool ahead = true;  ///< false: no shard waits behind a busy worker
};

class Window {
 public:
  static constexpr std::uint64_t kDeepest = 64;
  static constexpr double kAheadSeconds = 0.05;

  explicit Window(const WindowSettings& settings) : settings_(settings) {}

  void finished(double seconds, std::uint64_t bytes);
  [[nodiscard]] std::size_t open_max() const;

 private:
  WindowSettings settings_;
  double mean_seconds_ = 0, mean_bytes_ = 0;
  bool measured_ = false;
};

}  // namespace datagen
