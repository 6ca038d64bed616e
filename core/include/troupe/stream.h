// RefStream<T>: what a generator task gives its caller; an input range of ObjectRef<T>.
//
//   for (auto item : task<&pages>.remote(url)) use(get(item));
//
// Items are refs like others. An error is the last item: get of it throws. Dropping the stream stops the producer and
// destroys its locals. Move-only; one thread at a time.
#pragma once
#include <cstddef>
#include <iterator>
#include <utility>

#include <troupe/object_ref.h>

namespace troupe {

namespace detail {
/// The next item; null at the end. Waits for the producer; throws CancelledError when the caller is cancelled.
ObjectPtr next_item(StreamBase& stream);
}  // namespace detail

template <class T>
class RefStream {
 public:
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = ObjectRef<T>;
    iterator() = default;
    const ObjectRef<T>& operator*() const noexcept { return item_; }
    const ObjectRef<T>* operator->() const noexcept { return &item_; }
    iterator& operator++() {
      item_ = {};
      item_ = detail::make_ref<T>(detail::next_item(*stream_));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return !item_; }

   private:
    friend class RefStream;
    explicit iterator(detail::StreamBase* stream) : stream_(stream) { ++*this; }
    detail::StreamBase* stream_ = nullptr;
    ObjectRef<T> item_;
  };

  RefStream() = default;
  explicit RefStream(detail::StreamPtr stream) : stream_(std::move(stream)) {}
  RefStream(RefStream&&) noexcept = default;
  RefStream& operator=(RefStream&&) noexcept = default;
  RefStream(const RefStream&) = delete;
  RefStream& operator=(const RefStream&) = delete;

  /// Waits for the first item. To be called once.
  iterator begin() { return stream_ ? iterator(stream_.get()) : iterator(); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  detail::StreamPtr stream_;
};

}  // namespace troupe
