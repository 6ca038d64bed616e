// Codecs of messages: values, and what travels beside a call. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(Empty)
TROUPE_WIRE_MESSAGE(ErrorRecord)
TROUPE_WIRE_MESSAGE(Resources)
TROUPE_WIRE_MESSAGE(HandleDesc)
TROUPE_WIRE_MESSAGE(TaskGrant)

}  // namespace troupe::wire
