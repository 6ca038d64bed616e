// Codecs of messages: collective groups. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/group_messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(ExpectRanks)
TROUPE_WIRE_MESSAGE(RankLeft)
TROUPE_WIRE_MESSAGE(RankSocket)
TROUPE_WIRE_MESSAGE(RankDoor)
TROUPE_WIRE_MESSAGE(GroupWord)
TROUPE_WIRE_MESSAGE(GroupAnswer)

}  // namespace troupe::wire
