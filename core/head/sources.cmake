# The head: its state machine (pure), and the shell that gives it links, a clock and a log.
troupe_library(head
  SOURCES
    head/state/actors.cc
    head/state/actors_end.cc
    head/state/actors_life.cc
    head/state/actors_query.cc
    head/state/actors/actor_names.cc
    head/state/actors/actor_placement.cc
    head/state/actors/actor_questions.cc
    head/service/frame_codec.cc
    head/service/journal.cc
    head/state/graveyard.cc
    head/state/handles.cc
    head/state/jobs.cc
    head/state/keeping.cc
    head/state/kv.cc
    head/state/light_table.cc
    head/state/listing.cc
    head/state/membership.cc
    head/state/metrics.cc
    head/service/server.cc
    head/service/shell.cc
    head/state/state.cc
    head/state/supervision.cc
  DEPENDS net troupe_link wire scheduler base)
