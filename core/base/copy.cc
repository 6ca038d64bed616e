#include <troupe/detail/serialize_archive.h>
namespace troupe::detail { void copy_large(void* to, const void* from, std::size_t n) noexcept { std::memcpy(to, from, n); } }
