# The head: its state machine (pure), and the shell that gives it links, a clock and a log.
troupe_library(head
  SOURCES
    head/actors.cc
    head/actors_end.cc
    head/actors_life.cc
    head/actors_query.cc
    head/frame_codec.cc
    head/graveyard.cc
    head/handles.cc
    head/jobs.cc
    head/kv.cc
    head/light_table.cc
    head/listing.cc
    head/membership.cc
    head/server.cc
    head/state.cc
    head/supervision.cc
  DEPENDS net troupe_link scheduler base)
