// Payloads of the hot frames: flat little-endian structs and byte runs, written and read without the general codec.
//
// kCall    CallHead, then name, key and group texts, an encoded wire::TaskGrant (resources_size), then arguments and
//          dependencies as value blocks
// kReply   ReplyHead, then value blocks or an encoded ErrorRecord
// kStreamItem, kValue  ReplyHead likewise
// kControl header.arg0 = Control; the rest by kind
//
// Value block: ValueHead, buffers (BufferDesc as 24 bytes), object ids (16 bytes), handles (length, codec bytes), body.
//
// Invariants
//   RFM-1  A reader never reads outside the payload: every count is checked against the bytes left. A bad frame is
//          never a crash and never a value: where somebody waits for what it brings, that fails with a
//          SerializationError (values that a reply lacks when they are read); one that names nobody is dropped with a
//          log line (Runtime::bad_frame).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/ids.h"
#include "core/net/base/frame.h"

namespace troupe::worker {

enum class CallKind : std::uint8_t { kTask = 1, kActorCall = 2, kCast = 3, kStop = 4, kConstructLight = 5 };

struct CallHead {
  std::uint64_t call_id = 0;      // of the submitter; replies name it
  ActorId actor;                  // calls
  std::uint64_t hold = 0;         // to be acknowledged when refs and buffers have arrived; 0: nothing to acknowledge
  std::uint64_t lease = 0;        // tasks: under which they run
  std::uint64_t caller = 0;       // who calls, within the source: order is kept per caller
  double cpus = 1;                // what the task was given
  std::uint32_t function = 0, dependencies = 0, attempt = 0, stream_buffer = 0;
  std::uint16_t name_size = 0, key_size = 0, group_size = 0, returns = 0;
  CallKind kind = CallKind::kTask;
  std::uint8_t stream = 0;
  std::uint8_t shared = 0;        // tasks: the worker holds others that wait; this one runs beside them
  // calls: the actor was made in its host by its maker itself, whose frame may come later
  std::uint8_t direct = 0;
  std::uint32_t resources_size = 0;  // an encoded wire::TaskGrant when not just cpus
};
static_assert(std::is_trivially_copyable_v<CallHead> && sizeof(CallHead) == 88);

enum class ReplyStatus : std::uint8_t { kValues = 0, kError = 1, kStreamEnd = 2 };
/// In ReplyHead::run_us: the call's function was not run for this reply.
inline constexpr std::uint32_t kNotRun = 0xFFFF'FFFF;
/// In ReplyHead::index of an error: the actor had ended before it began this call, which is its next life's, if any.
inline constexpr std::uint64_t kNotBegun = 1;

struct ReplyHead {
  std::uint64_t call_id = 0;      // or request token of a kValueRequest, or the object
  std::uint64_t hold = 0;
  std::uint64_t index = 0;        // stream items: number from 0
  std::uint32_t run_us = kNotRun; // how long the function ran, whatever came of it
  std::uint16_t values = 0;
  ReplyStatus status = ReplyStatus::kValues;
  std::uint8_t lent = 0;          // tasks: it waited, and its lease's CPUs were given to others meanwhile
};
static_assert(std::is_trivially_copyable_v<ReplyHead> && sizeof(ReplyHead) == 32);

struct ValueHead {
  std::uint32_t body = 0, refs = 0, handles = 0;
  std::uint32_t buffers : 31 = 0;
  std::uint32_t body_in_buffer : 1 = 0;  // the last buffer is the body
};
static_assert(sizeof(ValueHead) == 16);

enum class Control : std::uint64_t {
  kRelease = 1,      // borrower -> owner: payload (ObjectId, grants)...
  kBorrow = 2,       // borrower -> owner: payload ObjectIds
  kBorrowed = 3,     // owner -> borrower: payload ObjectId
  kHoldAck = 4,      // receiver -> sender: payload u64 hold tokens
  kCancel = 5,       // submitter -> executing process: arg1 call id, arg2 flags
  kCancelObject = 6, // borrower -> owner: payload ObjectId; arg2 flags
  kRecalled = 7,     // executing process -> submitter: payload call ids that it gives back unbegun
  kStreamCredit = 8, // reader -> producer: arg1 call id, arg2 items read in all
  kStreamDrop = 9,   // reader -> producer: arg1 call id
};
inline constexpr std::uint64_t kCancelRecursive = 1, kCancelDeadline = 2, kCancelForce = 4;

/// Appends flat data to a buffer that is reused from frame to frame.
class FrameWriter {
 public:
  explicit FrameWriter(std::vector<std::byte>& memory) : memory_(memory) { memory_.clear(); }
  template <class T> void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(&value, sizeof value);
  }
  void bytes(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = memory_.size();
    memory_.resize(at + size);
    std::memcpy(memory_.data() + at, data, size);
  }
  void text(std::string_view value) { bytes(value.data(), value.size()); }
  std::size_t position() const { return memory_.size(); }
  template <class T>
  void patch(std::size_t at, const T& value) {
    std::memcpy(memory_.data() + at, &value, sizeof value);
  }
  ByteView view() const { return {memory_.data(), memory_.size()}; }

 private:
  std::vector<std::byte>& memory_;
};

class FrameReader {
 public:
  explicit FrameReader(ByteView bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  template <class T> T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const std::byte* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  const std::byte* take(std::size_t size) {
    if (failed_ || size > left()) { failed_ = true; return nullptr; }
    return std::exchange(at_, at_ + size);
  }
  std::string text(std::size_t size) {
    const std::byte* from = take(size);
    return from ? std::string(reinterpret_cast<const char*>(from), size) : std::string();
  }
  /// Everything that is left.
  ByteView rest() {
    const std::size_t size = left();
    return {take(size), size};
  }
  std::size_t left() const { return std::size_t(end_ - at_); }
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }

 private:
  const std::byte* at_;
  const std::byte* end_;
  bool failed_ = false;
};

}  // namespace troupe::worker
