#include "apps/rl/record/frame_writer.h"

#include <utility>

#include "apps/common/output_file.h"
#include "apps/rl/record/gif_writer.h"
#include "apps/rl/record/png_frames.h"

namespace rl {
namespace {

// Takes its size from the first frame.
class GifRecording final : public FrameWriter {
 public:
  GifRecording(std::filesystem::path path, const RecordingOptions& options)
      : path_(std::move(path)), options_(options) {}

  troupe::Status add(const Frame& frame) override {
    if (!gif_) {
      troupe::Result<GifWriter> made =
          GifWriter::create(path_, {.width = frame.width, .height = frame.height,
                                    .frames_per_second = options_.frames_per_second});
      if (!made.ok()) return made.error_ptr();
      gif_ = std::make_unique<GifWriter>(std::move(made).value());
    }
    return gif_->add(frame);
  }
  troupe::Status finish() override {
    if (!gif_) return troupe::InvalidArgumentError("a recording without a frame");
    return gif_->finish();
  }
  [[nodiscard]] const std::filesystem::path& output() const override { return path_; }

 private:
  std::filesystem::path path_;
  RecordingOptions options_;
  std::unique_ptr<GifWriter> gif_ = {};
};

}  // namespace

bool gif_is_built() { return GifWriter::is_built(); }

troupe::Result<std::unique_ptr<FrameWriter>> make_frame_writer(const std::filesystem::path& path,
                                                               const RecordingOptions& options) {
  if (path.empty()) return troupe::InvalidArgumentError("a recording needs the name of a file or folder");
  if (path.extension() == ".gif" && gif_is_built()) {
    if (const troupe::Status can = GifWriter::check({.width = 1, .height = 1,
                                                     .frames_per_second = options.frames_per_second});
        !can.ok())
      return can.error_ptr();
    if (const troupe::Status can = apps::check_writable(path); !can.ok()) return can.error_ptr();
    return std::make_unique<GifRecording>(path, options);
  }
  std::filesystem::path folder = path;
  if (folder.extension() == ".gif") folder.replace_extension();
  if (const troupe::Status can = apps::check_writable(folder / "frame.png"); !can.ok()) return can.error_ptr();
  return std::make_unique<PngFrames>(std::move(folder));
}

}  // namespace rl
