# Executor threads and fibers: how anything waits. Sanitizers cannot follow Boost.Context's stacks: there fibers are threads.
if(TROUPE_SANITIZE MATCHES "address|thread")
  set(troupe_fibers exec/fibers_on_threads.cc)
else()
  set(troupe_fibers exec/fibers.cc)
endif()
troupe_library(exec
  SOURCES exec/waiter.cc exec/shared_queue.cc exec/stack_overflow.cc ${troupe_fibers}
  DEPENDS net base Boost::fiber Boost::context)
