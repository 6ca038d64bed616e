#include "objectstore/client/client.h"

#include "objectstore/client/client_core.h"

namespace troupe::store {

#ifdef TROUPE_HARDENED
const bool kHardenedBuild = true;
#else
const bool kHardenedBuild = false;
#endif

Pin::Pin(const Pin& other) noexcept : core_(other.core_), data_(other.data_), size_(other.size_), id_(other.id_) {
  if (core_) core_->copy_pin(id_.slot);
}

void Pin::drop() noexcept { core_->drop_pin(id_); }

WritableBuffer::WritableBuffer(WritableBuffer&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)),
      data_(other.data_),
      size_(other.size_),
      offset_(other.offset_),
      id_(other.id_) {}

WritableBuffer& WritableBuffer::operator=(WritableBuffer&& other) noexcept {
  if (this == &other) return *this;
  if (core_) core_->abandon(*this);
  core_ = std::exchange(other.core_, nullptr);
  data_ = other.data_;
  size_ = other.size_;
  offset_ = other.offset_;
  id_ = other.id_;
  return *this;
}

WritableBuffer::~WritableBuffer() {
  if (core_) core_->abandon(*this);
}

Result<std::unique_ptr<StoreClient>> StoreClient::create(StoreHandles handles, StoreDaemon& daemon,
                                                         StoreClientOptions options) {
  auto core = detail::ClientCore::create(std::move(handles), daemon, options);
  if (!core.ok()) return core.error_ptr();
  return std::unique_ptr<StoreClient>(new StoreClient(*core));
}

StoreClient::~StoreClient() { core_->close(); }

Result<WritableBuffer> StoreClient::allocate(std::size_t size) { return core_->allocate(size); }
Pin StoreClient::seal(WritableBuffer buffer) noexcept { return core_->seal(buffer); }
Pin StoreClient::try_pin(BufferId id) noexcept { return core_->try_pin(id); }
void StoreClient::mark_shared(const Pin& pin) noexcept {
  if (pin) core_->mark_shared(pin.id());
}
void StoreClient::flush() noexcept { core_->flush(); }
void StoreClient::trim() noexcept { core_->trim(); }
void StoreClient::add_lease(Lease lease) { (void)core_->add_lease(std::move(lease)); }
bool StoreClient::contains(const void* ptr) const noexcept { return core_->contains(ptr); }
const std::byte* StoreClient::arena() const noexcept { return core_->arena(); }
const StoreLayout& StoreClient::layout() const noexcept { return core_->layout(); }
StoreClientStats StoreClient::stats() const { return core_->stats(); }

}  // namespace troupe::store
