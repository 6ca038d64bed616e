# Executor threads and fibers: how anything waits.
troupe_library(exec
  SOURCES exec/waiter.cc exec/fibers.cc
  DEPENDS net base Boost::fiber Boost::context)
