# Paths are relative to core/, which includes this file.
troupe_library(base
  SOURCES base/clock.cc base/copy.cc base/error.cc base/exception.cc base/fmt.cc base/ids.cc base/log.cc base/output.cc base/serialize.cc
  DEPENDS Threads::Threads fmt::fmt spdlog::spdlog)
