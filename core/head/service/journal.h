// Journal: what a head has heard, in a file of its session folder, so that a head that was killed can be started again
// as the same head.
//
// The head's state machine is deterministic (state.h): its seed and its events, with their times, are its state. The
// file begins with an Identity; then comes a record for each thing that the server has heard, in the order of hearing.
// Whoever recovers reads the records and does all again, with its hands tied.
//
//   file    = magic(8) identity record*
//   record  = size(4, of what follows) kind(1) time(8) a(8) b(8) bytes
//
// It is written with write(2) and not synchronized: it survives the end of the process, not that of the machine.
//
// Thread rule: one thread at a time.
//
// Invariants
//   HJ-1  What append() took survives a SIGKILL; of a record that was cut off nothing is read, and what follows
//         overwrites it.
//   HJ-2  One process at a time writes a journal.
//   HJ-3  A journal that would pass its bound, or cannot be written, is removed: nobody recovers from half of one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/head/state/events.h"
#include <troupe/result.h>

namespace troupe::head {

inline constexpr std::uint64_t kJournalBytesMax = std::uint64_t{256} << 20;

class Journal {
 public:
  /// What a head must have in common with the one before it to be the same.
  struct Identity {
    std::string cluster_id;
    std::uint64_t seed = 0;
    std::uint64_t incarnation = 0;
  };
  enum class Kind : std::uint8_t {
    kOpened = 1,       ///< a: the link, b: the incarnation of its peer
    kClosed,           ///< a: the link
    kFrame,            ///< a frame of a node's session; a: the node
    kOutside,          ///< a frame outside of any; a: the link
    kAcknowledged,     ///< a: the node, b: how many of the frames to it
    kNobodyListens,    ///< a: the node
    kProbeBroken,      ///< a: the node
    kTick,
  };
  struct Record {
    Kind kind = Kind::kTick;
    Time time = {};
    std::uint64_t a = 0, b = 0;
    ByteView bytes = {};   ///< of a frame: header and payload
  };

  /// A new one, over any that was there.
  static Result<std::unique_ptr<Journal>> create(const std::string& path, const Identity& identity,
                                                 std::uint64_t bytes_max = kJournalBytesMax);
  /// The one that is there, to be gone on with.
  /// Errors: NotFoundError (there is none, or it was given up), InvalidArgumentError (HJ-2, or it is no journal).
  static Result<std::unique_ptr<Journal>> recover(const std::string& path,
                                                  std::uint64_t bytes_max = kJournalBytesMax);

  const Identity& identity() const { return identity_; }
  /// All records that are there, in their order; before the first append. Ends at the first false.
  Status replay(const std::function<bool(const Record&)>& take) const;
  void append(const Record& record, ByteView more = {});
  /// HJ-3
  bool given_up() const { return !file_; }

 private:
  Journal(std::string path, UniqueFd file, std::uint64_t bytes_max)
      : path_(std::move(path)), file_(std::move(file)), bytes_max_(bytes_max) {}
  Status read_identity();
  void give_up(const std::string& why);

  std::string path_;
  UniqueFd file_;
  std::uint64_t bytes_max_;
  Identity identity_;
  std::uint64_t begin_ = 0, end_ = 0;   ///< of the records
};

}  // namespace troupe::head
