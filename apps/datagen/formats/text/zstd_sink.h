// A ByteSink that hands on what it gets as one zstd frame, with its checksum. The caller compresses: no thread.
//
// One thread at a time.
//
// ZST-1  The bytes are a function of what came in, the level and the version of libzstd: not of how it was cut.
// ZST-2  In a build without libzstd, open() is a RuntimeEnvError that names the package.
#pragma once

#include <memory>
#include <string>

#include <troupe/result.h>

#include "apps/datagen/files/byte_sink.h"

namespace datagen {

class ZstdSink final : public ByteSink {
 public:
  /// "1.5.4". ZST-2.
  [[nodiscard]] static troupe::Result<std::string> library_version();
  /// `to` outlives it. Levels: 1 to 22.
  static troupe::Result<std::unique_ptr<ZstdSink>> open(ByteSink& to, int level);
  ~ZstdSink() override;

  void write(std::span<const std::byte> bytes) override;
  /// The end of the frame. Once, last.
  void finish();
  /// What went out so far.
  [[nodiscard]] std::uint64_t written() const override;

 private:
  struct Stream;
  explicit ZstdSink(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace datagen
