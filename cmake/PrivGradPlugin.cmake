include_guard(GLOBAL)
set(PRIVGRAD_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/privgrad_plugin.lds")

# privgrad_add_plugin(<name> KIND <room> SOURCES <file>... [LIBRARIES <target>...]
#                     [OUTPUT_DIRECTORY <directory>] [COMPONENT <component>] [NO_INSTALL])
#
# Builds <name>.privgrad.so the one way the loader expects. <room> is the folder of its kind: accountants,
# aggregators, backends, clippings, clusters, data_sources, models, optimizers, samplers, schedules, transforms. The same
# function serves plugins in this repository and plugins elsewhere (find_package(privgrad)). OUTPUT_DIRECTORY is for test
# fixtures, which the command must not find; COMPONENT is that of the installation, `plugins` by default.
function(privgrad_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "KIND;OUTPUT_DIRECTORY;COMPONENT" "SOURCES;LIBRARIES")
  if(NOT arg_KIND OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: privgrad_add_plugin(<name> KIND <room> SOURCES <file>... [LIBRARIES <target>...])")
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} ${CMAKE_SHARED_LINKER_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}"
     MATCHES "-Ofast|-ffast-math")
    message(FATAL_ERROR "privgrad plugins must not use -ffast-math: linking it flips the whole process to flush-to-zero")
  endif()

  if(NOT arg_COMPONENT)
    set(arg_COMPONENT plugins)
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/privgrad/plugins/${arg_KIND}")
  endif()

  # The target has a prefix, because other targets may have the same name as a plugin.
  set(target privgrad_plugin_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  if(COMMAND privgrad_together)  # in this repository
    privgrad_together(${target} ${arg_SOURCES})
  endif()
  target_link_libraries(${target} PRIVATE privgrad::sdk ${arg_LIBRARIES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  if(COMMAND privgrad_warnings)
    privgrad_warnings(${target})
  endif()
  # gcc: no STB_GNU_UNIQUE symbols, which would merge the statics of different plugins.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE LINKER:-z,nodelete LINKER:-z,now LINKER:--version-script=${PRIVGRAD_PLUGIN_EXPORTS})
  if(NOT "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")  # clang's sanitizer runtimes are in the program, not here
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PRIVGRAD_PLUGIN_EXPORTS})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} PREFIX "" SUFFIX ".privgrad.so" PRIVGRAD_COMPONENT ${arg_COMPONENT}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIRECTORY}"
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../../.." BUILD_WITH_INSTALL_RPATH ON)
  # The loader refuses files that other users may write, which a umask of 002 would allow.
  add_custom_command(TARGET ${target} POST_BUILD COMMAND chmod go-w $<TARGET_FILE:${target}> VERBATIM)
  if(NOT arg_NO_INSTALL)
    set_property(GLOBAL APPEND PROPERTY PRIVGRAD_PLUGIN_TARGETS ${target})
    install(TARGETS ${target} LIBRARY DESTINATION lib/privgrad/plugins/${arg_KIND} COMPONENT ${arg_COMPONENT}
            PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
endfunction()

# privgrad_add_conformance_test(<name>)
#
# Adds the test <name>-conformance, in which `privgrad plugins test` checks the built file for
# everything that the interfaces of the components in the plugin <name> promise (repeatable values,
# finite results, unchanged outputs on errors, ...). The built-in plugins pass the same suite. The
# test is ended after ten minutes; set its property TIMEOUT if a component needs more.
function(privgrad_add_conformance_test name)
  if(NOT TARGET privgrad_plugin_${name})
    message(FATAL_ERROR "privgrad_add_conformance_test(${name}): there is no plugin of that name; call privgrad_add_plugin(${name} ...) first")
  endif()
  add_test(NAME ${name}-conformance COMMAND $<TARGET_FILE:privgrad::privgrad> plugins test $<TARGET_FILE:privgrad_plugin_${name}>)
  set_tests_properties(${name}-conformance PROPERTIES TIMEOUT 600)
endfunction()
