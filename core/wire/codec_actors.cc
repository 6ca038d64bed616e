// Codecs of messages: actors, their creation and their state. See wire/codec.h.
#include "core/wire/codec_define.h"
#include "core/wire/messages.h"

namespace troupe::wire {

TROUPE_WIRE_MESSAGE(ActorSpec)
TROUPE_WIRE_MESSAGE(CreateActorReply)
TROUPE_WIRE_MESSAGE(ResolveActor)
TROUPE_WIRE_MESSAGE(ActorLocation)
TROUPE_WIRE_MESSAGE(NamedActor)
TROUPE_WIRE_MESSAGE(NamedActorReply)
TROUPE_WIRE_MESSAGE(KillActor)
TROUPE_WIRE_MESSAGE(ActorStarted)
TROUPE_WIRE_MESSAGE(ActorExited)
TROUPE_WIRE_MESSAGE(ActorDeath)
TROUPE_WIRE_MESSAGE(HandleCounts)
TROUPE_WIRE_MESSAGE(Checkpoint)
TROUPE_WIRE_MESSAGE(KeptName)
TROUPE_WIRE_MESSAGE(KeepRequest)
TROUPE_WIRE_MESSAGE(KeepReply)
TROUPE_WIRE_MESSAGE(ConstructActor)
TROUPE_WIRE_MESSAGE(StartActor)
TROUPE_WIRE_MESSAGE(StartActorFailed)
TROUPE_WIRE_MESSAGE(EndActor)
TROUPE_WIRE_MESSAGE(LightActors)

}  // namespace troupe::wire
