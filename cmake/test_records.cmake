# When the built-in plugins are built, their tests are recorded in the same way as for any plugin:
# by `privgrad plugins test`. Release mode requires these records.
set(privgrad_samples ${CMAKE_CURRENT_LIST_DIR}/../plugins/data_sources/sample)

set(privgrad_suite_version ${CMAKE_CURRENT_LIST_DIR}/../framework/host/include/privgrad/host/test_record.hpp)

# privgrad_test_params(<name> <NAME=YAML>): the parameters from which the suite makes a component of
# the plugin <name>, if its declaration does not give them; paths are relative to
# plugins/data_sources/sample.
function(privgrad_test_params name)
  set_property(TARGET privgrad_plugin_${name} APPEND PROPERTY PRIVGRAD_TEST_PARAMS ${ARGN})
endfunction()

# privgrad_record_tests(<target> <plugin target>...): a target that makes and installs the records.
function(privgrad_record_tests target)
  set(records "")
  foreach(plugin IN LISTS ARGN)
    get_target_property(folder ${plugin} LIBRARY_OUTPUT_DIRECTORY)
    get_target_property(name ${plugin} OUTPUT_NAME)
    get_target_property(component ${plugin} PRIVGRAD_COMPONENT)
    get_target_property(given ${plugin} PRIVGRAD_TEST_PARAMS)
    set(params "")
    if(given)
      foreach(one IN LISTS given)
        list(APPEND params --params ${one})
      endforeach()
    endif()
    set(record ${folder}/${name}.privgrad.so.tested.json)
    # The time limit allows for sanitizers on a busy machine. A new suite makes new records if its
    # version changes, not whenever something that it links is edited: the test of the built-in
    # plugins then runs it.
    add_custom_command(OUTPUT ${record}
      COMMAND ${CMAKE_COMMAND} -E env PRIVGRAD_DATA_DIR=${privgrad_samples}
              $<TARGET_FILE:privgrad-conformance> --quiet --time-limit 600 ${params} $<TARGET_FILE:${plugin}>
      WORKING_DIRECTORY ${privgrad_samples} DEPENDS ${plugin} ${privgrad_suite_version}
      COMMENT "Testing plugin ${name}" VERBATIM)
    list(APPEND records ${record})
    cmake_path(GET folder FILENAME kind)
    install(FILES ${record} DESTINATION lib/privgrad/plugins/${kind} COMPONENT ${component})
  endforeach()
  add_custom_target(${target} ALL DEPENDS ${records})
  add_dependencies(${target} privgrad-conformance)
endfunction()
