# The registry of remote functions.
troupe_library(task
  SOURCES task/registry.cc
  DEPENDS base ${CMAKE_DL_LIBS})
