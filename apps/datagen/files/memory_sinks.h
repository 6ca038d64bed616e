// Sinks of shards that go to no file: those that travel, and those of which only the digest is wanted.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/datagen/files/byte_sink.h"
#include "apps/datagen/files/sha256.h"

namespace datagen {

/// Keeps what it takes.
class MemorySink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  [[nodiscard]] std::uint64_t written() const override { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Keeps a digest of what it takes.
class DigestSink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    hash_.update(bytes);
    written_ += bytes.size();
  }
  [[nodiscard]] std::uint64_t written() const override { return written_; }
  [[nodiscard]] Digest finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
  std::uint64_t written_ = 0;
};

}  // namespace datagen
