# Every built-in plugin exports exactly two symbols, in every build type, and its file tells the
# dynamic linker to resolve everything at once (NOW) and never to unmap it (NODELETE).
file(GLOB_RECURSE plugins ${PLUGINS}/*.privgrad.so)
if(NOT plugins)
  message(FATAL_ERROR "no plugins in ${PLUGINS}")
endif()
foreach(plugin IN LISTS plugins)
  execute_process(COMMAND ${NM} -D --defined-only --format=just-symbols ${plugin}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols STREQUAL "privgrad_plugin_note\nprivgrad_plugin_register_v2\n")
    message(SEND_ERROR "${plugin} exports:\n${symbols}")
  endif()
  execute_process(COMMAND ${READELF} --dynamic ${plugin} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(NOT dynamic MATCHES "FLAGS_1[^\n]*NOW" OR NOT dynamic MATCHES "FLAGS_1[^\n]*NODELETE")
    message(SEND_ERROR "${plugin}: link it with -z now and -z nodelete, as privgrad_add_plugin does")
  endif()
endforeach()
