// DeviceArray<T>: an array in a GPU's memory. Collectives take it on both sides; put, it is handed to other processes
// of the node without a copy.
//
//   DeviceArray<float> x(1 << 20);            // this process's GPU
//   x.copy_from(host);  g.all_reduce(x);      // an nccl group: the data stays on the GPU
//   auto ref = put(std::move(x));             // immutable from here on; another actor on the node: get(ref).data()
//
// Invariants
//   DVA-1  Until it is put, an array has one owner and may be written to. From then on it, and every array that is got
//          from its ref, names the same memory, which nobody writes to: data() of an array that is not const throws.
//   DVA-2  The memory lives while any array or ref that names it lives, in any process.
//   DVA-3  What was on stream() when the array was put comes before whatever others do with it on their stream().
// Where CUDA refuses to share memory between processes (containers without IPC, TROUPE_DEVICE_IPC=0) the bytes travel
// through the host's memory: an array that was got is then a copy. Without GPU or CUDA plug-in the constructor throws
// an Error that says what is missing. Thread rule: one thread at a time.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <troupe/array.h>
#include <troupe/collective_types.h>
#include <troupe/serialize.h>

namespace troupe::collective {

class DeviceStorage;

struct DeviceOptions {
  int device = -1;  ///< as this process counts GPUs; -1: its own (of several: LOCAL_RANK)
};

namespace detail {
using StoragePtr = std::shared_ptr<DeviceStorage>;
StoragePtr make_storage(std::size_t bytes, const DeviceOptions& options);
/// Null for no memory. `writes`: throws InvalidArgumentError when it is immutable (DVA-1).
void* storage_data(const StoragePtr& storage, bool writes);
int storage_device(const StoragePtr& storage);
Stream storage_stream(const StoragePtr& storage);
void storage_copy_from(const StoragePtr& storage, const void* host);
void storage_copy_to(const StoragePtr& storage, void* host);
/// What stands in the object's bytes; freezes the array.
void write_storage(troupe::detail::Writer& writer, const StoragePtr& storage);
/// Null, and the reader has failed, when what is there has not `bytes` bytes.
StoragePtr read_storage(troupe::detail::Reader& reader, std::size_t bytes);
std::size_t storage_size();
}  // namespace detail

template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>, "elements of a DeviceArray are trivially copyable");

 public:
  using value_type = T;

  DeviceArray() = default;
  /// Memory for `size` elements, not initialized. OutOfMemoryError; Error without GPU or plug-in.
  explicit DeviceArray(std::size_t size, DeviceOptions options = {})
      : DeviceArray(std::initializer_list<std::size_t>{size}, options) {}
  explicit DeviceArray(std::initializer_list<std::size_t> shape, DeviceOptions options = {})
      : shape_(shape), size_(shape_.elements(sizeof(T))), storage_(detail::make_storage(size_ * sizeof(T), options)) {}
  DeviceArray(DeviceArray&& other) noexcept
      : shape_(std::exchange(other.shape_, {})),
        size_(std::exchange(other.size_, 0)),
        storage_(std::move(other.storage_)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    shape_ = std::exchange(other.shape_, {});
    size_ = std::exchange(other.size_, 0);
    storage_ = std::move(other.storage_);
    return *this;
  }

  /// Device memory. To be written: InvalidArgumentError once the array was put.
  T* data() { return static_cast<T*>(detail::storage_data(storage_, true)); }
  const T* data() const { return static_cast<const T*>(detail::storage_data(storage_, false)); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::span<const std::size_t> shape() const noexcept { return shape_.span(); }
  int device() const { return detail::storage_device(storage_); }
  /// The stream of this GPU's arrays: copies run there; collectives come after what is on it.
  Stream stream() const { return detail::storage_stream(storage_); }

  /// Host memory of size() elements, into the array or out of it. Both wait until it is done. InvalidArgumentError for
  /// another size.
  void copy_from(std::span<const T> host) {
    if (host.size() != size_) throw InvalidArgumentError("copy_from: the sizes differ");
    (void)data();
    if (size_ != 0) detail::storage_copy_from(storage_, host.data());
  }
  void copy_to(std::span<T> host) const {
    if (host.size() != size_) throw InvalidArgumentError("copy_to: the sizes differ");
    if (size_ != 0) detail::storage_copy_to(storage_, host.data());
  }

 private:
  friend struct troupe::detail::Attached<DeviceArray<T>>;
  troupe::detail::Shape shape_;
  std::size_t size_ = 0;
  detail::StoragePtr storage_;
};

}  // namespace troupe::collective

namespace troupe::detail {
/// In bytes: the shape, then what write_storage writes.
template <class T>
struct Attached<collective::DeviceArray<T>> {
  static void size(Sizer& ar, const collective::DeviceArray<T>& array) {
    ar.add(array.shape_.byte_size() + collective::detail::storage_size());
  }
  static void write(Writer& ar, const collective::DeviceArray<T>& array) {
    array.shape_.write(ar);
    collective::detail::write_storage(ar, array.storage_);
  }
  static void read(Reader& ar, collective::DeviceArray<T>& array) {
    Shape shape;
    const std::size_t elements = shape.read(ar);
    if (ar.failed()) return;
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(elements, sizeof(T), &bytes)) return ar.fail("an array's size overflows");
    array = {};
    array.storage_ = collective::detail::read_storage(ar, bytes);
    if (ar.failed()) return;
    array.shape_ = shape;
    array.size_ = elements;
  }
};
}  // namespace troupe::detail
