# Executor threads and fibers: how anything waits. Sanitizers cannot follow Boost.Context's stacks: there fibers are threads.
if(TROUPE_SANITIZE MATCHES "address|thread")
  set(troupe_fiber_machine exec/thread_fibers.cc)
else()
  set(troupe_fiber_machine exec/boost_fibers.cc)
endif()
troupe_library(exec
  SOURCES exec/fibers.cc exec/waiter.cc exec/shared_queue.cc exec/guarded_stack.cc exec/stack_overflow.cc ${troupe_fiber_machine}
  DEPENDS net base Boost::fiber Boost::context)
