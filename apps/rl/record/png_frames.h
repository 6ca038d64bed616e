// A recording as a folder of pictures: frame-00000.png, frame-00001.png, ... See frame_writer.h for the rules.
#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>

#include "apps/rl/record/frame_writer.h"

namespace rl {

class PngFrames final : public FrameWriter {
 public:
  explicit PngFrames(std::filesystem::path folder) : folder_(std::move(folder)) {}

  troupe::Status add(const Frame& frame) override;
  troupe::Status finish() override;
  [[nodiscard]] const std::filesystem::path& output() const override { return folder_; }

 private:
  std::filesystem::path folder_;
  std::size_t frames_ = 0;
  int width_ = 0, height_ = 0;
};

}  // namespace rl
