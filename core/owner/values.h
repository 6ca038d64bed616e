// ValueCodec: values in and out of frames and control messages, with the refs, buffers and handles that ride beside
// their bytes. What a frame's value looks like stands in core/runtime/frames.h.
//
// Thread rule: lock held.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

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

  // ---- values that outlive their processes (docs/decisions/015)
  /// The refs inside a value and inside their values, each once: by value when they are ready. What is beyond
  /// kRefBytesMax of bodies is left out: it can be read while its owner lives.
  struct Refs {
    std::vector<wire::KeptRef> ready;
    std::vector<detail::ObjectPtr> pending;
    boost::unordered_flat_set<ObjectId, IdHash> seen;
    std::size_t bytes = 0, left_out = 0;
  };
  static constexpr std::size_t kRefBytesMax = 8 << 20;  // they lie in the head
  void add_refs(const detail::Value& value, Outgoing& hold, Refs& refs);
  /// Objects of this process in the place of those that were kept by value.
  using Copies = boost::unordered_flat_map<ObjectId, detail::ObjectPtr, IdHash>;
  Copies copies_of(const std::vector<wire::KeptRef>& refs);
  /// A ref for which there is a copy becomes one to the copy.
  /// `arrival`: who waits for what is in it to be counted; 0: nobody.
  detail::Value restore(const wire::ValueDesc& desc, const Copies& copies = {}, std::uint64_t arrival = 0);

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
