// Finds a plug-in of the formats, a shared library that holds what needs a large library (Arrow, HDF5), so that
// programs start without it and build where it is missing.
//
// Plug-ins and programs are of one build: C++ objects pass between them, and each says its version first.
//
// Any thread.
//
// PLG-1  The loader's way comes first (RUNPATH of the program), then the program's own folder and the lib folder beside
//        it; nothing else is tried. What was opened stays open.
// PLG-2  One that is not there, or of another version, is a RuntimeEnvError that says what to do.
#pragma once

#include <string>

#include <troupe/result.h>

namespace datagen {

struct PluginName {
  std::string file;      ///< "libdatagen_parquet.so"
  std::string function;  ///< void* function(int version): null for another version than its own
  int version = 0;
  std::string needs;     ///< "the format 'parquet' needs Arrow C++": how the error begins
};

/// What the plug-in's function gave.
[[nodiscard]] troupe::Result<void*> open_plugin(const PluginName& name);

}  // namespace datagen
