// Where libtroupe_rpc is looked for.
//
// Thread rule: any thread.
//
// Invariants
//   LSO-1  What the user names is the only place; else the loader's way comes first, and no place outside of the
//          program's and the library's own installation follows.
#pragma once
#include <string>
#include <vector>

namespace troupe::net {

inline constexpr const char* kRpcLibrary = "libtroupe_rpc.so";

struct LibraryPlaces {
  std::string named;              ///< a path that the user gave (LinksOptions::library, TROUPE_RPC_LIB); empty: none
  std::string executable_folder;  ///< of this program; empty: unknown
  std::string own_folder;         ///< of the file with this very code: the program, or a shared library
};
LibraryPlaces library_places(const std::string& named);

/// In the order in which they are tried. Programs lie in PREFIX/bin or PREFIX/lib/troupe/NAME, the library in
/// PREFIX/lib.
std::vector<std::string> library_candidates(const LibraryPlaces& places);

}  // namespace troupe::net
