// What collectives are told and what they answer: element types, reductions, options, errors. <troupe/collective.h> has
// the operations.
//
// Thread rule: plain values; errors are immutable.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/duration.h>
#include <troupe/error.h>
#include <troupe/half.h>

namespace troupe::collective {

using troupe::bfloat16;
using troupe::float16;

/// How the ranks exchange bytes. kAuto: shared memory where all ranks are on one node, else sockets between nodes
/// (kTcp), and memory within those that have several ranks (kHier); where all members are actors that hold a GPU, NCCL
/// beside that: device memory goes by NCCL, memory of the host as without it. kNccl: everything by NCCL, memory of the
/// host being staged.
enum class Backend : std::uint8_t { kAuto, kShm, kTcp, kHier, kNccl };

/// How elements are combined; without an argument they are summed.
class Op {
 public:
  enum Kind : std::uint8_t { kSum, kProduct, kMin, kMax, kAvg, kPreMulSum };

  constexpr Op(Kind kind = kSum) noexcept : kind_(kind) {}
  /// Each input is multiplied by x, converted to the type calculated in, before it is added. All ranks give the same x.
  static constexpr Op pre_mul_sum(double x) noexcept {
    Op op(kPreMulSum);
    op.scale_ = x;
    return op;
  }
  constexpr Kind kind() const noexcept { return kind_; }
  constexpr double scale() const noexcept { return scale_; }
  explicit constexpr operator int() const noexcept { return kind_; }
  friend constexpr bool operator==(const Op&, const Op&) = default;

 private:
  Kind kind_ = kSum;
  double scale_ = 1;
};

/// A CUDA stream (cudaStream_t). Default: the group's own.
class Stream {
 public:
  constexpr Stream() = default;
  constexpr Stream(void* handle) noexcept : handle_(handle) {}
  constexpr void* handle() const noexcept { return handle_; }

 private:
  void* handle_ = nullptr;
};

struct GroupOptions {
  std::string name = {};
  Backend backend = Backend::kAuto;             ///< kAuto: TROUPE_COLLECTIVE_BACKEND, where it is set, says which
  Duration timeout = std::chrono::seconds(30);  ///< of every operation that names none
  bool deterministic = false;                   ///< equal bits whatever the algorithm; shared memory always does that
};

inline constexpr Duration kGroupTimeout = Duration::min();  ///< the timeout of the group

/// The last argument of every operation.
struct OpOptions {
  /// 0 or less: kTimeout at once, unless what it needs from the others is there already
  Duration timeout = kGroupTimeout;
  Stream stream = {};
};

struct LookupOptions {
  std::uint64_t after_epoch = 0;                ///< wait for an epoch after this one
  Duration timeout = std::chrono::seconds(30);
};

struct JoinOptions {
  /// HOST:PORT, or a path (with a slash, or without a colon) that all ranks can reach: rank 0 listens there. Empty:
  /// MASTER_ADDR and MASTER_PORT where they are set, else a path made of user and name. What is at the path is left
  /// alone unless it is the socket of a rank 0 that is gone.
  std::string address = {};
  Duration timeout = std::chrono::seconds(60);            ///< of the meeting
  Duration operation_timeout = std::chrono::seconds(30);  ///< of every operation of the group that names none
  /// Only who has the same is let in, 127 bytes at most. It never travels: both sides prove it. A short one can be
  /// guessed from a proof; empty: anybody is let in.
  std::string token = {};
  /// at an address: kAuto shares memory where all ranks are on one machine; it never means NCCL here
  Backend backend = Backend::kAuto;
  bool deterministic = false;
};

inline constexpr int kFromEnvironment = -1;  ///< join's rank and size: what mpirun or torchrun has set

/// How a group came to its end.
struct BrokenGroup {
  std::uint64_t epoch = 0;
  std::string reason = {};
  std::vector<int> missing_ranks = {};
};

/// kTimeout: the deadline of an operation passed. kDied: a member is gone. kAborted: by request, or a call that was
/// cancelled. kMismatch: the ranks called different things. kStale: a handle of an older epoch. kBackend: the means of
/// transport failed.
enum class Reason : std::uint8_t { kTimeout, kDied, kAborted, kMismatch, kStale, kBackend };
const char* reason_name(Reason reason);

}  // namespace troupe::collective

namespace troupe {

/// A collective operation failed. It fails on all ranks, and its group is of no use until it is formed again.
class CollectiveError : public detail::ErrorOf<CollectiveError, ErrorCode::kCollective> {
 public:
  using ErrorOf::ErrorOf;

  struct Facts {
    collective::Reason reason = collective::Reason::kBackend;
    std::string group = {};
    std::uint64_t epoch = 0, sequence = 0;
    std::string operation = {};
    int rank = -1;
    std::vector<int> missing_ranks = {};
  };
  /// `text` says what happened; the message names group, operation and rank as well.
  static CollectiveError from(const Facts& facts, const std::string& text);

