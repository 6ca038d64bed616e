# Joins static archives into ${folder}/libtroupe.a, in which Boost has names of its own: the namespace boost is called
# troupe_boost there, and its three functions in assembly have the prefix troupe_. So a program may hold another Boost.
#
#   inputs, folder, CMAKE_AR, CMAKE_NM, CMAKE_OBJCOPY     set by whoever includes this
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})

# ar's script language knows no quoting: it sees numbered links instead of paths.
set(script "create libtroupe.a\n")
set(number 0)
foreach(input IN LISTS inputs)
  file(CREATE_LINK ${input} ${folder}/${number}.a SYMBOLIC)
  string(APPEND script "addlib ${number}.a\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${folder}/script "${script}save\nend\n")
execute_process(COMMAND ${CMAKE_AR} -M WORKING_DIRECTORY ${folder} INPUT_FILE ${folder}/script COMMAND_ERROR_IS_FATAL ANY)

# In a mangled name an identifier stands behind its length.
execute_process(COMMAND ${CMAKE_NM} -j libtroupe.a WORKING_DIRECTORY ${folder} OUTPUT_FILE ${folder}/symbols
  COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${folder}/symbols symbols REGEX "^_Z.*[^0-9]5boost|^(make|jump|ontop)_fcontext$")
list(REMOVE_DUPLICATES symbols)
set(names)
foreach(symbol IN LISTS symbols)
  if(symbol MATCHES "_fcontext$")
    string(APPEND names "${symbol} troupe_${symbol}\n")
  else()
    string(REGEX REPLACE "([^0-9])5boost" "\\112troupe_boost" own "${symbol}")
    string(APPEND names "${symbol} ${own}\n")
  endif()
endforeach()
file(WRITE ${folder}/names "${names}")
execute_process(COMMAND ${CMAKE_OBJCOPY} --redefine-syms=names libtroupe.a WORKING_DIRECTORY ${folder}
  COMMAND_ERROR_IS_FATAL ANY)
