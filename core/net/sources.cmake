# Frames, rings of shared memory and the endpoint that a process talks to its neighbours with.
troupe_library(net
  SOURCES
    net/doorbell.cc
    net/endpoint.cc
    net/endpoint_inbox.cc
    net/endpoint_peers.cc
    net/endpoint_role.cc
    net/frame.cc
    net/ring.cc
    net/ring_memory.cc
  DEPENDS base)
