// An animated GIF that repeats for ever, by giflib. One thread at a time.
//
// GIF-1  The file appears whole, at finish(), or not at all: until then it is compressed bytes in memory.
// GIF-2  Shown one after the other, the pictures are the frames, to the pixel, when none has more than 256 colors
//        (palette.h says what happens else). A picture holds only the rectangle in which it differs from the one
//        before.
// GIF-3  Picture i is shown from i / frames_per_second on, rounded to the format's 1/100 s: rates that do not divide
//        100 do not drift.
// GIF-4  A frame of another size, a size above 65,535 and a rate outside [1, 50] are InvalidArgumentErrors; in a build
//        without giflib create() is an InfeasibleError that says so. (Above 50 viewers show 10 pictures a second.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include <troupe/result.h>

#include "apps/rl/record/frame.h"

namespace rl {

struct GifOptions {
  int width = 0, height = 0;
  double frames_per_second = 30;
};

class GifWriter {
 public:
  /// Whether this build has giflib.
  [[nodiscard]] static bool is_built();
  [[nodiscard]] static troupe::Status check(const GifOptions& options);
  static troupe::Result<GifWriter> create(const std::filesystem::path& path, const GifOptions& options);

  GifWriter(GifWriter&&) noexcept;
  GifWriter& operator=(GifWriter&&) noexcept;
  ~GifWriter();

  troupe::Status add(const Frame& frame);
  /// Writes the file. InvalidArgumentError without a frame; no frame can be added after it. May be called again when
  /// the write failed.
  troupe::Status finish();

 private:
  class Encoder;
  GifWriter(std::filesystem::path path, const GifOptions& options, std::unique_ptr<Encoder> encoder);

  std::filesystem::path path_;
  GifOptions options_;
  std::unique_ptr<Encoder> encoder_;
  Frame last_ = {};
  std::int64_t frames_ = 0;
};

}  // namespace rl
