# How long a build takes. Most of that is headers, read again and again, and half of it is the JSON library's.
option(PRIVGRAD_UNITY_BUILD "Compile cold code several sources at a time: quicker from nothing, slower after an edit" OFF)
set(privgrad_batch 12)  # whoever edits one source waits for that many, not for a room

# privgrad_cold(<target> [APART] [EXCEPT <source>...])
#
# For code that is not on the way of a training step, of noise, or of an accountant's bounds: what the optimizer could
# do for it, nobody would notice. APART: each source alone, because they use one name for different things. Sources
# after EXCEPT are compiled as everything else.
function(privgrad_cold target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "APART" "" "EXCEPT")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(PRIVGRAD_UNITY_BUILD AND NOT arg_APART)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${privgrad_batch})
  endif()
  foreach(source IN LISTS arg_EXCEPT)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      message(FATAL_ERROR "privgrad_cold(${target} EXCEPT): there is no ${source} here")
    endif()
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    set_property(SOURCE ${source} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
