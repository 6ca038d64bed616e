// Where the frames of a recording go: an animated GIF, or a folder of PNG files. One thread at a time.
//
// FRW-1  A file appears whole or not at all (apps/common/output_file.h): a GIF when finish() succeeds, a PNG with
//        add().
// FRW-2  A frame of another size than the first is an InvalidArgumentError and not written; so is finish() without a
//        frame.
// FRW-3  After a write that failed (a full disk is an OutOfDiskError) add() and finish() may be called again.
#pragma once

#include <filesystem>
#include <memory>

#include <troupe/result.h>

#include "apps/rl/record/frame.h"

namespace rl {

class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  virtual troupe::Status add(const Frame& frame) = 0;
  virtual troupe::Status finish() = 0;
  /// The file, or the folder of files.
  [[nodiscard]] virtual const std::filesystem::path& output() const = 0;
};

struct RecordingOptions {
  double frames_per_second = 30;  ///< of a GIF
};

/// Whether this build has giflib.
[[nodiscard]] bool gif_is_built();

/// "a.gif": a GIF; in a build without giflib the folder "a", which output() says. Anything else: a folder, made where
/// it is missing. Says at once when nothing could be written there.
[[nodiscard]] troupe::Result<std::unique_ptr<FrameWriter>> make_frame_writer(const std::filesystem::path& path,
                                                                             const RecordingOptions& options);

}  // namespace rl