  collective::Reason reason() const;
  std::string group() const { return detail_at(1); }
  std::uint64_t epoch() const;
  std::uint64_t sequence() const;  ///< which operation of the group, from 1
  std::string operation() const { return detail_at(4); }
  int rank() const;                ///< the rank that reports
  std::vector<int> missing_ranks() const;

 private:
  std::string detail_at(std::size_t index) const {
    return index < record().details.size() ? record().details[index] : std::string();
  }
};

}  // namespace troupe

namespace troupe::collective {
using troupe::CollectiveError;

namespace detail {

/// The numbers are those of the kernels and travel between ranks: they never change.
enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI8, kU8, kI32, kU32, kI64, kU64 };

template <class T> struct DTypeOf {};
template <> struct DTypeOf<double> { static constexpr DType kValue = DType::kF64; };
template <> struct DTypeOf<float> { static constexpr DType kValue = DType::kF32; };
template <> struct DTypeOf<float16> { static constexpr DType kValue = DType::kF16; };
template <> struct DTypeOf<bfloat16> { static constexpr DType kValue = DType::kBF16; };
template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8))
struct DTypeOf<T> {
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr DType kValue = sizeof(T) == 1 ? (kSigned ? DType::kI8 : DType::kU8)
                                  : sizeof(T) == 4 ? (kSigned ? DType::kI32 : DType::kU32)
                                                   : (kSigned ? DType::kI64 : DType::kU64);
};
template <class T> concept Element = requires { DTypeOf<T>::kValue; };

/// Contiguous memory of known size. Named by data and size alone, so that Array and an open ArrayBuilder are such
/// memory too.
template <class R> using PointerOf = decltype(std::ranges::data(std::declval<R&>()));
template <class R> using ElementOf = std::remove_cv_t<std::remove_pointer_t<PointerOf<R>>>;
template <class R>
concept Input = requires(R& range) {
  { std::ranges::data(range) };
  { std::ranges::size(range) } -> std::convertible_to<std::size_t>;
} && Element<ElementOf<R>>;
template <class R> concept Output = Input<R> && !std::is_const_v<std::remove_pointer_t<PointerOf<R>>>;

/// Memory of a GPU, with the stream on which it is worked on: DeviceArray.
template <class R>
concept OnDevice = requires(const std::remove_cvref_t<R>& range) {
  { range.device() } -> std::convertible_to<int>;
  { range.stream() } -> std::same_as<Stream>;
};
/// What is only read is asked for as such: a DeviceArray that was put may be.
template <class R> const void* input_of(R& range) {
  if constexpr (OnDevice<R>) return std::ranges::data(std::as_const(range));
  else return std::ranges::data(range);
}

enum class Kind : std::uint8_t {
  kBarrier = 1, kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll, kGather, kScatter,
  kAllGatherV, kGatherV, kScatterV, kAllToAllV, kSend, kRecv, kSplit,
};
const char* kind_name(Kind kind);

/// One operation as one rank asks for it: untyped, so that everything below the public header is compiled once.
struct Operation {
  Kind kind = Kind::kBarrier;
  DType type = DType::kU8;
  Op op = {};
  int peer = 0;  ///< the root, or the other side of a message
  int tag = 0;
  const void* in = nullptr;
  std::size_t in_count = 0;
  void* out = nullptr;
  std::size_t out_count = 0;
  std::vector<std::size_t> counts = {};       ///< of the v-variants, one a rank
  std::vector<std::size_t> recv_counts = {};  ///< all_to_all_v
  OpOptions options = {};
  bool on_device = false;                     ///< a DeviceArray is among in and out

  /// It comes after what is on the array's stream, unless another stream was named.
  template <class R> void uses(const R& range) {
    if constexpr (OnDevice<R>) {
      on_device = true;
      if (range.size() != 0 && !options.stream.handle()) options.stream = range.stream();
    }
  }
};

}  // namespace detail

/// Elements for each rank, by value: any contiguous range of integers, or a list.
class Counts {
 public:
  Counts(std::initializer_list<std::size_t> counts) : counts_(counts) {}
  template <std::ranges::contiguous_range R>
    requires(std::integral<std::ranges::range_value_t<R>> && !std::same_as<std::remove_cvref_t<R>, Counts>)
  Counts(const R& counts) {
    counts_.reserve(std::ranges::size(counts));
    for (auto count : counts) {
      if (std::cmp_less(count, 0)) throw InvalidArgumentError("a negative count");
      counts_.push_back(static_cast<std::size_t>(count));
    }
  }
  const std::vector<std::size_t>& values() const& noexcept { return counts_; }
  std::vector<std::size_t>&& values() && noexcept { return std::move(counts_); }

 private:
  std::vector<std::size_t> counts_;
};

}  // namespace troupe::collective
