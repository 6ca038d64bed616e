#include "apps/rl/record/png_frames.h"

#include <string>

#include <fmt/format.h>

#include "apps/common/output_file.h"
#include "apps/rl/record/png.h"

namespace rl {

troupe::Status PngFrames::add(const Frame& frame) {
  if (frames_ > 0 && (frame.width != width_ || frame.height != height_))
    return troupe::InvalidArgumentError(fmt::format("a frame of {} x {} in a recording of {} x {}", frame.width,
                                                    frame.height, width_, height_));
  const troupe::Result<std::string> bytes = png_bytes(frame);
  if (!bytes.ok()) return bytes.error_ptr();
  const troupe::Status written = apps::write_file(folder_ / fmt::format("frame-{:05}.png", frames_), *bytes);
  if (!written.ok()) return written;
  width_ = frame.width, height_ = frame.height;
  ++frames_;
  return {};
}

troupe::Status PngFrames::finish() {
  if (frames_ == 0) return troupe::InvalidArgumentError("a recording without a frame");
  return {};
}

}  // namespace rl
