// The generators that come with Troupe, registered by name.
#pragma once

#include <troupe/result.h>

namespace datagen {

/// In main, before anything else. Once: GRG-1.
troupe::Status register_builtin_generators();

}  // namespace datagen
