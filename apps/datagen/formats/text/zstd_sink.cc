#include "apps/datagen/formats/text/zstd_sink.h"

#include <utility>
#include <vector>

#if TROUPE_HAS_ZSTD
#include <zstd.h>
#endif

namespace datagen {

#if TROUPE_HAS_ZSTD

struct ZstdSink::Stream {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> context;
  ByteSink& to;
  std::vector<std::byte> out = std::vector<std::byte>(ZSTD_CStreamOutSize());

  void feed(std::span<const std::byte> bytes, ZSTD_EndDirective end) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool more = true; more;) {
      ZSTD_outBuffer packed{out.data(), out.size(), 0};
      const std::size_t left = ZSTD_compressStream2(context.get(), &packed, &in, end);
      if (ZSTD_isError(left) != 0)
        troupe::RuntimeEnvError(std::string("zstd: ") + ZSTD_getErrorName(left)).raise();
      if (packed.pos != 0) to.write(std::span(out).first(packed.pos));
      more = end == ZSTD_e_end ? left != 0 : in.pos < in.size;
    }
  }
};

troupe::Result<std::string> ZstdSink::library_version() { return std::string(ZSTD_versionString()); }

troupe::Result<std::unique_ptr<ZstdSink>> ZstdSink::open(ByteSink& to, int level) {
  auto stream = std::make_unique<Stream>(
      Stream{.context = std::unique_ptr<ZSTD_CCtx, Stream::Free>(ZSTD_createCCtx()), .to = to});
  if (!stream->context) return troupe::OutOfMemoryError("no memory to compress with zstd");
  ZSTD_CCtx_setParameter(stream->context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(stream->context.get(), ZSTD_c_checksumFlag, 1);
  return std::unique_ptr<ZstdSink>(new ZstdSink(std::move(stream)));
}

void ZstdSink::write(std::span<const std::byte> bytes) { stream_->feed(bytes, ZSTD_e_continue); }
void ZstdSink::finish() { stream_->feed({}, ZSTD_e_end); }
std::uint64_t ZstdSink::written() const { return stream_->to.written(); }

#else

struct ZstdSink::Stream {};

troupe::Result<std::string> ZstdSink::library_version() {
  return troupe::RuntimeEnvError(
      "zstd is not in this build: install libzstd-dev (cmake/install-deps data), build again");
}
troupe::Result<std::unique_ptr<ZstdSink>> ZstdSink::open(ByteSink&, int) { return library_version().error_ptr(); }
void ZstdSink::write(std::span<const std::byte>) {}
void ZstdSink::finish() {}
std::uint64_t ZstdSink::written() const { return 0; }

#endif

ZstdSink::ZstdSink(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
ZstdSink::~ZstdSink() = default;

}  // namespace datagen
