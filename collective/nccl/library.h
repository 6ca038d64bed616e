// NCCL, opened by name: at the path that TROUPE_NCCL_LIB says, else where the loader finds it, else in Python's nvidia
// packages. A library that was named is the one that is wanted: when it fails nothing else is tried.
//
// Thread rule: any thread. A library stays open until the process ends.
#pragma once
#include <string>
#include <vector>

#include "collective/device/nccl_api.h"
#include <troupe/result.h>

namespace troupe::collective {

struct NcclLibrary {
  NcclApi api = {};
  int version = 0;   ///< 22809 is 2.28.9
  std::string path = {};  ///< of the file that was mapped
};

/// Where Python keeps packages: what is asked of the environment to guess it.
struct PythonPlaces {
  std::string virtual_environment = {}, conda_prefix = {}, home = {};
};

/// Pure: what is opened, in this order; names with a * are patterns of files.
std::vector<std::string> nccl_candidates(const std::string& named, const PythonPlaces& python);

/// An Error with everything that was tried, or with both versions where NCCL is older than kNcclOldest. Logs path and
/// version.
Result<NcclLibrary> open_nccl(const std::string& named, const PythonPlaces& python);

/// What stands against this version; empty: nothing.
std::string version_objection(int version);
/// "2.28.9".
std::string version_text(int version);

}  // namespace troupe::collective
