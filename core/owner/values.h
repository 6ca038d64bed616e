// ValueCodec: values in and out of frames and control messages, with the refs, buffers and handles that ride beside
// their bytes. What a frame's value looks like stands in core/runtime/frames.h.
//
// Thread rule: lock held.
#pragma once
#include "core/owner/buffers.h"
#include "core/owner/calling_side.h"
#include "core/owner/holds.h"
#include "core/owner/objects.h"
#include "core/runtime/frames.h"
#include "core/wire/messages.h"

namespace troupe::worker {

class ValueCodec {
 public:
  ValueCodec(Runtime& runtime, ObjectTable& objects, HoldTable& holds, BufferTable& buffers)
      : runtime_(runtime), objects_(objects), holds_(holds), buffers_(buffers) {}
  void set_calling_side(CallingSide& calls) { calls_ = &calls; }

  // ---- hot frames
  /// Writes one value block; what it names and the receiver must be given a count of goes into `hold`.
  void write(FrameWriter& out, const detail::Value& value, Outgoing& hold);
  /// The bytes that write() will take, at most.
  std::size_t frame_size(const detail::Value& value);
  /// Reads one; a block that does not decode makes `in` fail.
  detail::Value read(FrameReader& in, const Arrival& arrival);
  /// A reply that nobody waits for any more: what rides in it is taken in and let go, or its sender would keep it
  /// (OH-1).
  void discard(const ReplyHead& head, FrameReader& in, ProcessId source);

  // ---- control messages
  wire::ValueDesc describe(const detail::Value& value, Outgoing& hold);
  detail::Value restore(const wire::ValueDesc& desc);

 private:
  detail::ObjectPtr object(ObjectId id, const Arrival& arrival);
  detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival);

  Runtime& runtime_;
  ObjectTable& objects_;
  HoldTable& holds_;
  BufferTable& buffers_;
  CallingSide* calls_ = nullptr;
};

ErrorPtr object_lost(const std::string& what);

}  // namespace troupe::worker
