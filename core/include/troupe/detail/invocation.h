// One call as the executing side sees it: encoded arguments in, encoded results out. The thunks that the templates of
// call.h make for each function translate between this and C++ values.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <troupe/detail/counted.h>
#include <troupe/generator.h>
#include <troupe/result.h>
#include <troupe/serialize.h>

namespace troupe::detail {

/// A running generator without its type.
class GeneratorBase {
 public:
  virtual ~GeneratorBase() = default;
  /// Encodes the next item into `item`; false at the end. User exceptions pass.
  virtual bool next(Value& item) = 0;
  /// What the coroutine refers to, its arguments and its closure, outlives it.
  void keep(std::shared_ptr<void> what) { kept_.push_back(std::move(what)); }

 private:
  std::vector<std::shared_ptr<void>> kept_;  // destroyed after the coroutine, which is a derived class's
};

struct Invocation {
  // in
  std::span<const std::byte> body;                    ///< encoded arguments
  const Attachments* attachments = nullptr;           ///< of the body
  std::span<const Value* const> dependencies;         ///< values of the refs that were arguments
  void* instance = nullptr;                           ///< methods: the object
  // out
  std::vector<Value> results;                         ///< one a return value; none for void
  std::unique_ptr<GeneratorBase> generator;
  ErrorPtr error;                                     ///< a Result that held an error
  void* constructed = nullptr;                        ///< constructors: the new object
};

/// Memory for an encoded value of `size` bytes: in place, on the heap, or (above 100 KiB) in the store, where it may
/// throw ObjectStoreFullError. seal_value ends the writing.
std::byte* open_value(Value& value, std::size_t size);
void seal_value(Value& value);

template <class... T>
void encode_to(Value& value, const T&... items) {
  Sizer sizer;
  sizer(items...);
  Attachments attachments;
  Writer writer({open_value(value, sizer.size()), sizer.size()}, &attachments);
  writer(items...);
  writer.finish();
  if (!attachments.empty()) value.attachments = std::make_unique<Attachments>(std::move(attachments));
  seal_value(value);
}

template <class T>
Value encode_value(const T& item) {
  Value value;
  encode_to(value, item);
  return value;
}

/// Throws SerializationError when the bytes are no T.
template <class T>
T decode_value(const Value& value) {
  Reader reader({value.data(), value.size()}, value.attachments.get());
  T item{};
  reader(item);
  reader.finish(type_name<T>()).value();
  return item;
}

template <class T>
class GeneratorOf final : public GeneratorBase {
 public:
  explicit GeneratorOf(Generator<T> generator) : generator_(std::move(generator)) {}
  bool next(Value& item) override {
    T* value = generator_.next();
    if (value) encode_to(item, *value);
    return value != nullptr;
  }

 private:
  Generator<T> generator_;
};

}  // namespace troupe::detail
