# What the parts of a driver or worker process share. The registry of remote functions stands by itself: it needs nothing else.
troupe_library(task
  SOURCES runtime/registry.cc
  DEPENDS base ${CMAKE_DL_LIBS})
troupe_library(runtime
  SOURCES runtime/context.cc runtime/core_lock.cc runtime/frame_router.cc runtime/requests.cc runtime/runtime.cc
          runtime/service_queue.cc runtime/waits.cc
  DEPENDS task wire net exec base fmt::fmt Boost::headers)
