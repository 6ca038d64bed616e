// Codecs of messages: the bootstrap socket's packets. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(Hello)
TROUPE_WIRE_MESSAGE(Welcome)
TROUPE_WIRE_MESSAGE(Refused)
TROUPE_WIRE_MESSAGE(PairOffer)
TROUPE_WIRE_MESSAGE(ForkRequest)
TROUPE_WIRE_MESSAGE(Forked)
TROUPE_WIRE_MESSAGE(Exited)
TROUPE_WIRE_MESSAGE(LauncherReady)

}  // namespace troupe::wire
