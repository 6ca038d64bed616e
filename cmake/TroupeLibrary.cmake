# The one library that users link: all pieces that troupe_library collected, joined: libtroupe.a, or libtroupe.so with
# BUILD_SHARED_LIBS. Included after the last of them. What the pieces use stays behind it: users see the standard library and
# threads only.
#
# Boost. The libtroupe.a that is installed has its own Boost, under names of its own (join_archives.cmake): any other Boost may be
# in the same program. libtroupe.so shows the namespace troupe and nothing else (troupe.map), but needs Boost's shared libraries,
# and the static library of a build tree links Boost by its ordinary names: there the program has one Boost, this one.
include(GNUInstallDirs)
get_property(pieces GLOBAL PROPERTY TROUPE_PIECES)
add_library(troupe)
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
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Behind the library: whoever finds the installed package links none of it.
foreach(library IN ITEMS troupe_spdlog troupe_xxhash Boost::fiber Boost::context Boost::json ${CMAKE_DL_LIBS} rt)
  target_link_libraries(troupe PRIVATE $<BUILD_INTERFACE:${library}>)
endforeach()
target_link_libraries(troupe PUBLIC Threads::Threads)
if(BUILD_SHARED_LIBS)
  set(map ${PROJECT_SOURCE_DIR}/cmake/troupe.map)
  set_target_properties(troupe PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${map}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib BUILD_RPATH ${PROJECT_BINARY_DIR}/lib INSTALL_RPATH $ORIGIN)
  target_link_options(troupe PRIVATE LINKER:--version-script=${map} LINKER:--build-id=sha1)
endif()
