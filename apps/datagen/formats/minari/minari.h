// Minari: episodes as HDF5, by libhdf5, as minari 0.5.4 reads them.
//
//   data/shard-00000-of-00100.hdf5   groups episode_K: observations [T + 1], actions, rewards (float64), terminations,
//                                    truncations [T]; attributes id, seed, total_steps, rewards_sum, _mean, _std, _max,
//                                    _min
//   data/main_data.hdf5              a link to each episode in the shards
//   data/metadata.json               last: before it is there minari sees no data set
//
// Of a table's columns it takes obs, action, reward, terminated, truncated, final_obs (a value in the last row of each
// sample) and seed; of the schema's metadata observation_space and action_space, which it needs, and env_spec. Other
// columns are left out, other metadata is kept as words.
//
// A shard is in memory until it is finished.
//
// MNR-1  A table without these columns is an InvalidArgumentError of check().
#pragma once

#include "apps/datagen/formats/format.h"

namespace datagen {

[[nodiscard]] FormatKind minari_format();

}  // namespace datagen
