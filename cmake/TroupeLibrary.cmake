# The one library that users link: all pieces that troupe_library collected, joined. Included after the last of them.
# What the pieces use stays behind it: users see the standard library and threads only.
get_property(pieces GLOBAL PROPERTY TROUPE_PIECES)
add_library(troupe STATIC)
add_library(troupe::troupe ALIAS troupe)
foreach(piece IN LISTS pieces)
  target_sources(troupe PRIVATE $<TARGET_OBJECTS:${piece}>)
endforeach()
set_target_properties(troupe PROPERTIES LINKER_LANGUAGE CXX)
target_compile_features(troupe PUBLIC cxx_std_20)
target_include_directories(troupe PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/kernels/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/collective/include>
  $<INSTALL_INTERFACE:include>)
target_link_libraries(troupe
  PUBLIC Threads::Threads
  PRIVATE troupe_spdlog troupe_xxhash Boost::fiber Boost::context Boost::json ${CMAKE_DL_LIBS})
