// A TensorBoard event file with scalars: what `tensorboard --logdir FOLDER` draws while the training runs.
//
// One thread at a time; nothing runs in the background. The caller brings the time: seconds since 1970, because that
// is what the file holds.
//
// The file is FOLDER/events.out.tfevents.SECONDS.HOST.PID.N, a sequence of records (records.h). Each is a message
// `Event` of tensorboard/compat/proto/event.proto and summary.proto, encoded here by hand: five fields do not justify
// linking Protocol Buffers.
//
//   Event          1 wall_time (double)   2 step (int64)   3 file_version (string)   5 summary   7 session_log
//   Summary        1 value (repeated)
//   Summary.Value  1 tag (string)   2 simple_value (float)
//   SessionLog     1 status (1: START)
//
// simple_value, as PyTorch's SummaryWriter writes it: TensorBoard's readers of every age take it for a scalar.
//
// TBE-1  A new file begins with file_version "brain.Event:2" and a session START at `first_step`. No file is opened
//        twice: a run that is resumed in the same folder gets a file of its own, and TensorBoard forgets what the
//        earlier ones say from that step on.
// TBE-2  Records are appended, in order, whole; none is changed later. They are written when flush_seconds have passed
//        since the last time, by flush() and by the destructor.
// TBE-3  A write that fails (a full disk) is a typed Status and loses nothing: the records wait for the next flush.
//        When more than pending_bytes_max wait, new ones are left out and counted. Training need not stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <troupe/result.h>

#include "apps/common/append_file.h"

namespace apps::tensorboard {

struct EventFileOptions {
  std::int64_t first_step = 0;  ///< of this run: where it was resumed
  double flush_seconds = 10;
  std::size_t pending_bytes_max = 4 << 20;
};

struct Scalar {
  std::string_view tag;  ///< printable ASCII; "group/name" makes groups
  double value = 0;      ///< kept as a float; NaN and infinities are allowed
};

class EventFile {
 public:
  /// Makes the folder and, in it, a file that was not there. InvalidArgumentError where that cannot be, and for a
  /// time that is none.
  static troupe::Result<EventFile> create(const std::filesystem::path& folder, double wall_time,
                                          const EventFileOptions& options);
  EventFile(EventFile&&) = default;
  EventFile& operator=(EventFile&&) = delete;
  ~EventFile();

  /// One event with all scalars of a step. InvalidArgumentError for a tag that is empty or not printable ASCII, and
  /// then nothing is added. Any other error is that of a flush that was due.
  troupe::Status add(std::int64_t step, double wall_time, std::span<const Scalar> scalars);
  troupe::Status flush();

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// Events that were left out (TBE-3).
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }

 private:
  EventFile(AppendFile file, const EventFileOptions& options, double wall_time)
      : file_(std::move(file)), options_(options), flushed_at_(wall_time) {}

  AppendFile file_;
  EventFileOptions options_;
  std::string pending_ = {};
  double flushed_at_;
  std::int64_t dropped_ = 0;
};

}  // namespace apps::tensorboard
