// NcclApi: the calls of NCCL that the backend uses, as a table. nccl/library.h fills it from a library opened by name;
// tests fill it with ranks that are threads (tests/collective/fake_nccl.h). The declarations are our own; where NCCL's
// header is, the plug-in asserts that every number and offset below is NCCL's own (cuda/nccl_values.cc).
//
// Results are ncclResult_t. Communicators, streams and reduction operations are opaque.
// Thread rule: NCCL's: one thread at a time on a communicator, groups are of the calling thread.
#pragma once
#include <climits>
#include <cstddef>

namespace troupe::collective {

inline constexpr int kNcclSuccess = 0, kNcclUnhandledCudaError = 1, kNcclSystemError = 2, kNcclInternalError = 3,
                     kNcclInvalidArgument = 4, kNcclInvalidUsage = 5, kNcclRemoteError = 6, kNcclInProgress = 7;
inline constexpr int kNcclInt8 = 0, kNcclUint8 = 1, kNcclInt32 = 2, kNcclUint32 = 3, kNcclInt64 = 4, kNcclUint64 = 5,
                     kNcclFloat16 = 6, kNcclFloat32 = 7, kNcclFloat64 = 8, kNcclBfloat16 = 9;
inline constexpr int kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4;
inline constexpr int kNcclScalarOnHost = 1;  ///< ncclScalarHostImmediate
inline constexpr int kNcclNoColor = -1;
inline constexpr int kNcclUndefined = INT_MIN;

/// As NCCL counts: 2.28.9 is 22809.
constexpr int nccl_version(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }
/// The oldest that will do: it launches in the order of the program (NCCL_LAUNCH_ORDER_IMPLICIT).
inline constexpr int kNcclOldest = nccl_version(2, 26, 0);

using NcclHandle = void*;
struct NcclUniqueId {
  char internal[128];
};

/// The first part of ncclConfig_t; `size` and `version` say which part.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = nccl_version(2, 27, 0);
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int ctas_min = kNcclUndefined, ctas_max = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
  int traffic_class = kNcclUndefined;
  const char* comm_name = nullptr;
};

struct NcclApi {
  int (*get_version)(int* version);
  int (*get_unique_id)(NcclUniqueId* id);
  int (*comm_init_rank_config)(NcclHandle* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config);
  int (*comm_split)(NcclHandle comm, int color, int key, NcclHandle* child, NcclConfig* config);
  int (*comm_finalize)(NcclHandle comm);
  int (*comm_destroy)(NcclHandle comm);
  int (*comm_abort)(NcclHandle comm);
  int (*comm_get_async_error)(NcclHandle comm, int* error);
  const char* (*get_error_string)(int result);
  const char* (*get_last_error)(NcclHandle comm);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void* in, void* out, std::size_t count, int type, int op, NcclHandle comm, void* stream);
  int (*reduce)(const void* in, void* out, std::size_t count, int type, int op, int root, NcclHandle comm,
                void* stream);
  int (*broadcast)(const void* in, void* out, std::size_t count, int type, int root, NcclHandle comm, void* stream);
  int (*all_gather)(const void* in, void* out, std::size_t count_each, int type, NcclHandle comm, void* stream);
  int (*reduce_scatter)(const void* in, void* out, std::size_t count_each, int type, int op, NcclHandle comm,
                        void* stream);
  int (*send)(const void* in, std::size_t count, int type, int peer, NcclHandle comm, void* stream);
  int (*recv)(void* out, std::size_t count, int type, int peer, NcclHandle comm, void* stream);
  int (*red_op_create_pre_mul_sum)(int* op, void* scalar, int type, int residence, NcclHandle comm);
  int (*red_op_destroy)(int op, NcclHandle comm);
};

}  // namespace troupe::collective
