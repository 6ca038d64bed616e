# Frames, rings of shared memory and the endpoint that a process talks to its neighbours with.
troupe_library(net
  SOURCES
    net/endpoint/doorbell.cc
    net/endpoint/endpoint.cc
    net/endpoint/inbox.cc
    net/endpoint/peers.cc
    net/endpoint/role.cc
    net/base/frame.cc
    net/ring/ring.cc
    net/ring/ring_memory.cc
  DEPENDS base)
