#include "apps/datagen/generators/builtin.h"

#include "apps/datagen/generators/blobs.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/generators/gpt/gpt_text.h"
#include "apps/datagen/generators/mm1_queue.h"
#include "apps/datagen/generators/option_prices.h"
#include "apps/datagen/generators/scenes/scenes.h"
#include "apps/datagen/generators/tabular.h"
#include "apps/datagen/generators/trajectories/trajectories.h"

namespace datagen {

troupe::Status register_builtin_generators() {
  for (GeneratorKind (*kind)() : {&option_prices, &mm1_queue, &tabular, &blobs, &trajectories, &scenes, &gpt_text})
    if (troupe::Status registered = register_generator(kind()); !registered.ok()) return registered;
  return {};
}

}  // namespace datagen
