// Codecs of messages: nodes, jobs, the key-value table, state queries and metrics. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(RegisterNode)
TROUPE_WIRE_MESSAGE(RegisterNodeReply)
TROUPE_WIRE_MESSAGE(NodeLoad)
TROUPE_WIRE_MESSAGE(ClusterView)
TROUPE_WIRE_MESSAGE(ClusterInfo)
TROUPE_WIRE_MESSAGE(RegisterJob)
TROUPE_WIRE_MESSAGE(RegisterJobReply)
TROUPE_WIRE_MESSAGE(JobImageRequest)
TROUPE_WIRE_MESSAGE(JobImageReply)
TROUPE_WIRE_MESSAGE(JobFinished)
TROUPE_WIRE_MESSAGE(JobEnded)
TROUPE_WIRE_MESSAGE(KvKey)
TROUPE_WIRE_MESSAGE(KvEntry)
TROUPE_WIRE_MESSAGE(KvValue)
TROUPE_WIRE_MESSAGE(KvSwap)
TROUPE_WIRE_MESSAGE(KvDeleted)
TROUPE_WIRE_MESSAGE(KvKeyList)
TROUPE_WIRE_MESSAGE(StateQuery)
TROUPE_WIRE_MESSAGE(StateReply)
TROUPE_WIRE_MESSAGE(MetricsReport)

}  // namespace troupe::wire
