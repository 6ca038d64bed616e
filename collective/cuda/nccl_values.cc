// The numbers of nccl_api.h against NCCL's own header, where there is one. No code.
#if __has_include(<nccl.h>)
#include <nccl.h>

#include "collective/device/nccl_api.h"

namespace troupe::collective {

static_assert(kNcclSuccess == ncclSuccess && kNcclUnhandledCudaError == ncclUnhandledCudaError &&
              kNcclSystemError == ncclSystemError && kNcclInternalError == ncclInternalError &&
              kNcclInvalidArgument == ncclInvalidArgument && kNcclInvalidUsage == ncclInvalidUsage &&
              kNcclRemoteError == ncclRemoteError && kNcclInProgress == ncclInProgress);
static_assert(kNcclInt8 == ncclInt8 && kNcclUint8 == ncclUint8 && kNcclInt32 == ncclInt32 &&
              kNcclUint32 == ncclUint32 && kNcclInt64 == ncclInt64 && kNcclUint64 == ncclUint64 &&
              kNcclFloat16 == ncclFloat16 && kNcclFloat32 == ncclFloat32 && kNcclFloat64 == ncclFloat64 &&
              kNcclBfloat16 == ncclBfloat16);
static_assert(kNcclSum == ncclSum && kNcclProd == ncclProd && kNcclMax == ncclMax && kNcclMin == ncclMin &&
              kNcclAvg == ncclAvg);
static_assert(kNcclScalarOnHost == ncclScalarHostImmediate && kNcclNoColor == NCCL_SPLIT_NOCOLOR &&
              kNcclUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && nccl_version(2, 28, 9) == NCCL_VERSION(2, 28, 9));
#if NCCL_VERSION_CODE >= 22700
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t) &&
              offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              offsetof(NcclConfig, ctas_min) == offsetof(ncclConfig_t, minCTAs) &&
              offsetof(NcclConfig, ctas_max) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare) &&
              offsetof(NcclConfig, traffic_class) == offsetof(ncclConfig_t, trafficClass) &&
              offsetof(NcclConfig, comm_name) == offsetof(ncclConfig_t, commName));
#endif

}  // namespace troupe::collective
#endif
