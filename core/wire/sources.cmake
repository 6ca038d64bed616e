# The control messages, and the codec of each, compiled once.
troupe_library(wire
  SOURCES
    wire/codec_actors.cc
    wire/codec_boot.cc
    wire/codec_cluster.cc
    wire/codec_groups.cc
    wire/codec_processes.cc
    wire/codec_store.cc
    wire/codec_values.cc
  DEPENDS base)
