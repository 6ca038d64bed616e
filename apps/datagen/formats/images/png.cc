#include "apps/datagen/formats/images/png.h"

#include <fmt/format.h>

#if TROUPE_HAS_PNG
#include <png.h>
#endif

namespace datagen {

#if TROUPE_HAS_PNG

troupe::Result<std::string> png_library_version() { return std::string(PNG_LIBPNG_VER_STRING); }

troupe::Result<std::string> encode_png(const Picture& picture) {
  const auto [width, height, channels, pixels] = picture;
  if (width == 0 || height == 0 || (channels != 1 && channels != 3) || pixels.size() != width * height * channels)
    return troupe::InvalidArgumentError(fmt::format("{} bytes are no picture of {} x {} pixels of {} channels",
                                                    pixels.size(), width, height, channels));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
    return troupe::RuntimeEnvError(std::string("PNG: ") + image.message);
  out.resize(size);
  return out;
}

#else

troupe::Result<std::string> png_library_version() {
  return troupe::RuntimeEnvError("PNG is not in this build: install libpng-dev (cmake/install-deps data), build again");
}
troupe::Result<std::string> encode_png(const Picture&) { return png_library_version().error_ptr(); }

#endif

}  // namespace datagen
