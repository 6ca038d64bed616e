// Codecs of messages: processes of a node, leases, deaths. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(ConnectRequest)
TROUPE_WIRE_MESSAGE(ConnectReply)
TROUPE_WIRE_MESSAGE(LeaseWanted)
TROUPE_WIRE_MESSAGE(LeaseGranted)
TROUPE_WIRE_MESSAGE(LeaseRefused)
TROUPE_WIRE_MESSAGE(LeaseCounted)
TROUPE_WIRE_MESSAGE(LeaseReturned)
TROUPE_WIRE_MESSAGE(LeaseRenew)
TROUPE_WIRE_MESSAGE(LeaseRenewed)
TROUPE_WIRE_MESSAGE(WorkerBlocked)
TROUPE_WIRE_MESSAGE(LightHostRequest)
TROUPE_WIRE_MESSAGE(LightHostReply)
TROUPE_WIRE_MESSAGE(KillProcess)
TROUPE_WIRE_MESSAGE(WarningText)
TROUPE_WIRE_MESSAGE(ProcessDied)
TROUPE_WIRE_MESSAGE(NodeDied)
TROUPE_WIRE_MESSAGE(LinkReport)
TROUPE_WIRE_MESSAGE(Congestion)
TROUPE_WIRE_MESSAGE(LogLines)
TROUPE_WIRE_MESSAGE(JobOutput)

}  // namespace troupe::wire
