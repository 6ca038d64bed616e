// Codecs of messages: a node's store. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(StoreLeaseRequest)
TROUPE_WIRE_MESSAGE(StoreLeaseReply)
TROUPE_WIRE_MESSAGE(StoreAllocateRequest)
TROUPE_WIRE_MESSAGE(StoreAllocateReply)
TROUPE_WIRE_MESSAGE(StoreFree)
TROUPE_WIRE_MESSAGE(StoreFetchRequest)
TROUPE_WIRE_MESSAGE(StoreFetchReply)
TROUPE_WIRE_MESSAGE(StoreHoldRequest)
TROUPE_WIRE_MESSAGE(StoreUsageReply)
TROUPE_WIRE_MESSAGE(StoreWithdraw)

}  // namespace troupe::wire
