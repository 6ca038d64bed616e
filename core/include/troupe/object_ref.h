// References to objects: ObjectRef<T> names a value that exists or will exist somewhere in the cluster.
//
// A ref is a counted handle: copies are cheap, may be made and dropped on any thread, and may be stored in arguments,
// results and other objects. The object lives while any ref to it lives anywhere. The process that made the ref owns
// the object; when it dies, reading gives OwnerDiedError.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include <troupe/detail/counted.h>
#include <troupe/error.h>
#include <troupe/serialize.h>

namespace troupe {

template <class T> class ObjectRef;

namespace detail {
std::string object_id(const ObjectBase* object);
template <class T> const ObjectPtr& pointer_of(const ObjectRef<T>& ref) noexcept;
template <class T> ObjectRef<T> make_ref(ObjectPtr object) noexcept;

template <class T> struct IsRef : std::false_type {};
template <class T> struct IsRef<ObjectRef<T>> : std::true_type { using Value = T; };
template <class T> inline constexpr bool kIsRef = IsRef<std::remove_cvref_t<T>>::value;
}  // namespace detail

template <class T>
class ObjectRef {
 public:
  using value_type = T;

  /// An empty ref: get, wait, cancel, on_ready and a call that would wait for its value throw InvalidArgumentError. As
  /// a value that holds refs it travels, and arrives empty.
  ObjectRef() = default;

  /// The object's id, unique in the cluster; empty for an empty ref.
  std::string id() const { return detail::object_id(object_.get()); }
  explicit operator bool() const noexcept { return bool(object_); }
  bool operator==(const ObjectRef&) const = default;

 private:
  explicit ObjectRef(detail::ObjectPtr object) noexcept : object_(std::move(object)) {}
  friend const detail::ObjectPtr& detail::pointer_of<T>(const ObjectRef<T>&) noexcept;
  friend ObjectRef<T> detail::make_ref<T>(detail::ObjectPtr) noexcept;

  detail::ObjectPtr object_;
};

/// Any ObjectRef, for lists of mixed types.
class AnyRef {
 public:
  AnyRef() = default;
  template <class T> AnyRef(const ObjectRef<T>& ref) : object_(detail::pointer_of(ref)) {}
  std::string id() const { return detail::object_id(object_.get()); }
  explicit operator bool() const noexcept { return bool(object_); }
  bool operator==(const AnyRef&) const = default;
  const detail::ObjectPtr& pointer() const noexcept { return object_; }
  static AnyRef from(detail::ObjectPtr object) { AnyRef ref; ref.object_ = std::move(object); return ref; }

 private:
  detail::ObjectPtr object_;
};

namespace detail {
template <class T> const ObjectPtr& pointer_of(const ObjectRef<T>& ref) noexcept { return ref.object_; }
template <class T> ObjectRef<T> make_ref(ObjectPtr object) noexcept { return ObjectRef<T>(std::move(object)); }

/// Where a writer puts what rides beside the bytes; throws SerializationError when it has no such place.
Attachments& writable_attachments(Writer& ar);

/// In bytes: the index among the value's attached objects, or kNoAttachment for an empty ref.
inline constexpr std::uint32_t kNoAttachment = 0xFFFFFFFF;
template <class T>
struct Attached<ObjectRef<T>> {
  static constexpr std::size_t kMinSize = sizeof(std::uint32_t);
  static void size(Sizer& ar, const ObjectRef<T>&) { ar.add(sizeof(std::uint32_t)); }
  static void write(Writer& ar, const ObjectRef<T>& ref) {
    std::uint32_t index = kNoAttachment;
    if (ref) {
      auto& objects = writable_attachments(ar).objects;
      index = std::uint32_t(objects.size());
      objects.push_back(pointer_of(ref));
    }
    ar(index);
  }
  static void read(Reader& ar, ObjectRef<T>& ref) {
    std::uint32_t index = kNoAttachment;
    ar(index);
    if (index == kNoAttachment) { ref = {}; return; }
    const Attachments* attachments = ar.attachments();
    if (!attachments || index >= attachments->objects.size()) return ar.fail("an object reference out of range");
    ref = make_ref<T>(attachments->objects[index]);
  }
};
}  // namespace detail
}  // namespace troupe
