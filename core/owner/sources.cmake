# Refs and what moves them: objects, buffers, values in frames.
troupe_library(owner
  SOURCES owner/buffers.cc owner/holds.cc owner/objects.cc owner/owner.cc owner/store_requests.cc owner/values.cc
  DEPENDS runtime objectstore fmt::fmt Boost::headers)
