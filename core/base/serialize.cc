#include <string>

#include <troupe/detail/serialize_archive.h>

namespace troupe::detail {

void throw_too_deep() {
  throw SerializationError("the value is nested more than " + std::to_string(kMaxDepth) + " containers deep");
}

void throw_changed_while_encoded() {
  throw SerializationError(
      "the value changed while it was encoded: its serialize function is not the same in both passes, or another "
      "thread "
      "wrote to it");
}

Status Reader::finish(std::string_view type) {
  if (!reason_ && at_ != end_) fail("is followed by bytes that belong to nothing");
  if (!reason_) return {};
  return SerializationError("cannot decode " + std::string(type) + ": the encoded value " + reason_ + " (at byte " +
                            std::to_string(failed_at_) + " of " + std::to_string(end_ - begin_) + ")");
}

}  // namespace troupe::detail
