// trajectories: episodes of a policy in any environment of apps/rl, a row a step; a sample is an episode.
//
//   episode_id, t, seed              int64: number of the sample, step of the episode, what the environment began with
//   obs, action                      elements of the environment's spaces
//   reward                           float64, as the environment pays it
//   terminated, truncated            bool
//   logp                             float32: of the action, where the behaviour says it; else no value
//   policy_version                   int64: the environment steps that the policy was trained by; -1: no policy played
//   final_obs                        behind the last step, on an episode's last row; else no value
//
// Words of the data set (Schema::metadata): env (its name in apps/rl), env_spec (JSON as of
// gymnasium.envs.registration.EnvSpec; of an environment that Gymnasium has not there is none), observation_space and
// action_space (JSON as rl::to_json), mixture, policy_sha256, medium_sha256.
//
// TRJ-1  An episode is a function of settings, policy files, instruction set, seed and its number (EPL-1): three
//        streams give it its environment's seed, its behaviour, and the seed of its draws of actions.
// TRJ-2  Digests of the policies' files are in identity() and in the words of the data set (GEN-3).
// TRJ-3  A policy that does not fit the environment is an InvalidArgumentError that says what it sees or does.
// TRJ-4  A Python that a policy's file names is run only where nobody else could have put it there (NPG-1).
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind trajectories();

}  // namespace datagen
