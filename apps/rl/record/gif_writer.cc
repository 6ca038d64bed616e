#include "apps/rl/record/gif_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/common/output_file.h"
#include "apps/rl/record/palette.h"

#if TROUPE_HAS_GIFLIB
#include <gif_lib.h>
#endif

namespace rl {
namespace {

constexpr int kSideMax = 65'535;
constexpr double kRateMax = 50;

struct Area {
  int x = 0, y = 0, width = 0, height = 0;
};

// The smallest rectangle with all pixels that differ; one pixel where none does, because a picture has at least one.
Area difference(const Frame& before, const Frame& now) {
  int left = now.width, right = -1, top = now.height, bottom = -1;
  for (int y = 0; y < now.height; ++y)
    for (int x = 0; x < now.width; ++x) {
      if (before.at(x, y) == now.at(x, y)) continue;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
    }
  if (right < 0) return {0, 0, 1, 1};
  return {left, top, right - left + 1, bottom - top + 1};
}

Frame part(const Frame& frame, const Area& area) {
  Frame out(area.width, area.height, {});
  for (int y = 0; y < area.height; ++y)
    for (int x = 0; x < area.width; ++x) out.set(x, y, frame.at(area.x + x, area.y + y));
  return out;
}

}  // namespace

#if TROUPE_HAS_GIFLIB

// giflib's encoder, whose output is kept in memory.
class GifWriter::Encoder {
 public:
  Encoder() : gif_(::EGifOpen(this, &Encoder::take, nullptr)) {}
  ~Encoder() { close(); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  bool begin(int width, int height) {
    if (gif_ == nullptr) return false;
    ::EGifSetGifVersion(gif_, true);
    // NETSCAPE2.0, sub-block 1: how often to repeat; 0 is for ever.
    static constexpr std::array<unsigned char, 3> kForEver{1, 0, 0};
    return ::EGifPutScreenDesc(gif_, width, height, 8, 0, nullptr) == GIF_OK &&
           ::EGifPutExtensionLeader(gif_, APPLICATION_EXT_FUNC_CODE) == GIF_OK &&
           ::EGifPutExtensionBlock(gif_, 11, "NETSCAPE2.0") == GIF_OK &&
           ::EGifPutExtensionBlock(gif_, kForEver.size(), kForEver.data()) == GIF_OK &&
           ::EGifPutExtensionTrailer(gif_) == GIF_OK;
  }

  bool picture(const Area& area, Indexed picture, int hundredths) {
    const GraphicsControlBlock control{.DisposalMode = DISPOSE_DO_NOT, .UserInputFlag = false, .DelayTime = hundredths,
                                       .TransparentColor = NO_TRANSPARENT_COLOR};
    std::array<GifByteType, 4> packed{};
    const std::size_t length = ::EGifGCBToExtension(&control, packed.data());
    if (::EGifPutExtension(gif_, GRAPHICS_EXT_FUNC_CODE, static_cast<int>(length), packed.data()) != GIF_OK)
      return false;
    std::array<GifColorType, 256> colors{};
    for (std::size_t i = 0; i < picture.colors.size(); ++i)
      colors[i] = {picture.colors[i].red, picture.colors[i].green, picture.colors[i].blue};
    const auto used = static_cast<unsigned>(std::max<std::size_t>(2, picture.colors.size()));
    ColorMapObject* map = ::GifMakeMapObject(static_cast<int>(std::bit_ceil(used)), colors.data());
    if (map == nullptr) return false;
    bool good = ::EGifPutImageDesc(gif_, area.x, area.y, area.width, area.height, false, map) == GIF_OK;
    ::GifFreeMapObject(map);
    for (int y = 0; good && y < area.height; ++y)
      good = ::EGifPutLine(gif_, &picture.pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(area.width)],
                           area.width) == GIF_OK;
    return good;
  }

  // All bytes of the file; once.
  bool close() {
    if (gif_ == nullptr) return false;
    return ::EGifCloseFile(std::exchange(gif_, nullptr), nullptr) == GIF_OK;
  }
  [[nodiscard]] bool closed() const { return gif_ == nullptr; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  static int take(GifFileType* gif, const GifByteType* bytes, int size) {
    auto* self = static_cast<Encoder*>(gif->UserData);
    self->bytes_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    return size;
  }

  std::string bytes_ = {};
  GifFileType* gif_;
};

bool GifWriter::is_built() { return true; }

#else

class GifWriter::Encoder {
 public:
  bool begin(int, int) { return false; }
  bool picture(const Area&, const Indexed&, int) { return false; }
  bool close() { return false; }
  [[nodiscard]] bool closed() const { return true; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = {};
};

bool GifWriter::is_built() { return false; }

#endif

GifWriter::GifWriter(std::filesystem::path path, const GifOptions& options, std::unique_ptr<Encoder> encoder)
    : path_(std::move(path)), options_(options), encoder_(std::move(encoder)) {}
GifWriter::GifWriter(GifWriter&&) noexcept = default;
GifWriter& GifWriter::operator=(GifWriter&&) noexcept = default;
GifWriter::~GifWriter() = default;

troupe::Status GifWriter::check(const GifOptions& options) {
  if (!is_built())
    return troupe::InfeasibleError("this build cannot write GIFs: it was made without giflib (package libgif-dev)");
  if (options.width < 1 || options.height < 1 || options.width > kSideMax || options.height > kSideMax)
    return troupe::InvalidArgumentError(fmt::format("a GIF has 1 to {} pixels a side, and not {} x {}", kSideMax,
                                                    options.width, options.height));
  if (!(options.frames_per_second >= 1 && options.frames_per_second <= kRateMax))
    return troupe::InvalidArgumentError(fmt::format("a GIF shows 1 to {:g} frames a second, and not {:g}", kRateMax,
                                                    options.frames_per_second));
  return {};
}

troupe::Result<GifWriter> GifWriter::create(const std::filesystem::path& path, const GifOptions& options) {
  if (const troupe::Status checked = check(options); !checked.ok()) return checked.error_ptr();
  if (const troupe::Status can = apps::check_writable(path); !can.ok()) return can.error_ptr();
  auto encoder = std::make_unique<Encoder>();
  if (!encoder->begin(options.width, options.height)) return troupe::OutOfMemoryError("giflib cannot begin a GIF");
  return GifWriter(path, options, std::move(encoder));
}

troupe::Status GifWriter::add(const Frame& frame) {
  if (frame.width != options_.width || frame.height != options_.height)
    return troupe::InvalidArgumentError(fmt::format("a frame of {} x {} in a recording of {} x {}", frame.width,
                                                    frame.height, options_.width, options_.height));
  if (encoder_->closed()) return troupe::InvalidArgumentError("a frame for a GIF that is finished");
  const auto due = [&](std::int64_t frames) {
    return std::llround(100 * static_cast<double>(frames) / options_.frames_per_second);
  };
  const Area area = frames_ == 0 ? Area{0, 0, frame.width, frame.height} : difference(last_, frame);
  if (!encoder_->picture(area, indexed(part(frame, area)), static_cast<int>(due(frames_ + 1) - due(frames_))))
    return troupe::OutOfMemoryError("giflib cannot add a frame");
  last_ = frame;
  ++frames_;
  return {};
}

troupe::Status GifWriter::finish() {
  if (frames_ == 0) return troupe::InvalidArgumentError("a recording without a frame");
  if (!encoder_->closed() && !encoder_->close()) return troupe::OutOfMemoryError("giflib cannot end a GIF");
  return apps::write_file(path_, encoder_->bytes());
}

}  // namespace rl
