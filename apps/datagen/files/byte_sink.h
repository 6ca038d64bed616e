// ByteSink: where the bytes of a shard go, in order: a file, memory, or a counter.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace datagen {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// All of them, or it throws: OutOfDiskError when there is no room, RuntimeEnvError for another failure.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// So far.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
};

}  // namespace datagen
